"""The panels of the section *this word*: a click draws again those that it changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import streamlit as st

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view
from headwise.viz_app.why.word.account import Account
from headwise.viz_app.why.word.section.asked import asked_account

Draw = Callable[[Selection, Trace, Account], None]

TOKENS, OTHER, DIFFERENCE, ANSWER, INSPECTOR = (
    f"why-{name}" for name in ("tokens", "other", "difference", "answer", "inspector")
)
"""The keys of the panels, in the order of the page."""
_MARKED = (ANSWER, INSPECTOR, TOKENS)
"""Panels that show which head is chosen, and which token is marked: the pictures first."""
_ALL = (TOKENS, DIFFERENCE, ANSWER, INSPECTOR, OTHER)
"""All of them; the list of all words takes a browser long, and comes after the pictures."""


def account_panel(key: str) -> Callable[[Draw], Callable[[Selection, Trace], None]]:
    """Make a function a panel, which is given the account that the view asks about.

    It is not called where the other word is no token, which the panel ``OTHER`` says.
    """

    def decorate(draw: Draw) -> Callable[[Selection, Trace], None]:
        @panel(key)
        @wraps(draw)
        def with_account(selection: Selection, trace: Trace) -> None:
            try:
                account = asked_account(selection, trace)
            except ValueError:
                return
            st.session_state["files"] = f"headwise-{trace.run}-{trace.step}-why-{account.step + 1}"
            draw(selection, trace, account)

        return with_account

    return decorate


def mark(**choices: Any) -> None:
    """Choose a head, or mark tokens, from the callback of a click."""
    change_view(*_MARKED, **choices)


def ask(**choices: Any) -> None:
    """Ask about another word, from the callback of a click."""
    change_view(*_ALL, **choices)
