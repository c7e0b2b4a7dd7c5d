"""The page Model: the whole model on one sentence."""
