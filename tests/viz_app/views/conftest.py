"""A page inside the frame, run without a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest


@pytest.fixture
def start_page(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Open a page by its module's name, on a folder of runs and an address's parameters.

    By a script of its own: Streamlit's tests can switch to file pages only.
    """

    def script(page: str) -> None:
        from importlib import import_module

        from viz_app.views import frame

        selection = frame.select()
        if selection is not None:
            import_module(f"viz_app.views.{page}").page(selection)

    def start(page: str, root: Path = run_root, **address: str) -> AppTest:
        monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(root))
        app = AppTest.from_function(script, default_timeout=60, args=(page,))
        for key, value in address.items():
            app.query_params[key] = value
        return app.run()

    return start
