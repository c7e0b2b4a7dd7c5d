"""The page Learn: lessons that drive the other pages."""
