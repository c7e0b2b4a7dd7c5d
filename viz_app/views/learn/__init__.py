"""The page Learn: lessons that drive the other pages."""

from viz_app.views.learn.page import page

__all__ = ["page"]
