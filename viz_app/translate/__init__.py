"""The page Translate: a translation, and what every head did for it."""
