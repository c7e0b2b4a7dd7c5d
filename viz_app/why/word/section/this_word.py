"""The section *this word*: why the model wrote a word, and not another one."""

from __future__ import annotations

import math

import streamlit as st

from headwise.model.interface import head_name, parse_head
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.analysis.labels import head_of, part_label, three_digits, token_labels
from headwise.viz_app.figures.bars import signed_text
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.errors import show_error
from headwise.viz_app.session.head_choice import head_label
from headwise.viz_app.session.lessons import answered
from headwise.viz_app.session.markdown import escape_markdown, power_of_ten
from headwise.viz_app.session.measured_heads import HeadsInWords
from headwise.viz_app.session.measures import measures_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import source_buttons, target_buttons
from headwise.viz_app.session.turns import let_browser_draw
from headwise.viz_app.session.view import checked, redraw_all, view
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.why.word.account import Account
from headwise.viz_app.why.word.section.asked import (
    ANSWER,
    DIFFERENCE,
    OTHER,
    TOKENS,
    Draw,
    account_panel,
    ask,
    asked_account,
    choose_other_word,
    compared_words,
    mark,
)
from headwise.viz_app.why.word.section.heads import show_encoder, show_inspector, show_maps
from headwise.viz_app.why.word.section.neurons import show_neurons
from headwise.viz_app.why.word.section.parts import show_parts, show_through_training
from headwise.viz_app.why.word.section.source import show_source_words

_ANSWERS: dict[str, tuple[str, Draw]] = {
    "parts": ("Each part", show_parts),
    "tokens": ("Heads by token", show_maps),
    "encoder": ("In the encoder", show_encoder),
    "neurons": ("Neurons", show_neurons),
    "words": ("Source words", show_source_words),
    "training": ("Over training", show_through_training),
}
"""What is shown of why the word was written: its name on the page, and what draws it."""


def show_this_word(selection: Selection, trace: Trace) -> None:
    """Draw the section."""
    _choose_tokens(selection, trace)
    beside, said = st.columns([2, 5], gap="medium")
    other = beside.container(key="other-word")
    with said.container(gap="xsmall", key="said"):
        _say_difference(selection, trace)
    _show_answer(selection, trace)
    let_browser_draw()
    with other:  # the list of all words, which takes a browser long
        _choose_other(selection, trace)
    with st.sidebar:
        show_inspector(selection, trace)


@account_panel(ANSWER)
def _show_answer(selection: Selection, trace: Trace, account: Account) -> None:
    """Ask what is shown of why the word was written, and draw that."""
    usable = [each for each in _ANSWERS if each != "training" or len(selection.run.steps()) > 1]
    answer = choose_one(
        "Answer", usable, key="answer", format_func=lambda each: _ANSWERS[each][0], show_label=False
    )
    with st.container(key=f"answer-{answer}"):
        _ANSWERS[answer][1](selection, trace, account)


@panel(TOKENS)
def _choose_tokens(selection: Selection, trace: Trace) -> None:
    """Draw the tokens of source and target, to mark one and to choose a prediction."""

    def mark_column(place: int, column: int | None) -> None:
        mark(column=column, **answered("source", place))

    target = token_labels(trace.predicted)
    at: int = checked("at", "Position", usable=range(len(target)).__contains__)
    earlier = checked("earlier", "Marked token so far", usable=range(len(target)).__contains__)
    with st.container(horizontal=True, gap="small", key="tokens-row"):
        source_buttons(
            selection, trace, does="each marks its column in the maps", on_mark=mark_column
        )
        target_buttons(
            selection,
            trace,
            does="each asks why it was written",
            on_click=lambda place: ask(at=place, **answered("target", place)),
            chosen=at,
            marked=() if earlier is None or not 0 < earlier <= at else (earlier - 1,),
            side="target",
        )


@panel(OTHER)
def _choose_other(selection: Selection, trace: Trace) -> None:
    """Ask for the word to compare with, and say if what is typed is no token."""
    at = min(view().at, len(trace.predicted) - 1)
    word = escape_markdown(token_labels(trace.predicted)[at])
    choose_other_word(selection, trace, at, f"Why “{word}” and not", on_change=redraw_all)
    try:
        asked_account(selection, trace)
    except ValueError as problem:
        show_error(problem)


@account_panel(DIFFERENCE)
def _say_difference(selection: Selection, trace: Trace, account: Account) -> None:
    """Say by how much the two words differ, and what is summed up below."""
    words = compared_words(selection.run, account)
    names = [f"**{escape_markdown(label)}**" for label in words]
    size, ahead = abs(account.difference), account.difference >= 0
    cap = selection.run.description.logit_cap
    said = (
        f"{names[0]} {'beats' if ahead else 'is behind'} {names[1]} by {three_digits(size)} logits"
    )
    if cap is not None:
        said += f", before their cap {cap:g} tanh(logit / {cap:g})"
    elif account.instead is not None:
        times = three_digits(math.exp(size)) if size < 14 else f"10^{size / math.log(10):.1f}"
        said += f": {times} times {'as likely' if ahead else 'less likely'}"
    off = power_of_ten(abs(account.deviation))
    st.markdown(
        f"{said}.",
        help="The bars add up to this. They are what each part of the decoder wrote into the "
        f"stream at this position (direct logit attribution; {account.held}; the sum misses it by "
        f"{off}).",
    )
    st.markdown(say_largest(trace, account, names[0]))
    _say_costliest(selection, account)


def _say_costliest(selection: Selection, account: Account) -> None:
    """Say which head costs most when it is off, if it is not the one that speaks most here."""
    run = selection.run
    measures = measures_of(run, [selection.step]).by_step.get(selection.step)
    if measures is None or not (ranked := rank_heads(measures.values["cost"])):
        return
    head, value = ranked[0]
    if head_name(head) != _largest_head(account):
        cost = HeadsInWords(run, measures).with_error("cost", head, value)
        st.caption(
            f"Over {measures.corpus.sentences:,} sentences {head_label(head)} costs most when it "
            f"is off: {cost} nats a token.",
            help="What a head writes and what is lost without it differ where other heads do the "
            "same, or read what it wrote. Whole effects take each part out for this word.",
        )


def _largest_head(account: Account) -> str:
    """Return the name of the head that speaks most for the word, or against a less likely one."""
    parts = dict(account.named())
    largest = max if account.difference >= 0 else min
    return largest((name for name in parts if head_of(name) is not None), key=parts.__getitem__)


def say_largest(trace: Trace, account: Account, word: str) -> str:
    """Say which part, and which head by which token, speaks most for or against a word."""
    way = "for" if account.difference >= 0 else "against"
    parts = dict(account.named())
    largest = max if way == "for" else min
    part, name = largest(parts, key=parts.__getitem__), _largest_head(account)
    said = f"Most {way} {word} of all parts: {part_label(part)}, {signed_text(parts[part])}"
    if parts[name] == 0 or (parts[name] > 0) != (way == "for"):
        return f"{said}. No head speaks {way} it."
    kind, layer, number = parse_head(name)
    cells = account.parts.heads[kind][layer, number].tolist()
    cell = largest(cells)
    tokens = token_labels(trace.source if kind == "cross" else trace.consumed)
    token = escape_markdown(tokens[cells.index(cell)])
    share = cell / (parts[name] or math.inf)
    if 0 < share <= 1:
        what = "most of it" if share > 0.5 else "the largest part of it"
        read = f"{what} by “{token}” ({signed_text(cell)})"
    else:
        back = three_digits(abs(cell - parts[name]))
        read = f"most by “{token}” ({signed_text(cell)}), of which others take back {back}"
    if part == name:
        return f"{said}, {read}."
    return f"{said}. Of heads: {part_label(name)}, {signed_text(parts[name])}, {read}."
