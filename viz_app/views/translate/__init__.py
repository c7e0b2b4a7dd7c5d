"""The page Translate: a sentence, its translation, and what every head did."""

from viz_app.views.translate.page import page

__all__ = ["page"]
