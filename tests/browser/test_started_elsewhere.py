"""However and wherever it is started, the app is seen on this machine only, and tells nobody."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.load_server import APP
from tests.browser.conftest import PORT

if TYPE_CHECKING:
    from tests.browser.driver import App

WAYS = {
    "streamlit run": (*APP, *PORT),
    "python -m headwise.viz_app": ("-m", "headwise.viz_app", "--port", "0"),
    "headwise": (str(Path(sys.executable).with_name("headwise")), "--port", "0"),
}
OPEN = """
[server]
address = "0.0.0.0"
[browser]
gatherUsageStats = true
[client]
showErrorDetails = "full"
"""
"""The opposite of what the app asks for, in the settings of the folder where it is started."""


@pytest.mark.parametrize("command", WAYS.values(), ids=WAYS)
def test_started_from_any_folder_it_listens_on_this_machine_only(
    serve: Callable[..., str],
    new_app: Callable[..., App],
    tmp_path: Path,
    command: Sequence[str],
) -> None:
    """All of 127/8 is this machine, and a server that listens on every address answers there."""
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(OPEN)
    address = serve(cwd=tmp_path, command=command)
    port = urlsplit(address).port
    assert port is not None
    socket.create_connection(("localhost", port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass
    app = new_app(address)  # whose driver complains of requests to other hosts
    received = app.frames("framereceived")
    app.open()
    app.expect_read("large", "gd._fullData.length > 0", expected=True)
    messages = map(ForwardMsg.FromString, received)
    begun = [message.new_session for message in messages if message.HasField("new_session")]
    assert begun
    assert not any(session.config.gather_usage_stats for session in begun)
