"""The section "compare" of the page Training: two checkpoints of one run, or of two runs.

Two runs with tokenizers of their own are compared by words; where these do not match, the maps
stand side by side without a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.attention import (
    first_word_mismatch,
    head_distances,
    max_pool,
    pool_differences,
)
from headwise.viz_app.analysis.grid import Grid, GridOptions, Units, make_grid
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.figures.heads import distance_map, mosaic
from headwise.viz_app.figures.maps import attention_map, difference_map
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.caches import Run, run_named, runs_beside, trace_of
from headwise.viz_app.session.head_choice import (
    choices_for,
    choose_clicked_head,
    choose_head,
    choose_units,
    head_label,
)
from headwise.viz_app.session.inspector import inspecting
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import note_files, panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.view import change_view, control
from headwise.viz_app.session.widgets import (
    choose_from_list,
    choose_on_slider,
    choose_one,
    show_figure,
    show_link,
)
from headwise.viz_app.training.checkpoints import choose_shared_target, same_tokenizers

_PANEL = "differences"
_MOST_CELLS = 40
"""Cells a side of each head in the picture of all heads."""
_WIDTH = 530
"""Pixels that the large map has in a window of 1,280."""
_MOST_NAMED = 5
"""Most heads that are listed."""


def show_compare(selection: Selection) -> None:
    """Draw the section."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        other = _choose_other(selection)
        if other is not None:
            other_run, other_step = other
            note_files(other_run.weights_path(other_step))
            comparable = same_tokenizers(other_run, selection.run)
            shared = choose_shared_target(selection)
            units = choose_units(show_label=False) if comparable else "words"
    if other is None:
        st.info("The run has one checkpoint only, and there is no other run of its languages.")
        return
    both = [(selection.run, selection.step), other]
    if other_run is selection.run:
        both.sort(key=itemgetter(1))  # A is the earlier one, so that B − A runs forward in time
    maps, sides = st.container(), []
    for letter, place, (run, step) in zip("AB", st.columns(2, gap="medium"), both, strict=True):
        name = f"{run.name}, " * (other_run is not selection.run) + f"step {step:,}"
        target = shared.ids
        if not same_tokenizers(run, selection.run):
            target = tuple(run.tokenizers.encode_target(shared.text))
        forced = trace_of(run, step, selection.text, target)
        sides.append(_Checkpoint(run, forced, name))
        with place:
            translated = trace_of(run, step, selection.text)
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                st.markdown(f"**{letter}: {escape_markdown(name)}**, its own translation")
                choices: dict[str, object] = {"step": step}
                if run is not selection.run:
                    choices |= {"run": run.name, "sentence": selection.text}
                show_link("Open on Translate", "translate", key=f"open-{letter}", **choices)
            show_target(selection, translated, key=f"own-{letter}")
            st.caption(
                f"Log-probability {total_log_probability(translated):.3g} nats; the shared target "
                f"has {total_log_probability(forced):.3g} here."
            )
    with maps:
        _show_differences(selection, sides[0], sides[1], units)
        st.caption(
            f"All maps are of one target, {shared.description}, given to both: "
            f"{escape_markdown(shared.text)}"
        )
        if not comparable:
            st.caption(
                "The two runs have vocabularies of their own, in which a text has other tokens or "
                "none (\\<unk\\>): do not compare their log-probabilities."
            )


def _choose_other(selection: Selection) -> tuple[Run, int] | None:
    """Ask for the other run and its checkpoint; return None if there is nothing to choose."""
    own = selection.run
    others = runs_beside(own, lambda run: _same_languages(run, own))
    runs = [*[own.name] * (len(own.steps()) > 1), *(run.name for run in others)]
    if not runs:
        return None
    name = choose_from_list(
        "Compare with a checkpoint of",
        runs,
        key="other_run",
        default=runs[0],
        help="Any run that translates between the same languages in the same direction.",
    )
    run = own if name == own.name else run_named(name)
    note_files(run.folder / "run.json")
    steps = [step for step in run.steps() if run is not own or step != selection.step]
    if len(steps) == 1:
        st.caption(f"Its checkpoint of step {steps[0]:,}.")
        return run, steps[0]
    # At first the middle of training against its end, or its end against whatever is open.
    at_end = run is own and selection.step > steps[-1]
    first = steps[len(steps) // 2] if at_end else steps[-1]
    step = choose_on_slider(
        "Its checkpoint, by training step",
        steps,
        key="other_step",
        default=first,
        format_func="{:,}".format,
    )
    return run, step


def _same_languages(a: Run, b: Run) -> bool:
    languages = (a.source_language, b.source_language), (a.target_language, b.target_language)
    return all(one == other or not one or not other for one, other in languages)


@dataclass(frozen=True)
class _Checkpoint:
    """A checkpoint has its run, its trace of the shared target, and the name that people read."""

    run: Run
    trace: Trace
    name: str


@dataclass(frozen=True)
class _Pair:
    """A pair has both checkpoints and the units of their maps."""

    a: _Checkpoint
    b: _Checkpoint
    units: Units
    mismatch: str
    """Why the maps cannot be compared cell by cell; empty if they can."""

    @property
    def same_run(self) -> bool:
        return self.a.run is self.b.run

    @property
    def same_shapes(self) -> bool:
        return self.a.trace.shapes == self.b.trace.shapes

    def grids(self, kind: Kind) -> list[Grid]:
        options = GridOptions(self.units)
        return [make_grid(each.trace, kind, options) for each in (self.a, self.b)]

    def maps(self, kind: Kind) -> tuple[Floats, Floats]:
        """Return the maps of all heads of A and of B, (L, H, rows, columns)."""
        a, b = self.grids(kind)
        return a.apply(self.a.trace.attention[kind]), b.apply(self.b.trace.attention[kind])

    def distances(self, kind: Kind) -> Floats:
        """Return how far apart the heads are, (L, H), over the cells that A or B may look at."""
        first, second = (grid.allowed for grid in self.grids(kind))
        allowed = None if first is None or second is None else first | second
        return head_distances(*self.maps(kind), allowed=allowed)


@panel(_PANEL)
@inspecting
def _show_differences(selection: Selection, a: _Checkpoint, b: _Checkpoint, units: Units) -> None:
    """Rank all heads by how far apart they are, and draw one of them large."""
    same, mismatch = same_tokenizers(a.run, b.run), ""
    if not same:
        folded = "word" in {run.tokenizers.target.kind for run in (a.run, b.run)}
        runs = a.run.name, b.run.name
        mismatch = first_word_mismatch(a.trace, b.trace, runs, folded=folded)
    pair = _Pair(a, b, units if same else "words", mismatch)
    ranking = st.container()
    names = {which: f"{which}: {escape_markdown(of.name)}" for which, of in (("A", a), ("B", b))}
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="head-row"):
        head = choose_head(a.run.description)
        other = _choose_other_head(pair, head)
        shown = choose_one(
            "Shown",
            ["A", "B"] if pair.mismatch else ["B − A", "A", "B"],
            key="overview",
            default="A" if pair.mismatch else "B − A",
            format_func=lambda which: names.get(which, which),
            show_label=False,
        )
    if pair.mismatch:
        st.info(
            f"{escape_markdown(pair.mismatch)}. The maps have other rows or columns and cannot be "
            "compared cell by cell: there is no difference and no distance."
        )
    else:
        with ranking:
            _show_ranking(selection, pair, head)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _show_overview(selection, pair, head, shown)
    with right:
        _show_large(selection, pair, head, other, shown)
    if not pair.mismatch and not same:
        st.caption(
            "The two runs cut text into other tokens, so maps are compared by words: weights are "
            "summed over the tokens of a column and averaged over those of a row."
        )


def _choose_other_head(pair: _Pair, head: Head) -> Head:
    """Ask for a head of B, of the same kind: that of A, or another if the runs differ."""
    if pair.same_run:
        return head
    kind, layer, number = head
    layers, heads = pair.b.trace.shapes[kind]
    there = layer < layers and number < heads
    name = escape_markdown(pair.b.run.name)
    if there and not st.toggle(
        f"Another head of {name}",
        help="Heads of two trainings have nothing but their numbers in common: a head of one may "
        "do what another does in the other.",
        **control("unpaired", f"Another head of {pair.b.run.name}"),
    ):
        return head
    with st.container(horizontal=True, gap="small"):
        other_layer = choose_one(
            f"Layer of {name}",
            range(1, layers + 1),
            key="other_layer",
            default=min(layer + 1, layers),
        )
        other_head = choose_one(
            f"Head of {name}", range(1, heads + 1), key="other_head", default=min(number + 1, heads)
        )
    return Head(kind, other_layer - 1, other_head - 1)


def _show_ranking(selection: Selection, pair: _Pair, selected: Head) -> None:
    if not pair.same_shapes:
        (layers, heads), (other_layers, other_heads) = (
            side.trace.shapes[selected.kind] for side in (pair.a, pair.b)
        )
        st.caption(
            f"Not ranked: here A has {layers} layers of {heads} heads, B {other_layers} of "
            f"{other_heads}, so that heads do not pair. Choose a head of each."
        )
        return
    distances = {kind: pair.distances(kind) for kind in KINDS}
    by_number = "" if pair.same_run else " Heads are paired by their numbers only."
    unknown = any(np.isnan(of_kind).any() for of_kind in distances.values())
    without = " “–”: no row has more than one key." if unknown else ""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        show_figure(
            distance_map(distances, theme=selection.theme, names=KIND_NAMES, selected=selected),
            key="distances",
            alt="Mean Jensen-Shannon distance between A and B of each head: a cell a head, layers "
            "from the top, kind by kind",
            name="distance-of-heads",
            on_select=lambda: choose_clicked_head("distances", _PANEL),
        )
    with right:
        st.caption(
            "How far apart each head's maps are, from 0 (the same) to 1. Farthest:",
            help="Jensen-Shannon distance of the rows of A and B, mean over rows with more than "
            f"one key; 1 where no key is in common. Click a head to see it below.{by_number}"
            f"{without}",
        )
        with st.container(horizontal=True, gap="small", key="farthest"):
            for place, (head, distance) in enumerate(rank_heads(distances)[:_MOST_NAMED]):
                st.button(
                    f"{head_label(head)} · {distance:.2f}",
                    key=f"farthest-{place}",
                    type="tertiary",
                    on_click=lambda head=head: change_view(_PANEL, **choices_for(head)),
                )


def _show_overview(selection: Selection, pair: _Pair, head: Head, shown: str) -> None:
    kind, signed = head.kind, shown == "B − A"
    if signed and not pair.same_shapes:
        st.caption("A and B differ in layers and heads: there is no difference of all of them.")
        return
    grid = pair.grids(kind)[shown == "B"]
    a, b = pair.maps(kind)
    maps = (
        pool_differences(b - a, _MOST_CELLS)
        if signed
        else max_pool({"A": a, "B": b}[shown], _MOST_CELLS)
    )
    show_figure(
        mosaic(
            maps,
            theme=selection.theme,
            selected=(head.layer, head.head) if shown != "B" else None,
            signed=signed,
            **grid.pooled(_MOST_CELLS),
        ),
        key="overview-mosaic",
        alt=f"{KIND_NAMES[kind]} attention of all heads, {shown}: {maps.shape[0]} layers from the "
        f"top, {maps.shape[1]} heads from the left",
        name=f"{kind}-all-heads-{shown.replace(' ', '')}",
        on_select=lambda: choose_clicked_head("overview-mosaic", _PANEL),
    )
    if max(len(grid.rows), len(grid.columns)) > _MOST_CELLS:
        what = "cell farthest from 0" if signed else "largest weight"
        st.caption(f"Each cell here is the {what} of several; the large map has all of them.")


def _show_large(selection: Selection, pair: _Pair, head: Head, other: Head, shown: str) -> None:
    """Draw the chosen head's map of A or of B, or where B has more weight and where less."""
    grid = pair.grids(head.kind)[shown == "B"]
    arguments = grid.axes | {"theme": selection.theme, "width": _WIDTH, "square": True}
    a, b = pair.maps(head.kind)
    of = other if shown == "B" else head
    name, file = head_label(of), f"{of.kind}-layer{of.layer + 1}-head{of.head + 1}"
    if shown == "B − A":
        if other != head:
            name = f"{head_label(other)} of B, {name} of A"
        difference = b[other.layer, other.head] - a[head.layer, head.head]
        show_figure(
            difference_map(difference, **arguments),
            key="difference",
            alt=f"{name}: weights of {pair.b.name} minus those of {pair.a.name}",
            name=f"{file}-difference",
        )
        return
    side, maps = {"A": (pair.a, a), "B": (pair.b, b)}[shown]
    show_figure(
        attention_map(maps[of.layer, of.head], **arguments),
        key=f"map-{shown}",
        alt=f"{name} of {side.name}: attention map of {grid.said}",
        name=f"{file}-{shown}",
    )
