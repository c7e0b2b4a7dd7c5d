"""The page Architecture: the whole model on one sentence, module by module."""

from viz_app.views.architecture.page import page

__all__ = ["page"]
