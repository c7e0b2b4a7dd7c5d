"""Streamlit has the private parts that are used here, of which its versions promise nothing."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version
from streamlit.runtime import Runtime
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager

from headwise.viz_app.left_pages import SHARED
from tests.imports import ROOT


def test_streamlit_has_the_private_parts_that_are_used() -> None:
    pages = vars(PagesManager(str(Path("script.py"))))
    sets = {
        made: set(made.__init__.__code__.co_names) for made in (Runtime, WebsocketSessionManager)
    }
    assert {*SHARED} <= pages.keys()
    assert "_session_mgr" in sets[Runtime]
    assert {"_session_storage", "_storage_lock"} <= sets[WebsocketSessionManager]
    assert callable(WebsocketSessionManager.num_active_sessions)
    assert callable(MemorySessionStorage()._cache.expire)
    assert "is_history_navigation" in ScriptRunContext.__dataclass_fields__


def test_only_versions_of_streamlit_are_required_in_which_they_were_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [required] = [r for r in map(Requirement, project["dependencies"]) if r.name == "streamlit"]
    installed = Version(version("streamlit"))
    assert installed in required.specifier
    assert f"{installed.major}.{installed.minor + 1}" not in required.specifier
