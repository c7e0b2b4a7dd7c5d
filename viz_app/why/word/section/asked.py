"""The account of a word that the view asks about, and the panels that are given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import streamlit as st

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import each_in_slices
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.vocabulary import (
    TOKEN_HELP,
    find_token,
    offered_in,
    target_labels,
    token_name,
    vocabulary_of,
)
from headwise.viz_app.why.word.account import MEAN, Account, run_account


def asked_account(selection: Selection, trace: Trace) -> Account:
    """Give the account of the token of a trace that the view asks about, against its other word.

    ``CheckpointError`` if the weights cannot be used, ``ValueError`` if the other word is no token,
    or the same one.
    """
    at, chosen = min(view().at, len(trace.predicted) - 1), view().instead
    other = None
    if chosen == "":
        other = _likeliest_others(trace, at)[0]
    elif chosen != MEAN:
        other = find_token(selection, vocabulary_of(selection, "target"), chosen)
    return ask_trace(run_account, selection.run, trace, at, other)


def _likeliest_others(trace: Trace, at: int) -> list[int]:
    return [id for id in trace.predictions.top_ids[at].tolist() if id != trace.predicted.ids[at]]


def choose_other_word(
    selection: Selection,
    trace: Trace,
    at: int,
    label: str,
    *,
    on_change: Callable[[], None] = lambda: None,
) -> None:
    """Ask for the word that the token at a position is compared with."""
    others = _likeliest_others(trace, at)
    vocabulary = vocabulary_of(selection, "target")

    def written(name: str) -> str:
        if name == "":
            return f"{vocabulary.labels[others[0]]} — the likeliest other token"
        if name == MEAN:
            return "the mean of all tokens of the vocabulary"
        return vocabulary.written(name)

    likeliest = [token_name(id) for id in others]
    offered = dict.fromkeys([*likeliest, *offered_in(vocabulary)])
    offered.pop(token_name(trace.predicted.ids[at]), None)
    with st.container(key="compared"):
        st.selectbox(
            label,
            ["", MEAN, *offered],
            format_func=written,
            accept_new_options=True,
            help=TOKEN_HELP.replace("of the sentence", "that are likeliest here"),
            **control("instead", "Other word", written=written, on_change=on_change),
        )


def compared_words(run: Run, account: Account) -> tuple[str, str]:
    """Return what people read for the two words of an account."""
    ids = [account.word] if account.instead is None else [account.word, account.instead]
    names = target_labels(run, ids)
    return names[0], names[1] if account.instead is not None else "the mean of all tokens"


def accounts_by_step(
    selection: Selection, trace: Trace, account: Account, *, stop: Callable[[], None]
) -> dict[int, Account] | None:
    """Ask checkpoints for the same two words on the same source and target, in slices.

    ``stop`` changes the view so that this is not asked for again. None while there is more to do.
    """
    steps = selection.steps()

    def ask(step: int) -> Account:
        given = replace(trace, step=step)  # of which only its tokens are read, and what is off
        return ask_trace(run_account, selection.run, given, account.step, account.instead)

    found = each_in_slices(
        "Asking every checkpoint", steps, ask, key="checkpoints-progress", stop=stop
    )
    return None if found is None else dict(zip(steps, found, strict=True))


Draw = Callable[[Selection, Trace, Account], None]

TOKENS, OTHER, DIFFERENCE, ANSWER, INSPECTOR = (
    f"why-{name}" for name in ("tokens", "other", "difference", "answer", "inspector")
)
"""The keys of the panels, in the order of the page."""


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
    """Choose a head, or mark tokens, from the callback of a click: the pictures come first."""
    change_view(ANSWER, INSPECTOR, TOKENS, **choices)


def ask(**choices: Any) -> None:
    """Ask about another word, from the callback of a click.

    The list of all words takes a browser long, and comes after the pictures.
    """
    change_view(TOKENS, DIFFERENCE, ANSWER, INSPECTOR, OTHER, **choices)
