"""The page Inside a head: one query followed through a layer, equation by equation."""
