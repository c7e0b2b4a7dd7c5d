"""An unseen part of a panel that has the panel drawn again, over and over, while the app rests.

Streamlit's own ``run_every`` asks whatever the app is doing. Where it asks right behind another
panel, the browser keeps on the page what that panel no longer draws (Streamlit 1.67).
"""

from __future__ import annotations

from collections.abc import Callable

from headwise.viz_app.components.assets import component

_mount = component("at_rest")


def draw_again(*, seconds: float, on_due: Callable[[], None]) -> None:
    """Draw the panel that this stands in again after some seconds, once the app rests.

    While nobody sees the page, as in a hidden tab, it is not drawn again.

    Args:
        seconds: how long at least.
        on_due: called when it is drawn again.
    """
    _mount(key="at_rest", data={"seconds": seconds}, on_rests_change=on_due)
