"""The page Heads: what each head does over a corpus."""

from viz_app.views.heads.page import page

__all__ = ["page"]
