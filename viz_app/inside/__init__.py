"""The page Inside a head: one query through a layer, and the parts of a score."""
