"""Draws attribution patching, the approximation by one backward pass, at every checkpoint."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.labels import three_digits, token_labels
from headwise.viz_app.figures.maps import share_map
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import weights_of
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, each_in_slices, in_slices
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control
from headwise.viz_app.session.widgets import choose_one, clicked_value, show_figure
from headwise.viz_app.why.sentences.patching import (
    PATCH_MAPS,
    Doubles,
    Patching,
    PatchMap,
    RankCorrelation,
    map_of,
    patch_label,
    rank_correlations,
    row_label,
)
from headwise.viz_app.why.sentences.section.pair import SentencePair, attribution_of, patching_of


def show_attributed(selection: Selection, pair: SentencePair, drawn: Patching) -> None:
    """Draw each patch of one of the three maps at every checkpoint, to first order.

    It is compared with exact passes where the patches that are drawn above are exact.
    """
    if len(selection.run.steps()) < 2:
        return
    if not st.toggle(
        "Attribution patching at every checkpoint",
        help="The approximation by one backward pass, of the same two sentences, target and words.",
        **control("attributed", "Attribution patching"),
    ):
        return
    shown = choose_one("Map", list(PATCH_MAPS), key="attributed_map", format_func=str.capitalize)
    steps = selection.steps()
    selection.say_steps(steps)
    found = each_in_slices(
        "Asking every checkpoint",
        steps,
        lambda step: attribution_of(weights_of(selection.run, step), pair, drawn.step, drawn.words),
        key="attributed-progress",
        stop=lambda: change_view(attributed=False),
    )
    if found is None:
        return
    columns, tokens = pair.labels, token_labels(pair.a.consumed)
    names = [name for name, _ in drawn.named() if map_of(name) == shown]
    rows = [row_label(name, columns, tokens) for name in names]
    shares = np.stack([_shares(each, names) for each in found], axis=1)
    hover = np.array(
        [
            [
                f"{patch_label(name, columns, tokens)}, checkpoint {step:,}: "
                f"{three_digits(shares[y, x], '+')}; log-odds in A "
                f"{three_digits(each.odds_a, '+')}, in B {three_digits(each.odds_b, '+')}"
                for x, (step, each) in enumerate(zip(steps, found, strict=True))
            ]
            for y, name in enumerate(names)
        ]
    )

    def open_checkpoint() -> None:
        if clicked := clicked_value("patch_training"):
            change_view(WHOLE_PAGE, step=int(clicked))

    show_figure(
        share_map(
            shares.astype(np.float32),
            names=np.broadcast_to(np.array(steps).astype(str), shares.shape),
            hover=hover,
            rows=rows,
            columns=[f"{step:,}" for step in steps],
            row_title=shown,
            column_title="training step",
            theme=selection.theme,
        ),
        key="patch_training",
        alt=f"Restored share of {shown} by attribution patching, by checkpoint",
        name=f"attribution-of-{shown}-through-training",
        on_select=open_checkpoint,
    )
    empty = sum(each.says_nothing for each in found)
    st.caption(
        "To first order, and so rough where a patch changes much. A click opens a checkpoint."
        + " Grey: a word with another number of tokens in B has no gradient."
        * any(not each.fits for each in drawn.stretches)
        + f" Grey columns: {empty} at which A and B hardly differ." * bool(empty)
    )
    if drawn.exact:
        _show_correlations(selection, pair, steps, found)


def _shares(found: Patching, names: list[str]) -> Doubles:
    """Return the shares of some patches; NaN where A and B hardly differ."""
    odds = dict(found.named())
    values = np.array([odds[name] for name in names])
    if found.says_nothing:
        return np.full(values.shape, np.nan)
    return found.restored(values)


def _show_correlations(
    selection: Selection, pair: SentencePair, steps: list[int], found: list[Patching]
) -> None:
    """Draw a table of how far the approximation of each checkpoint orders as exact passes do."""
    if not st.toggle(
        "Exact passes at every checkpoint, to compare with",
        help="As many passes for each checkpoint as above.",
        **control("compared", "Exact passes at every checkpoint"),
    ):
        return
    run = selection.run

    def compare(note: NoteDone) -> list[dict[PatchMap, RankCorrelation]]:
        rows: list[dict[PatchMap, RankCorrelation]] = []
        for step, quick in zip(steps, found, strict=True):

            def note_passes(done: int, of: int) -> None:
                note(len(rows) * of + done, len(steps) * of)

            weights, a = weights_of(run, step), pair.a
            exact = patching_of(weights, pair, quick.step, quick.words, note_passes)
            of_both = weights.sha256, a.source.ids, a.target_ids, a.turned, pair.b.source.ids
            rows.append(
                cached(
                    "patches compared",
                    (*of_both, quick.step, quick.words),
                    partial(rank_correlations, exact, quick),
                )
            )
        return rows

    rows = in_slices(
        "Running exact passes",
        compare,
        key="compared-progress",
        stop=lambda: change_view(compared=False),
    )
    if rows is None:
        return
    st.dataframe(
        {
            "training step": steps,
            **{shown.capitalize(): [row[shown].value for row in rows] for shown in PATCH_MAPS},
            **{
                f"{shown}: interval, patches": [_spread(row[shown]) for row in rows]
                for shown in PATCH_MAPS
            },
        },
        hide_index=True,
        column_config={
            shown.capitalize(): st.column_config.NumberColumn(format="%.2f") for shown in PATCH_MAPS
        },
    )
    st.caption(
        "Rank correlation (Spearman) of attribution patching with the exact passes of the same "
        "checkpoint, over the patches of each map that change anything, with its 95% interval by "
        "resamples of these patches, and how many they are; empty where they are too few, or all "
        "alike."
    )


def _spread(found: RankCorrelation) -> str:
    return f"{found.ends}, " * bool(found.ends) + f"{found.patches:,}"
