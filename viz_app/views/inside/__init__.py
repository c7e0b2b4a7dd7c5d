"""The page Inside a head: one query followed through a layer, equation by equation."""

from viz_app.views.inside.page import page

__all__ = ["page"]
