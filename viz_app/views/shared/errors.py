"""Show errors that a person can put right where they occur, and go on with the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from model.files import CheckpointError
from viz_app.views.shared.log import log_refusal
from viz_app.views.shared.markdown import escape_markdown

USER_ERRORS = (CheckpointError, ValueError, OSError)
"""Errors that a person can cause and put right; they are shown in place."""


@contextmanager
def show_user_errors() -> Iterator[None]:
    """Show an error that a person can put right in place of the block or function, and go on."""
    try:
        yield
    except USER_ERRORS as problem:
        log_refusal(problem)
        st.error(escape_markdown(str(problem)))
