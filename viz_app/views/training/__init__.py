"""The page Training: a run, or several, along the steps of training."""
