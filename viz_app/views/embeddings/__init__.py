"""The page Embeddings & positions: what enters the model before any attention."""

from viz_app.views.embeddings.page import page

__all__ = ["page"]
