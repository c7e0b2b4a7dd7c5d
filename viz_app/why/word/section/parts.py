"""What each part of the decoder brought to a word, what it loses without one, and since when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from headwise.model.interface import head_name
from headwise.viz_app.analysis.labels import count_of, head_of, three_digits
from headwise.viz_app.figures.bars import bar_chart, signed_text
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.figures.parts import waterfall
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_slowly
from headwise.viz_app.session.caches import weights_of
from headwise.viz_app.session.download import Files
from headwise.viz_app.session.head_choice import choices_for, chosen_head
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control, redraw_all, view
from headwise.viz_app.session.widgets import (
    choose_on_slider,
    choose_one,
    clicked_value,
    show_figure,
)
from headwise.viz_app.trace.saved import npz_of
from headwise.viz_app.why.word.account import WHOLE_NOTE, Account, WholeEffects
from headwise.viz_app.why.word.bars import (
    DIRECT,
    REST,
    Bar,
    bar_arguments,
    bars_by_size,
    by_layer,
    disagrees,
    lines_by_part,
)
from headwise.viz_app.why.word.effects import run_whole_effects
from headwise.viz_app.why.word.report import account_to_html
from headwise.viz_app.why.word.section.asked import (
    accounts_by_step,
    asked_account,
    compared_words,
    mark,
)
from headwise.viz_app.why.word.section.heads import bars_and_map, show_head

SIZES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Least magnitudes of a part with a bar of its own that are offered, in logits."""
MOST_LINES = 7
"""Parts with a line of their own; the others share one."""


def show_parts(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the parts as bars or as a waterfall, and the whole effects beside them if asked."""
    with st.container(horizontal=True, vertical_alignment="center", key="parts-toolbar"):
        how = choose_one(
            "Drawn as",
            ["bars", "waterfall"],
            key="account",
            help="Bars: every head and feed-forward by its size. Waterfall: sublayer by sublayer, "
            "in the order of the computation.",
        )
        if how == "bars":
            with_whole = st.toggle(
                "Whole effects",
                help="Take each head and feed-forward out of the pass, one after another, and see "
                "what the difference loses.",
                **control("whole", "Whole effects"),
            )
    effects = None
    column, map_place = bars_and_map(trace)
    picture = column.container()
    if how == "bars":
        with column:
            smallest = choose_on_slider(
                "Smallest part with a bar of its own",
                SIZES,
                key="smallest",
                on_change=redraw_all,
                format_func="{:g}".format,
                width=260,
            )
        with picture:
            if with_whole:
                effects = in_slices(
                    "Taking out one part after another",
                    lambda note: _whole_effects(selection, trace, account, note),
                    key="whole-progress",
                    stop=lambda: change_view(whole=False),
                )
            _show_bars(selection, account, effects["decoder"] if effects else {}, smallest)
    else:
        sublayers = by_layer(account)
        with picture:
            show_figure(
                waterfall([*sublayers], [*sublayers.values()], theme=selection.theme),
                key="account_parts",
                alt="The difference sublayer by sublayer",
                name="waterfall",
            )
            st.caption(f"{DIRECT} Heads of a sublayer are added up.")
    with map_place:
        show_head(selection, trace, account)
        if effects is not None:
            _show_encoder_wholes(selection, account, effects["encoder"], smallest)


def _whole_effects(
    selection: Selection, trace: Trace, account: Account, note: NoteDone
) -> WholeEffects:
    """Take each part out of the pass, once; if ``note`` ends it, go on from there."""
    weights = weights_of(selection.run, trace.step)
    return ask_slowly(weights, run_whole_effects, trace, note, account.step, account.instead)


def _show_bars(
    selection: Selection, account: Account, wholes: Mapping[str, float], smallest: float
) -> None:
    bars = bars_by_size(dict(account.named()), smallest)
    name = head_name(chosen_head(selection.run.description, view()))
    marked = next((place for place, bar in enumerate(bars) if bar.name == name), None)
    alt = f"{count_of(len(bars), 'part')} of the difference as signed bars, the largest on top"
    marks = _draw(
        selection, account, bars, wholes, smallest, key="account_parts", alt=alt, marked=marked
    )
    note = DIRECT
    if marked is not None:
        note += " The framed one is the head whose map is drawn; a click takes another."
    said = f"The bars sum to {three_digits(account.parts.total, '+')}."
    if wholes:
        note += f" “Whole” is {WHOLE_NOTE}"
        said += (
            f" ≠: {marks} whole effects differ from the bar in sign, or by more than half of the "
            "larger."
        )
    st.caption(said, help=note)


def _show_encoder_wholes(
    selection: Selection, account: Account, wholes: Mapping[str, float], smallest: float
) -> None:
    """Draw heads and feed-forwards of the encoder, which write nothing into the decoder."""
    direct = account.from_encoder.sums()
    shown = {
        name: direct[name]
        for name in wholes
        if max(abs(direct[name]), abs(wholes[name])) >= smallest
    }
    if not shown:
        st.caption("No part of the encoder has an effect of the chosen size.")
        return
    bars, smaller = bars_by_size(shown, 0.0, encoder=True), len(wholes) - len(shown)
    st.markdown("**In the encoder**")
    alt = f"{count_of(len(bars), 'part')} of the encoder with their whole effects, as signed bars"
    marks = _draw(selection, account, bars, wholes, smallest, key="encoder_wholes", alt=alt)
    st.caption(
        "A bar is what cross-attention, its weights held, read of that part in all its cells. "
        f"{count_of(smaller, 'part')} of the encoder {'is' if smaller == 1 else 'are'} smaller in "
        f"both; ≠ marks {marks}."
    )


def _draw(
    selection: Selection,
    account: Account,
    bars: Sequence[Bar],
    wholes: Mapping[str, float],
    smallest: float,
    *,
    key: str,
    alt: str,
    marked: int | None = None,
) -> int:
    """Draw parts of a stack, each with its whole effect; return of how many the two disagree.

    A click on a head chooses it, and on a feed-forward of the decoder shows its neurons.
    """
    written, marks, is_decoder = [], 0, key == "account_parts"
    for bar in bars:
        written.append(signed_text(bar.value))
        if bar.name in wholes:
            odd = disagrees(bar.value, wholes[bar.name], smallest)
            marks += odd
            written[-1] += f" · whole {signed_text(wholes[bar.name])}{' ≠' * odd}"

    def click(bar: Bar) -> str:
        if head_of(bar.name) is not None:
            return "choose this head"
        if is_decoder and bar.name.startswith("feed_forward"):
            return "show the neurons of this feed-forward"
        return "the sum of the parts below the chosen size" if bar.name == REST else bar.label

    def choose() -> None:
        if (place := clicked_value(key)) is None:
            return
        part = bars[int(place)].name
        if (clicked := head_of(part)) is not None:
            mark(**choices_for(clicked))
        elif is_decoder and part.startswith("feed_forward"):
            change_view(answer="neurons", feed_forward=int(part.partition(".")[2]), neuron=None)

    show_figure(
        bar_chart(
            **bar_arguments(bars, account.limit),
            theme=selection.theme,
            written=written,
            marked=marked,
            clicks=[*map(click, bars)],
        ),
        key=key,
        alt=alt,
        name="parts" if is_decoder else "encoder-wholes",
        on_select=choose,
    )
    return marks


def show_through_training(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the parts of the account that were ever largest as lines through the checkpoints."""
    found = accounts_by_step(selection, trace, account, stop=lambda: change_view(answer="parts"))
    if found is None:
        return
    steps = [*found]
    lines = lines_by_part([*found.values()], MOST_LINES)
    place = steps.index(selection.step)

    def choose() -> None:
        clicked = clicked_value("account_training")
        if clicked is not None:
            change_view(WHOLE_PAGE, step=int(clicked))

    show_figure(
        named_lines(
            np.array(list(lines.values()), np.float32).T,
            steps=steps,
            names=list(lines),
            title="logits",
            theme=selection.theme,
            marked=place,
        ),
        key="account_training",
        alt="What each part of the decoder brought to the difference, by checkpoint: "
        + "; ".join(f"{name} {values[place]:+.2f} at this one" for name, values in lines.items()),
        name="through-training",
        on_select=choose,
    )
    st.caption(
        "All lines but the difference sum to the difference: above 0 the model of that checkpoint "
        "prefers the word that this target has. Checkpoints are evenly spaced; a click on a mark "
        "goes to its checkpoint."
    )
    selection.say_steps(steps)


def files_of_account(selection: Selection, trace: Trace) -> Files | None:
    """Return the files of the account that is shown; None if what is compared is no token."""
    try:
        account = asked_account(selection, trace)
    except ValueError:  # the page has said so
        return None
    words, shown, theme = compared_words(selection.run, account), view().why, selection.theme

    def effects() -> WholeEffects:
        return _whole_effects(selection, trace, account, lambda done, of: None)

    return Files(
        "This account: its pictures, and its arrays. For these every part is taken out of the pass "
        "once, which may take some seconds",
        f"headwise-{trace.run}-{trace.step}-why-{account.step + 1}",
        {
            "html": lambda: account_to_html(
                trace,
                account,
                effects(),
                words=words,
                smallest=shown.smallest,
                feed_forward=shown.feed_forward,
                theme=theme,
            ),
            "npz": lambda: npz_of(account.arrays(effects())),
        },
    )
