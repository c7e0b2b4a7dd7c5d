"""The section *this word*: why the model wrote a word, and not another one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.components.token_buttons import token_buttons
from headwise.viz_app.records.account import Account
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import tokens_of
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.lessons import answered
from headwise.viz_app.views.shared.log import log_refusal
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import target_probabilities
from headwise.viz_app.views.shared.view import change_view, checked, control
from headwise.viz_app.views.shared.vocabulary import (
    TOKEN_HELP,
    find_token,
    offered_in,
    token_name,
    vocabulary_of,
)
from headwise.viz_app.views.why.caches import account_of
from headwise.viz_app.views.why.encoder import show_encoder
from headwise.viz_app.views.why.neurons import show_neurons
from headwise.viz_app.views.why.parts import show_maps, show_parts
from headwise.viz_app.views.why.source import show_source_words
from headwise.viz_app.views.why.training import show_through_training

_MEAN = "mean"
"""How the view names the mean of all words."""


@panel("this word")
def show_this_word(selection: Selection, trace: Trace) -> None:
    """Draw the section."""
    at = _choose_word(selection, trace)
    st.session_state["files"] = f"headwise-{trace.run}-{trace.step}-why-{at + 1}"
    account = _choose_other(selection, trace, at)
    if account is None:
        return
    _say_difference(selection, trace, account)
    show_parts(selection, trace, account)
    show_maps(selection, trace, account)
    show_encoder(selection, trace, account)
    show_neurons(selection, trace, account)
    show_source_words(selection, trace, account)
    show_through_training(selection, trace, account)


def _choose_word(selection: Selection, trace: Trace) -> int:
    """Draw the tokens of source and target, to mark one and to choose a prediction."""
    source, target = token_labels(trace.source), token_labels(trace.predicted)
    column = checked(
        "column",
        "Marked token",
        usable=range(len(source)).__contains__,
        written=source.__getitem__,
    )

    def mark(place: int) -> None:
        change_view(column=None if column == place else place, **answered("source", place))

    at: int = checked("at", "Position", usable=range(len(target)).__contains__)
    st.caption("The source: a click marks a token in all pictures below")
    token_buttons(
        source,
        name="Tokens of the source: each marks its column in the maps",
        theme=selection.theme,
        key="source_tokens",
        on_click=mark,
        chosen=column,
        language=selection.run.source_language,
    )
    st.caption("The translation: a click asks why the model wrote that token")
    probabilities, titles = target_probabilities(trace)
    token_buttons(
        target,
        name="Tokens of the target: each asks why it was written",
        theme=selection.theme,
        key="target_tokens",
        on_click=lambda place: change_view(at=place, **answered("target", place)),
        chosen=at,
        probabilities=probabilities,
        titles=titles,
        language=selection.run.target_language,
    )
    return at


def _choose_other(selection: Selection, trace: Trace, at: int) -> Account | None:
    """Ask for the word to compare with, and give the account; None if what is typed is no token."""
    word = trace.predicted.ids[at]
    others = [id for id in trace.predictions.top_ids[at].tolist() if id != word]
    vocabulary = vocabulary_of(selection, "target")

    def written(name: str) -> str:
        if name == "":
            return f"{vocabulary.labels[others[0]]} — the likeliest other token"
        if name == _MEAN:
            return "the mean of all tokens of the vocabulary"
        return vocabulary.written(name)

    likeliest = [token_name(id) for id in others]
    offered = dict.fromkeys([*likeliest, *offered_in(vocabulary)])
    offered.pop(token_name(word), None)
    with st.container(key="compared"):
        chosen: str = st.selectbox(
            f"Why “{escape_markdown(token_labels(trace.predicted)[at])}” and not",
            ["", _MEAN, *offered],
            format_func=written,
            accept_new_options=True,
            help=TOKEN_HELP.replace("of the sentence", "that are likeliest here"),
            **control("instead", "Other word", written=written),
        )
    try:
        if chosen == _MEAN:
            return account_of(selection.run, trace, at, None)
        other = others[0] if chosen == "" else find_token(selection, vocabulary, chosen)
        return account_of(selection.run, trace, at, other)
    except ValueError as problem:
        log_refusal(problem)
        st.error(describe_error(problem))
        return None


def _labels(selection: Selection, ids: Sequence[int]) -> list[str]:
    spaced = selection.run.tokenizers.target.kind == "bpe"
    texts = tokens_of(selection.run, "target", ids).texts
    return [next_token_label(text, spaced=spaced) for text in texts]


def _say_difference(selection: Selection, trace: Trace, account: Account) -> None:
    ids = [account.word] if account.instead is None else [account.word, account.instead]
    names = [f"**{escape_markdown(label)}**" for label in _labels(selection, ids)]
    size = abs(account.difference)
    way = "higher" if account.difference >= 0 else "lower"
    if account.instead is None:
        said = f"The logit of {names[0]} is {size:.3f} {way} than the mean of all logits."
    else:
        times = f"{math.exp(size):,.1f}" if size < 14 else f"10^{size / math.log(10):.1f}"
        likely = "as likely" if account.difference >= 0 else "less likely"
        said = (
            f"The logit of {names[0]} is {size:.3f} {way} than that of {names[1]}: the model finds "
            f"it {times} times {likely}."
        )
    norms = (
        "the divisor of the last norm is held at its value in this pass"
        if selection.run.description.norm == "pre"
        else "the divisors of all norms on the way are held at their values in this pass"
    )
    st.markdown(
        f"{said} Below, this difference is a sum of what each part of the decoder wrote into the "
        f"stream at this position ({norms}; the sum misses it by {abs(account.deviation):.0e})."
    )
