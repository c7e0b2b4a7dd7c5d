"""Show errors in the place where they occur, and go on with the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from headwise.model.files import CheckpointError, NoCheckpointYetError
from headwise.model.training.data import DataError
from headwise.viz_app.served import without_places
from headwise.viz_app.session.log import log_failure, log_refusal
from headwise.viz_app.session.markdown import escape_markdown

USER_ERRORS = (CheckpointError, DataError, ValueError, OSError)
"""Errors that a person can cause and put right; their messages are shown."""


class InternalError(Exception):
    """What visitors are told of any other error; the terminal has what it was."""

    def __init__(self) -> None:
        super().__init__(
            "Something in Headwise itself went wrong here; what it was stands in the terminal "
            "where the app was started. Load the page again, or choose something else."
        )


@contextmanager
def show_user_errors() -> Iterator[None]:
    """Show an error in place of the block or function, and go on."""
    try:
        yield
    except NoCheckpointYetError as waiting:
        st.info(
            f"{describe_error(waiting)}. The first checkpoint is shown here as soon as it is "
            "complete."
        )
    except USER_ERRORS as problem:
        show_error(problem)
    except Exception as problem:
        log_failure(problem)
        st.exception(InternalError())


def show_error(problem: Exception) -> None:
    """Show an error that a person caused, and note it in the terminal."""
    log_refusal(problem)
    st.error(describe_error(problem))


def describe_error(problem: Exception) -> str:
    """Return the message of an error as Markdown, without where on this machine its files are."""
    text = without_places(str(problem))
    if isinstance(problem, OSError) and isinstance(problem.filename, str):
        text = f"{Path(problem.filename).name}: {problem.strerror}"
    return escape_markdown(text)
