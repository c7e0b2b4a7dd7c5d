"""What each part of the decoder brought to a word, and each head by the token that it read."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.analysis.account import (
    REST,
    bars_by_layer,
    bars_by_size,
    disagrees,
    encoder_totals,
    head_of,
    limit_of,
    part_label,
)
from headwise.viz_app.analysis.labels import KIND_NAMES, token_labels
from headwise.viz_app.figures.account import heads_map, signed_bars, waterfall
from headwise.viz_app.records.account import Account, WholeEffects
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import DIRECT, READ_TOKENS
from headwise.viz_app.views.shared.head_choice import choices_for, chosen_head
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, control, view
from headwise.viz_app.views.shared.widgets import (
    choose_on_slider,
    choose_one,
    clicked_value,
    show_figure,
    show_heading,
    show_link,
)
from headwise.viz_app.views.why.caches import whole_effects_of

SIZES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Least magnitudes of a part with a bar of its own that are offered, in logits."""


def show_parts(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the parts as bars or as a waterfall, and the whole effects beside them if asked."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        how = choose_one(
            "Drawn as",
            ["bars", "waterfall"],
            key="account",
            help="Bars: every head and feed-forward by its size. Waterfall: sublayer by sublayer, "
            "in the order of the computation.",
        )
        if how == "bars":
            smallest = choose_on_slider(
                "Smallest part with a bar of its own",
                SIZES,
                key="smallest",
                format_func="{:g}".format,
                width=260,
            )
            with_whole = st.toggle(
                "Whole effects",
                help="Take each head and feed-forward out of the pass, one after another, and see "
                "what the difference loses.",
                **control("whole", "Whole effects"),
            )
    if how == "waterfall":
        bars = bars_by_layer(account)
        figure = waterfall(
            [bar.label for bar in bars],
            [bar.value for bar in bars],
            total="Difference",
            theme=selection.theme,
        )
        alt = "The difference sublayer by sublayer"
        show_figure(figure, key="account_parts", alt=alt, name="waterfall")
        st.caption(f"{DIRECT} Heads of a sublayer are added up.")
        return
    effects = _whole_effects(selection, trace, account) if with_whole else None
    _show_bars(selection, account, effects.decoder if effects else {}, smallest)
    if effects:
        _show_encoder_wholes(account, effects.encoder, smallest)


def _whole_effects(selection: Selection, trace: Trace, account: Account) -> WholeEffects:
    progress = st.progress(0.0, "Taking out one part after another")

    def note_done(done: int, of: int) -> None:
        progress.progress(done / of, f"Taking out one part after another: {done} of {of}")

    effects = whole_effects_of(selection.run, trace, account, note_done)
    progress.empty()
    return effects


def _show_bars(
    selection: Selection, account: Account, wholes: Mapping[str, float], smallest: float
) -> None:
    bars = bars_by_size(dict(account.named()), smallest)
    written, marks = [], 0
    for bar in bars:
        text = f"{bar.value:+.3f}"
        if bar.name in wholes:
            odd = disagrees(bar.value, wholes[bar.name], smallest)
            marks += odd
            text += f" · whole {wholes[bar.name]:+.3f}{' ≠' * odd}"
        written.append(text)
    head = chosen_head(selection.run.description, view())
    name = head_name(head)

    def choose() -> None:
        place = clicked_value("account_parts")
        if place is None:
            return
        part = bars[int(place)].name
        if (clicked := head_of(part)) is not None:
            change_view(**choices_for(clicked))
        elif part.startswith("feed_forward"):
            change_view(feed_forward=int(part.partition(".")[2]), neuron=None)

    show_figure(
        signed_bars(
            [bar.label for bar in bars],
            [bar.value for bar in bars],
            theme=selection.theme,
            limit=limit_of(account),
            written=written,
            marked=next((i for i, bar in enumerate(bars) if bar.name == name), None),
            clicks=[_click(bar.name) for bar in bars],
        ),
        key="account_parts",
        alt=f"{len(bars)} parts of the difference as signed bars, the largest on top",
        name="parts",
        on_select=choose,
    )
    note = f"{DIRECT} The bars sum to {account.parts.total:+.3f}."
    if wholes:
        note += (
            " “Whole” is what the difference loses when the part is taken out of the pass: for "
            "these there is no sum. "
        )
        note += f"≠ marks the {marks} that differ from it in sign or by more than half."
    st.caption(note)
    show_link(
        f"Open {part_label(name)} on Translate",
        "translate",
        key="open_translate",
        show="head",
        compare=False,
        below="steps",
    )


def _click(name: str) -> str:
    if head_of(name) is not None:
        return "choose this head"
    if name.startswith("feed_forward"):
        return "show the neurons of this feed-forward"
    return "the sum of the parts below the chosen size" if name == REST else part_label(name)


def _show_encoder_wholes(account: Account, wholes: Mapping[str, float], smallest: float) -> None:
    """Say which heads of the encoder matter, which write nothing into the decoder themselves."""
    direct = encoder_totals(account)
    heads = sorted(
        (name for name in wholes if name.startswith("encoder_self")),
        key=lambda name: -abs(wholes[name]),
    )[:4]
    parts = ", ".join(
        f"{part_label(name)} {wholes[name]:+.3f} (through cross-attention as it was: "
        f"{direct[name]:+.3f}{' ≠' * disagrees(direct[name], wholes[name], smallest)})"
        for name in heads
    )
    st.caption(f"Heads of the encoder with the largest whole effects: {parts}.")


def show_maps(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw what each head brought from each token that it read."""
    show_heading("Heads, by the token that they read")
    wide, narrow = st.columns([3, 2], gap="medium")
    with wide:
        _show_map(selection, trace, account, "cross")
    with narrow:
        _show_map(selection, trace, account, "decoder_self")
    st.caption(
        "A cell is weight × value × output projection, read in the direction of the one word less "
        f"the other; rows are layer.head. All scales of this page end at {limit_of(account):.2f} "
        "logits; sums may lie beyond. A click on a cell chooses its head and marks its token."
    )


def _show_map(selection: Selection, trace: Trace, account: Account, kind: Kind) -> None:
    head, column = chosen_head(selection.run.description, view()), view().column
    cells, is_cross, key = account.parts.heads[kind], kind == "cross", f"account_{kind}"
    _, heads, keys = cells.shape
    tokens = trace.source if is_cross else trace.consumed

    def choose() -> None:
        row, _, place = (clicked_value(key) or ",").partition(",")
        choices: dict[str, object] = {}
        if row:
            layer, number = divmod(int(row), heads)
            choices = choices_for(Head(kind, layer, number))
        if place and is_cross:
            choices["column"] = int(place)
        change_view(**choices)

    cell = None
    if is_cross and head.kind == kind and column is not None and column < keys:
        cell = (head.layer * heads + head.head, column)
    st.markdown(f"**{KIND_NAMES[kind]}**")
    show_figure(
        heads_map(
            cells,
            columns=token_labels(tokens)[:keys],
            column_title=READ_TOKENS[kind],
            limit=limit_of(account),
            theme=selection.theme,
            column=column if is_cross else None,
            cell=cell,
        ),
        key=key,
        alt=f"What each {KIND_NAMES[kind]} head brought from each token, with sums",
        name=f"{kind}-by-token",
        on_select=choose,
    )
