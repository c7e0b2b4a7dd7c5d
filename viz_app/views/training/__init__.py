"""The page Training: a run, or several, along the steps of training."""

from viz_app.views.training.page import page

__all__ = ["page"]
