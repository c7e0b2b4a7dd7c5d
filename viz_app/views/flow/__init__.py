"""The page Data flow: the whole model on one sentence, module by module."""

from viz_app.views.flow.page import page

__all__ = ["page"]
