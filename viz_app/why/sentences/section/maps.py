"""Draws maps of restored shares: A is run with one part of B at a time in its place."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.labels import KIND_NAMES, three_digits, token_labels
from headwise.viz_app.figures.maps import share_map
from headwise.viz_app.session.asked import ask_trace, so_far
from headwise.viz_app.session.caches import weights_of
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.log import log_refusal
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import in_slices
from headwise.viz_app.session.target import show_target_text
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.widgets import clicked_value, show_figure
from headwise.viz_app.why.sentences.patches import run_patched_translation, run_patching
from headwise.viz_app.why.sentences.patching import (
    SUBLAYERS,
    Patching,
    is_of_encoder,
    patch_label,
    rank_correlations,
)
from headwise.viz_app.why.sentences.section.pair import SentencePair, patching_of
from headwise.viz_app.why.sentences.section.training import show_attributed

_WIDE, _HALF, _SMALL = 620, 420, 190
"""Pixels of maps in a window of 1,280."""
_SHORT = {"encoder_self": "self", "decoder_self": "self", "cross": "cross", "feed_forward": "FFN"}
"""Sublayers as narrow columns name them, below the name of their stack."""
_CONSTRUCTED = {
    "encoder": "the embedding of the only token that differs",
    "decoder": "the decoder's last layer where the odds are read",
}


def show_patching(
    selection: Selection, pair: SentencePair, quick: Patching, names: list[str]
) -> None:
    """Draw the three maps of restored shares, and A's translation under the chosen patch.

    ``quick`` is attribution patching of what is asked, ``names`` are the two words, escaped.
    """
    if quick.nothing_to_restore:
        st.info(
            "There is nothing to restore: A and B have the same odds of these words here, but for "
            f"rounding (they differ by {abs(quick.odds_b - quick.odds_a):.1e})."
        )
        return
    if (problem := pair.refused(selection.run.description, quick.step)) is not None:
        log_refusal(problem)
        st.warning(f"There are no exact passes here: {describe_error(problem)}.")
        st.caption(
            "Drawn is attribution patching alone, an approximation by one backward pass: each "
            "patch to first order, the gradient of A's log-odds × (B − A), rough where a patch "
            "changes much. Its rank correlation with the exact passes is not known here, since "
            "these are not run."
        )
        _show_maps(selection, pair, quick, names)
        show_attributed(selection, pair, quick)
        return
    weights = weights_of(selection.run, selection.step)
    exact = in_slices(
        "Patching one thing after another",
        lambda note: patching_of(weights, pair, quick.step, quick.words, note),
        key="patching-progress",
        stop=lambda: change_view(patching=False),
    )
    if exact is None:
        return
    _show_maps(selection, pair, exact, names)
    _say_correlation(exact, quick)
    show_attributed(selection, pair, exact)


def say_stopped(selection: Selection, pair: SentencePair, quick: Patching) -> None:
    """Say how far exact passes are that were begun and stopped; nothing of others."""
    weights = weights_of(selection.run, selection.step)
    asked = pair.a, pair.b.source, quick.step, quick.words
    done = len(so_far(weights, run_patching, *asked))
    if 0 < done < sum(np.isfinite(odds) for _, odds in quick.named()):
        st.caption(f"Patching stopped after {done:,} passes. Chosen again, it goes on from there.")


def _show_maps(selection: Selection, pair: SentencePair, found: Patching, names: list[str]) -> None:
    """Draw the three maps, exact or to first order, and what A becomes under a patch of them.

    Not where B's odds are so near to A's that shares of the difference say nothing.
    """
    if found.says_nothing:
        st.info(
            "Shares of B's way are not drawn: A and B hardly differ in the odds of these words "
            f"here (by {abs(found.odds_b - found.odds_a):.3g}), and one part of B alone moves them "
            f"by up to {found.farthest:.3g}. Ask about another position, or other words."
        )
        return
    streams = st.container()
    choice, anew = st.columns([2, 3], gap="medium")  # between the maps: a click there changes it
    with choice:
        chosen = _choose_patch(pair, found)
    with anew:
        _show_translation(selection, pair, found, chosen)
    with streams:
        _show_streams(selection, pair, found, names, chosen)
    _show_parts(selection, found, chosen)


def _restored(found: Patching) -> str:
    return "restored" if found.exact else "restored to first order"


def _choose(key: str) -> None:
    """Choose the patch that was clicked; a second click on it chooses none."""
    clicked = clicked_value(key) or ""
    change_view(patch="" if clicked == view().why.patch else clicked)


def _show_map(
    selection: Selection,
    found: Patching,
    part: str,
    *,
    rows: list[str],
    columns: list[str],
    titles: tuple[str, str],
    width: int,
    chosen: str,
    has_bar: bool = True,
) -> None:
    """Draw the shares of one of the arrays of odds."""
    odds = found.parts()[part]
    shares, restored = found.restored(odds), _restored(found)
    hover = np.array(
        [
            [
                f"{row} · {column}\n{restored} {three_digits(shares[y, x], '+')}\n"
                f"log-odds {three_digits(odds[y, x], '+')}"
                for x, column in enumerate(columns)
            ]
            for y, row in enumerate(rows)
        ]
    )
    key = f"patch_{part}"
    show_figure(
        share_map(
            shares.astype(np.float32),
            names=found.names()[part],
            hover=hover,
            selected=chosen,
            rows=rows,
            columns=columns,
            row_title=titles[0],
            column_title=titles[1],
            theme=selection.theme,
            width=width,
            square=True,
            has_bar=has_bar,
        ),
        key=key,
        alt=f"Restored share of each patch: {titles[0]} by {titles[1]}",
        name=f"patching-{part.replace('_', '-')}",
        on_select=lambda: _choose(key),
    )


def _show_streams(
    selection: Selection, pair: SentencePair, found: Patching, names: list[str], chosen: str
) -> None:
    columns = {"encoder": pair.labels, "decoder": token_labels(pair.a.consumed)[: found.step + 1]}
    titles = {"encoder": "source token", "decoder": "token of the shared target so far"}
    said = st.container()
    suffices, constructed = [], []
    for stack, place in zip(columns, st.columns([3, 2], gap="medium"), strict=True):
        part = f"stream_{stack}"
        shares = found.restored(found.parts()[part])
        rows = ["embedding", *(f"layer {n}" for n in range(1, len(shares)))]
        where = "none"
        if (first := found.earliest(stack)) is not None:
            if given := found.by_construction(stack, first):
                constructed.append(_CONSTRUCTED[stack])
            where = f"{rows[first[0]]}, “{columns[stack][first[1]]}” ({shares[first]:+.2f}"
            where += ", by construction)" if given else ")"
        suffices.append(f"{stack}: {where}")
        with place:
            st.markdown(f"**Stream of the {stack}**")
            _show_map(
                selection,
                found,
                part,
                rows=rows,
                columns=columns[stack],
                titles=("left by", titles[stack]),
                width=_WIDE if stack == "encoder" else _HALF,
                chosen=chosen,
            )
    said.markdown(
        "The earliest place of B that alone moves A at least halfway to B: "
        f"{escape_markdown('; '.join(suffices))}.",
        help=_halfway_said(found, names)
        + f" By construction: {' and '.join(constructed)} has all of B in every model."
        * bool(constructed)
        + f" Restored share = (log-odds of {names[0]} and {names[1]} in A under the patch − in A) "
        f"/ (in B − in A): 0 is as in A ({found.odds_a:+.2f}), 1 as in B ({found.odds_b:+.2f}); "
        "the colours end at −1 and 1. A place that restores nothing may still hold what B has: "
        "other parts can stand in for it, and so shares do not sum to 1. A head or sublayer of the "
        "encoder comes from B at all tokens that correspond, one of the decoder at all positions "
        "up to this one.",
    )
    both = zip(found.stretches, columns["encoder"], strict=True)
    if refused := [label for each, label in both if not each.fits]:
        st.caption(
            f"Grey: {escape_markdown(', '.join(refused))} has another number of tokens in B, so "
            "that no position of A corresponds to one of B, and a layer has no counterpart."
            + " Only at the end of the encoder, which the decoder reads token by token, B's "
            "stretch can stand in A's place, whatever its length." * found.exact
        )


def _halfway_said(found: Patching, names: list[str]) -> str:
    """Say which word is likelier halfway, and what a place that suffices does not say."""
    middle = (found.odds_a + found.odds_b) / 2
    likelier = names[0] if middle > 0 else names[1]
    still = " still" if middle * found.odds_a > 0 else ""
    return (
        f"Halfway are log-odds of {middle:+.2f}, at which **{likelier}** is{still} likelier. That "
        "a place suffices does not say that the model decides there: others may suffice, too."
    )


def _show_parts(selection: Selection, found: Patching, chosen: str) -> None:
    heads = {
        f"heads_{kind}": (f"{KIND_NAMES[kind]}: head", [str(n + 1) for n in range(odds.shape[1])])
        for kind, odds in found.heads.items()
    }
    written = {
        f"sublayers_{stack}": (f"sublayer of the {stack}", [_SHORT[name] for name in names])
        for stack, names in SUBLAYERS.items()
    }
    with st.container(key="patched-parts"):
        for part, (title, columns) in (heads | written).items():
            _show_map(
                selection,
                found,
                part,
                rows=[f"layer {n + 1}" for n in range(len(found.parts()[part]))],
                columns=columns,
                titles=("", title),
                width=_SMALL,
                chosen=chosen,
                has_bar=False,
            )


def _say_correlation(exact: Patching, quick: Patching) -> None:
    found = rank_correlations(exact, quick).items()
    st.caption(
        "Rank correlation of attribution patching with these passes: "
        f"{', '.join(f'{name} {each}' for name, each in found)}.",
        help="Attribution patching approximates all this by one backward pass (gradient of A's "
        "log-odds × (B − A)). Spearman's coefficient over the patches that change anything.",
    )


def _choose_patch(pair: SentencePair, found: Patching) -> str:
    """Ask for the patch under which A is translated, as a click on a cell does; "" for none."""
    columns, tokens = pair.labels, token_labels(pair.a.consumed)
    names = [name for name, odds in found.named() if np.isfinite(odds)]

    def written(name: str) -> str:
        return patch_label(name, columns, tokens) if name else "nothing: click a cell, or choose"

    usable = {"", *names}
    chosen: str = st.selectbox(
        "Translate A anew with this of B",
        ["", *names],
        format_func=written,
        **control("patch", "Patch", usable=usable.__contains__, written=written),
    )
    return chosen


def _show_translation(
    selection: Selection, pair: SentencePair, found: Patching, chosen: str
) -> None:
    """Draw A's translation under the chosen patch."""
    if not chosen:
        return
    run, asked = selection.run, (pair.b.source, found.step, chosen)
    prefix = tuple(run.tokenizers.prefix)
    ids = ask_trace(run_patched_translation, run, pair.a, *asked, prefix)
    own, other = pair.own_a.target_ids, pair.own_b.target_ids
    same = "as for A" if ids == own else "as for B" if ids == other else "neither A's nor B's"
    share = float(found.restored(np.array(dict(found.named())[chosen])))
    st.markdown(
        f"**A with it**, {_restored(found)} {share:+.2f}: {same}",
        help="Written anew from its beginning, with the patch in the encoder. The share is that of "
        "the two words under the shared target, so that it can be small beside what is written."
        if is_of_encoder(chosen)
        else "The shared target is kept up to this position, where the patch is at its positions, "
        "and the translation goes on after them without one.",
    )
    show_target_text(run.tokenizers.target.decode(ids), key="patched-translation")
