"""The page Translate: a sentence, its translation, and what every head did."""
