"""Draws the section *two sentences*: which parts of B, put into A, restore B's answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from headwise.viz_app.analysis.labels import three_digits, token_labels
from headwise.viz_app.components.token_buttons import token_buttons
from headwise.viz_app.records.trace import Trace, shorten
from headwise.viz_app.session.caches import weights_of
from headwise.viz_app.session.errors import show_error
from headwise.viz_app.session.inspector import Inspected, inspector
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import describe_ending, target_buttons
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, checked, control, fill_in, view
from headwise.viz_app.session.vocabulary import TOKEN_HELP, target_labels, token_name, vocabulary_of
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.why.sentences.patching import Patching
from headwise.viz_app.why.sentences.section.maps import say_stopped, show_patching
from headwise.viz_app.why.sentences.section.pair import (
    SentencePair,
    attribution_of,
    chosen_words,
    pair_of,
    prepared_pairs,
    second_sentence,
    with_word,
    words_in,
)

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.figures.html import scale_legend
from headwise.viz_app.figures.maps import attention_map, difference_map
from headwise.viz_app.session.head_choice import choose_head, head_label, map_arguments
from headwise.viz_app.session.widgets import show_figure
from headwise.viz_app.why.sentences.correspondence import difference_where_corresponding, places_of

_LONGEST = 60
"""Most characters of a sentence above its translation."""
_HARDLY = 0.05
"""Change of log-odds below which a ratio, to one digit behind the point, is 1."""


@panel("two sentences")
def show_two_sentences(selection: Selection, trace: Trace) -> None:
    """Draw the section."""
    with inspector(selection, trace) as inspected:
        _show_pair(selection, trace, inspected)


def _show_pair(selection: Selection, trace: Trace, inspected: Inspected) -> None:
    other = _choose_second(selection)
    if not other:
        st.info(
            "Type a second sentence that differs from the first in one thing, change a word of the "
            "first, or take a prepared pair."
        )
        return
    pair = pair_of(selection, trace, other)
    at = _choose_step(selection, pair, other)
    inspected.trace, inspected.row = pair.a, at
    st.session_state["files"] = f"headwise-{trace.run}-{trace.step}-pair-{at + 1}"
    *places, said = st.columns([4, 5, 5, 12], gap="small")
    words = _choose_words(selection, pair, at, places)
    if words is None:
        return
    quick = attribution_of(weights_of(selection.run, selection.step), pair, at, words)
    names = [escape_markdown(name) for name in target_labels(selection.run, words)]
    with said:
        _say_odds(quick, names, selection.run.description.logit_cap)
    if quick.same_answer and not quick.nothing_to_restore:
        _say_same_answer(pair, quick, names)
    if choose_one(
        "Show",
        [False, True],
        key="patching",
        format_func=lambda patching: "Activation patching" if patching else "One head in both",
        show_label=False,
    ):
        show_patching(selection, pair, quick, names)
    else:
        say_stopped(selection, pair, quick)
        show_pair_maps(selection, pair, at)


def _choose_second(selection: Selection) -> str:
    """Ask for B: typed, made from A by changing a word, or of a prepared pair."""
    if view().why.other is None:  # what is typed as A later says nothing of B
        fill_in(other=second_sentence(selection))
    pairs = {
        f"{pair.phenomenon}: {pair.a} / {pair.b}": (pair.a, pair.b)
        for pair in prepared_pairs(selection.run)
    }

    def open_pair(a: str, b: str) -> None:
        change_view(WHOLE_PAGE, sentence=a, other=b)

    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="pair"):
        other: str = st.text_input(
            "Second sentence, B (the first, A, is above)",
            placeholder="a sentence that differs in one thing",
            **control("other", "Second sentence"),
        )
        if pairs:
            st.menu_button(
                "Prepared pairs",
                list(pairs),
                key="prepared",
                format_func=escape_markdown,
                on_click=lambda: open_pair(*pairs[st.session_state["prepared"]]),
            )
        if other.strip():
            st.button(
                "Swap A and B",
                key="swap",
                icon=":material/swap_horiz:",
                on_click=lambda: open_pair(other.strip(), selection.text.strip()),
            )
        with st.popover("Change a word", key="change-word"):
            _change_word(selection, other.strip() or selection.text)
    return other.strip()


def _change_word(selection: Selection, text: str) -> None:
    """Offer to make B by changing a word of a text: of A at first, then of B as it is."""
    words = words_in(text)
    place = checked(
        "changed_word",
        "Changed word",
        usable=range(len(words)).__contains__,
        written=words.__getitem__,
    )
    st.caption("Choose a word of B, which begins as A")
    token_buttons(
        [shorten(word, 40) for word in words],
        name="Words of the second sentence, at first those of the first: each can be changed",
        theme=selection.theme,
        key="changed_words",
        on_click=lambda word: change_view(changed_word=None if word == place else word),
        chosen=place,
        language=selection.run.source_language,
    )
    if place is None:
        return

    def change() -> None:
        change_view(other=with_word(text, place, view().why.in_its_place))

    st.text_input(
        f"In place of “{escape_markdown(shorten(words[place], 40))}”",
        placeholder="another word, or several; then Enter",
        **control("in_its_place", "Another word", on_change=change),
    )


def _choose_step(selection: Selection, pair: SentencePair, other: str) -> int:
    """Draw both translations, to choose which both sentences are given, and a step of it."""
    labels = token_labels(pair.a.predicted)
    at: int = checked(
        "parting",
        "Position",
        default=pair.first_step,
        usable=range(len(labels)).__contains__,
        written=labels.__getitem__,
    )
    at_first = (
        "no token of the two differs, and it is the one whose probability does most"
        if pair.parts_at is None
        else "it is the one where the two part"
    )
    help = (
        "Both sentences are given one of these, so that all else is equal. A click on a token asks "
        f"about it, and gives both its translation; at first {at_first}. A dashed frame is where "
        "the other one parts from it. Tokens are shaded by their probability after their own "
        "sentence."
    )
    texts, owns = (selection.text.strip(), other), (pair.own_a, pair.own_b)
    with st.container(horizontal=True, key="pair-targets"):
        for letter, text, own in zip("AB", texts, owns, strict=True):

            def ask(place: int, letter: str = letter) -> None:
                row = {"at": place} if letter == "A" else {}  # a step of the page's own target
                change_view(shared_by=letter, parting=place, **row)

            with st.container(gap="xsmall"):
                forced = letter == "A" and bool(view().target.strip())
                whose = "your translation" if forced else "its translation"
                st.markdown(
                    f"**{letter}: {escape_markdown(shorten(text, _LONGEST))}**, {whose}", help=help
                )
                is_given, parts_at = letter == view().why.shared_by, pair.parts_at
                target_buttons(
                    selection,
                    own,
                    does=f"each asks what moves its odds, in the translation of {letter}",
                    key=f"pair-{letter}",
                    on_click=ask,
                    chosen=at if is_given else None,
                    marked=() if is_given or parts_at is None else (parts_at,),
                )
                if ending := describe_ending(selection.run, own):
                    st.caption(ending)
    return at


def _choose_words(
    selection: Selection, pair: SentencePair, at: int, places: Sequence[DeltaGenerator]
) -> tuple[int, int] | None:
    """Ask for the shared target and two words that compete; None, as shown, if one is no token."""
    of_shared, *of_words = places
    of_a = "yours" if view().target.strip() else "A's"
    with of_shared:
        choose_one(
            "Target of both",
            ["A", "B"],
            key="shared_by",
            format_func=lambda letter: of_a if letter == "A" else "B's",
            help="Both sentences are run with one target, A's translation or B's, so that only the "
            "source differs. For a target of your own, force a translation above.",
        )
    vocabulary = vocabulary_of(selection, "target")
    first = pair.first_words(at)
    likeliest = [each.predictions.top_ids[at].tolist() for each in (pair.a, pair.b)]
    offered = [token_name(id) for id in dict.fromkeys([*first, *likeliest[0], *likeliest[1]])]
    for place, key, own, label in zip(
        of_words,
        ("first_word", "second_word"),
        first,
        ("Why this word", "and not this one"),
        strict=True,
    ):

        def written(name: str, own: int = own) -> str:
            return vocabulary.labels[own] if name == "" else vocabulary.written(name)

        with place:
            st.selectbox(
                label,
                ["", *(name for name in offered if name != token_name(own))],
                format_func=written,
                accept_new_options=True,
                help=TOKEN_HELP.replace("of the sentence", "that are likeliest here"),
                **control(key, label, written=written),
            )
    try:
        return chosen_words(selection, pair, at, vocabulary)
    except ValueError as problem:
        show_error(problem)
        return None


def _say_same_answer(pair: SentencePair, quick: Patching, names: list[str]) -> None:
    """Say that B has no other answer at this position, and offer the one where it has."""
    likelier, other = names if quick.odds_a > 0 else names[::-1]
    st.info(
        f"After both sentences **{likelier}** is likelier here than **{other}**: B has no other "
        "answer to bring back, since the shared target so far, or what both sentences have in "
        "common, is enough for it. Patches only show what moves the odds from A's to B's."
    )
    place = pair.parts_at
    if place is not None and place != quick.step and place < len(pair.a.predicted):
        label = token_labels(pair.a.predicted)[place]
        st.button(
            f"Ask where the translations part: {place + 1}, {escape_markdown(label)}",
            key="to-parting",
            type="tertiary",
            on_click=lambda: change_view(parting=None),
        )


def _say_odds(quick: Patching, names: list[str], cap: float | None) -> None:
    a, b = names
    said = (
        f"Log-odds of **{a}** and **{b}**: {three_digits(quick.odds_a, '+')} after A, "
        f"{three_digits(quick.odds_b, '+')} after B"
    )
    if cap is not None:
        said += f", all before the model's cap of its logits at ±{cap:g}."
    elif quick.nothing_to_restore:
        said += "."
    elif abs(quick.odds_b - quick.odds_a) < _HARDLY:
        said += ". B hardly changes the ratio of their probabilities."
    else:
        change = abs(quick.odds_b - quick.odds_a)
        times = f"10^{change / math.log(10):.1f}"
        if change < 14:
            times = three_digits(math.exp(change))
        said += f". B changes the ratio of their probabilities {times} times."
    st.markdown(said)


_FEW = 14
"""Tokens of A up to which all maps are side by side in a window of 1,280 pixels."""


def show_pair_maps(selection: Selection, pair: SentencePair, at: int) -> None:
    """Ask for a head and draw its maps, the row of a step of the target framed."""
    head = choose_head(selection.run.description)
    kind, layer, number = head
    grids = make_grid(pair.a, kind), make_grid(pair.b, kind)
    maps = tuple(trace.attention[kind][layer, number] for trace in (pair.a, pair.b))
    every: NDArray[np.int64] = np.arange(len(pair.a.consumed))
    of_source = places_of(pair.stretches, len(pair.a.source))
    rows = of_source if kind == "encoder_self" else every
    columns = every if kind == "decoder_self" else of_source
    difference = difference_where_corresponding(maps[0], maps[1], rows, columns)
    name = f"{kind}-layer{layer + 1}-head{number + 1}"
    few = len(pair.a.source) <= _FEW
    axes: dict[str, Any] = {"width": 300 if few else 440, "square": True}
    with st.container(key="pair-maps" if few else "compared"):
        places = [st.container() for _ in range(3)]
    row = None if kind == "encoder_self" else at
    for letter, place, grid, cells in zip("AB", places, grids, maps, strict=False):
        with place:
            st.markdown(
                f"**{letter}**: where it looks",
                help="A weight says where the head looks, not what it brings from there.",
            )
            show_figure(
                attention_map(cells, selected=row, **axes, **map_arguments(grid, selection.theme)),
                key=f"pair_map_{letter}",
                alt=f"{head_label(head)} in sentence {letter}: attention map of {grid.said}",
                name=f"{name}-{letter}",
            )
    weights = scale_legend(selection.theme, "weight", masked=grids[0].allowed is not None)
    st.html(f"{weights} · {scale_legend(selection.theme, 'B − A', signed=True)}")
    with places[2]:
        st.markdown("**B − A**", help=_apart(pair))
        show_figure(
            difference_map(
                difference, has_bar=False, **axes, **map_arguments(grids[0], selection.theme)
            ),
            key="pair_difference",
            alt=f"{head_label(head)}: weights in B minus those in A where tokens correspond",
            name=f"{name}-difference",
        )


def _apart(pair: SentencePair) -> str:
    """Say which tokens correspond though they differ, and which have no counterpart."""
    both = list(zip(pair.stretches, pair.labels, strict=True))
    changed = [label for each, label in both if each.fits and not each.same]
    alone = [label for each, label in both if not each.fits]
    said = "The difference has the rows and columns of A."
    if changed:
        said += f" These stand for each other: {escape_markdown(', '.join(changed))}."
    if alone:
        said += (
            f" Left empty, since there are not equally many tokens on both sides: "
            f"{escape_markdown(', '.join(alone))}."
        )
    return said
