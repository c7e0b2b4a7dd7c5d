"""The page Training: runs along the steps of training."""
