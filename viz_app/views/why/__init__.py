"""The page Why."""
