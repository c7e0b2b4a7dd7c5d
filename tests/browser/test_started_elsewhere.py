from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from tests.browser.driver import App


def test_started_from_any_folder_it_listens_on_this_machine_only(
    serve: Callable[..., str], new_app: Callable[..., App], tmp_path: Path
) -> None:
    """All of 127/8 is this machine, and a server that listens on every address answers there."""
    address = serve(cwd=tmp_path)
    port = urlsplit(address).port
    assert port is not None
    socket.create_connection(("localhost", port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass
    app = new_app(address)  # whose driver complains of requests to other hosts
    app.open()
    app.expect_read("large", "gd._fullData.length > 0", expected=True)
