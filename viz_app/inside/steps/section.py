"""Draw the steps of a layer: each with its formula, the shapes of this sentence, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike, NDArray

from headwise.model.interface import Description, Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.formulas import feed_forward_formula, multi_head_formula
from headwise.viz_app.analysis.labels import count_of, three_digits
from headwise.viz_app.figures.bars import bar_chart, contribution_bars
from headwise.viz_app.figures.maps import score_stages, vector_map
from headwise.viz_app.inside.steps.follow import (
    FeedForwardSteps,
    HeadShares,
    HeadSteps,
    ResidualSteps,
    largest_positive,
)
from headwise.viz_app.records.model import AttentionSublayer, FeedForwardSublayer, LayerTrace
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import show_figure, show_heading

_MOST_KEYS, _MOST_UNITS = 8, 10
"""Most keys whose weighted values are drawn one by one, and most hidden units."""
_STREAMS = {
    "attention": "x is the stream before attention, as above",
    "feed_forward": "z is the stream before the feed-forward",
}


@contextmanager
def _step(key: str, title: str, formula: str, note: str) -> Iterator[None]:
    """Draw a step with its text on the left; what the block draws is on the right."""
    with st.container(border=True, key=f"{key}-step"):
        words, picture = st.columns([2, 3], gap="medium")
        with words:
            show_heading(f"{title}")
            st.latex(formula)
            st.caption(note)
        with picture:
            yield


def _draw_rows(
    selection: Selection,
    key: str,
    vectors: NDArray[np.float64],
    labels: Sequence[str],
    alt: str,
    *,
    limit: float | None = None,
    apart: tuple[int, float] | None = None,
) -> None:
    """Draw vectors as rows, (n, D), on a scale that ends at their largest number or a limit."""
    ends = _limit(vectors) if limit is None else limit
    figure = vector_map(vectors, labels=labels, limit=ends, theme=selection.theme, apart=apart)
    show_figure(figure, key=key, alt=alt)


def _norm_name(sublayer: AttentionSublayer | FeedForwardSublayer) -> str:
    return "LayerNorm" if sublayer.norm.bias is not None else "RMSNorm"


def _limit(*vectors: ArrayLike) -> float:
    return max(float(np.abs(vector).max()) for vector in vectors) or 1.0


def _numbers(vector: ArrayLike) -> str:
    """Write the first numbers of a vector."""
    values = np.asarray(vector)
    return f"({', '.join(f'{value:.2f}' for value in values[:4])}, …)"


def show_projections(
    selection: Selection,
    attention: AttentionSublayer,
    steps: HeadSteps,
    query: str,
    columns: Sequence[str],
    head: int,
) -> None:
    """Draw the query and the keys (section 3.2.2) of a head, from 0."""
    d_model, d_k = attention.read.shape[1], len(steps.query)
    biased = attention.query_projection.bias is not None
    q, k, v = (f" + b_{letter}" if biased else "" for letter in "QKV")
    cross = attention.kind == "cross"
    of_keys = attention.memory.shape[1]
    each = f"each W {d_model:,} × {d_k}"
    if of_keys != d_model:
        each = f"W_Q is {d_model:,} × {d_k}, W_K and W_V are {of_keys:,} × {d_k}"
    entered = "the layer's input"
    if cross and attention.other is None:
        entered = "the stream after the layer's self-attention"
    what = "the encoder's output" if cross else "the same"
    read = f"{_norm_name(attention)}(x)" if attention.norm_first else "x"
    of_query, of_key = rf"r\,W_Q{q}", f"y_j W_K{k}"
    if attention.query_norm is not None:
        norm = rf"\mathrm{{{_norm_name(attention)}}}"
        of_query, of_key = f"{norm}({of_query})", f"{norm}({of_key})"
    if attention.rotation is not None:
        of_query = rf"R_{{pos}}({of_query})"
        of_key = f"R_j({of_key})" if attention.turns_keys else of_key
    with _step(
        "projections",
        "1. Query, keys and values",
        rf"\begin{{aligned}} q &= {of_query} \\ k_j &= {of_key} \\ "
        rf"v_j &= y_j W_V{v} \end{{aligned}}",
        f"x is {entered} at the query; r = {read}, what attention reads of it, is 1 × {d_model:,}; "
        f"y, {what} at the keys, {len(columns)} × {of_keys:,}; {each}. So q is "
        f"1 × {d_k}, keys and values are {len(columns)} × {d_k}. q = {_numbers(steps.query)}"
        f"{_turned_note(attention, d_k)}{_shared_note(attention, head)}",
    ):
        vectors = np.vstack([steps.query, steps.keys])
        labels = [f"q: {query}", *(f"k: {label}" for label in columns)]
        alt = f"The query and {count_of(len(columns), 'key')} as rows of {d_k} numbers"
        _draw_rows(selection, "projections", vectors, labels, alt)


def _turned_note(attention: AttentionSublayer, d_k: int) -> str:
    """Say how queries and keys are turned by position; "" where they are not."""
    if attention.rotation is None:
        return ""
    if not attention.turns_keys:
        return (
            " The query is turned by its position, as it is for target tokens, to which the same "
            "query looks; keys of the source are not turned (Su et al. 2021)."
        )
    cos, sin = (part[min(1, len(part) - 1)] for part in attention.rotation)
    angles = np.arctan2(sin, cos)[: d_k // 2]  # of the second position
    return (
        f" Query and keys are turned by position, values are not: R turns dimensions i and "
        f"i + {d_k // 2} together, by an angle that grows with the position, from one to the next "
        f"by {np.abs(angles).max():.3g} at i = 0 and {np.abs(angles).min():.3g} at "
        f"i = {d_k // 2 - 1}. So q · k depends on how far apart the two are (Su et al. 2021)."
    )


def _shared_note(attention: AttentionSublayer, head: int) -> str:
    """Say which heads have the same keys and values; "" where each has its own."""
    several = attention.n_heads // attention.key_heads
    if several == 1:
        return ""
    first = head // several * several
    return (
        f" Heads {first + 1} to {first + several} have the same keys and values, those of key head "
        f"{first // several + 1} of {attention.key_heads}."
    )


def show_scores(
    selection: Selection,
    steps: HeadSteps,
    allowed: NDArray[np.bool_],
    columns: Sequence[str],
    pair: int,
    *,
    model: Description,
    kind: Kind,
) -> None:
    """Draw one row of equation 1, from products to weights."""
    d_k, masked = len(steps.query), int((~allowed).sum())
    mask = (
        f"{masked} later keys are masked: their score becomes −∞, their weight exactly 0."
        if masked
        else "No key is masked here: all may be looked at."
    )
    beside = ""
    if model.merged_attention and kind != "encoder_self":
        others = "source" if kind == "decoder_self" else "target"
        beside = f"; the rest is on tokens of the {others}, which are in the same softmax"
    with st.container(border=True, key="scores-step"):
        show_heading("2. Scores, mask and softmax")
        stages = {"q · k": steps.products}
        score, added, why = r"q \cdot k_j", "", ""
        if model.score_divisor is not None:
            root = model.score_divisor**0.5
            stages[f"÷ √{model.score_divisor} = {root:.2f}"] = steps.scaled
            score = rf"\frac{{{score}}}{{\sqrt{{{model.score_divisor}}}}}"
        elif model.scale_scores:
            stages[f"÷ √{d_k} = {d_k**0.5:.2f}"] = steps.scaled
            score = rf"\frac{{{score}}}{{\sqrt{{d_k}}}}"
            why = (
                f"A sum of {d_k} products of independent numbers of mean 0 and variance 1 has "
                f"variance {d_k}: divided by √{d_k} it is 1 again, so that the softmax does not "
                "become too sharp to learn (section 3.2.1 of the paper). "
            )
        if steps.position_bias is not None:
            stages["position bias"], stages["sum"] = steps.position_bias, steps.scores
            score += " + b_j"
            added = "b is what the distance between query and key adds. "
        if steps.capped is not None and (cap := model.score_cap) is not None:
            stages[f"cap at ±{cap:g}"] = steps.capped
            score = rf"{cap:g}\tanh\frac{{{score}}}{{{cap:g}}}"
            why += f"The cap c tanh(score / c), c = {cap:g}, lets no score beyond ±{cap:g}. "
        st.latex(rf"\alpha_j = \mathrm{{softmax}}_j\left({score} + m_j\right)")
        figure = score_stages(
            list(stages.values()),
            steps.weights,
            allowed=allowed,
            columns=columns,
            names=(*stages, "masked", "softmax: weight"),
            theme=selection.theme,
            selected=pair,
        )
        show_figure(
            figure,
            key="stages",
            alt=f"Over {count_of(len(columns), 'key')}: {', '.join(stages)}, masked, and weights",
        )
        st.caption(
            f"q Kᵀ is (1 × {d_k})({d_k} × {len(columns)}) = 1 × {len(columns)}: a number a key. "
            f"{added}{why}{mask} The weights sum to {three_digits(steps.weights.sum())}{beside}. "
            "The product of the framed key is taken apart below."
        )


def show_contributions(selection: Selection, steps: HeadSteps, key: int, label: str) -> None:
    """Draw what each dimension adds to the product of the query with one key."""
    products = steps.query * steps.keys[key]
    most = descending(np.abs(products))[:3]
    share = np.abs(products[most]).sum() / (np.abs(products).sum() or 1.0)
    with _step(
        "contributions",
        "Which dimensions make this product",
        r"q \cdot k_j = \sum_{i=0}^{d_k - 1} q_i\,k_{j,i}",
        f"The {len(products)} products for “{escape_markdown(label)}” sum to "
        f"{three_digits(products.sum())}. "
        f"The largest are of dimensions {', '.join(map(str, most))}, counted from 0: "
        f"{', '.join(f'{products[i]:+.2f}' for i in most)}, of all magnitudes {share:.2f}.",
    ):
        show_figure(
            contribution_bars(
                products, query=steps.query, key=steps.keys[key], theme=selection.theme
            ),
            key="contributions",
            alt=f"What each of {len(products)} dimensions adds to the product, as bars",
        )


def show_weighted(selection: Selection, steps: HeadSteps, columns: Sequence[str]) -> None:
    """Draw the values times their weights, and their sum: the rest of equation 1."""
    heaviest = largest_positive(steps.weights, _MOST_KEYS)
    others = np.setdiff1d(np.flatnonzero(np.isfinite(steps.masked)), heaviest)
    rows = [*steps.weighted[heaviest]]
    labels = [f"{steps.weights[j]:.3f} v: {columns[j]}" for j in heaviest]
    if len(others):
        rows.append(steps.weighted[others].sum(axis=0))
        labels.append(f"{steps.weights[others].sum():.3f} v: {count_of(len(others), 'other')}")
    vectors = np.vstack([*rows, steps.output])
    with _step(
        "weighted",
        "3. Weighted values",
        r"\mathrm{head} = \sum_j \alpha_j v_j",
        f"Each value times its weight, the heaviest first; their sum is the head's output, "
        f"(1 × {len(columns)})({len(columns)} × {len(steps.output)}) = 1 × {len(steps.output)}: "
        f"{_numbers(steps.output)}",
    ):
        alt = "The heaviest values times their weights as rows, and their sum"
        _draw_rows(selection, "weighted", vectors, [*labels, "sum: head"], alt)


def show_shares(
    selection: Selection, attention: AttentionSublayer, shares: HeadShares, head: int
) -> None:
    """Draw multi-head attention (section 3.2.2) as a sum over heads."""
    heads, d_model = shares.parts.shape
    rows = attention.output_projection.weight.shape[0]
    biased = attention.output_projection.bias is not None
    labels = [f"head {h + 1}" for h in range(heads)] + ["b_O"] * biased
    parts = np.vstack([shares.parts, *([shares.bias] if biased else []), shares.output])
    formula = multi_head_formula(str(heads), biased=biased)
    with _step(
        "all-heads",
        "4. All heads together",
        rf"\begin{{gathered}} {formula} \end{{gathered}}",
        f"(1 × {rows:,})({rows:,} × {d_model:,}) = 1 × {d_model:,}, the sum of what each head adds "
        "through its own rows of W_O. A bar is the part of that sum that a head makes, measured "
        "along its direction: bars sum to 1, and a head that pulls the other way is below 0. "
        f"Head {head + 1} has {shares.shares[head]:.3f}.",
    ):
        values = shares.shares[: len(labels)].tolist()
        written = [f"{value:+.3f}" for value in values]
        figure = bar_chart(labels, values, theme=selection.theme, written=written, marked=head)
        alt = "Each head's share in the output of the layer, as bars"
        show_figure(figure, key="shares", alt=alt)
        alt = "What each head adds to the output of the layer, as rows, and the sum"
        _draw_rows(selection, "parts", parts, [*labels, "sum"], alt)


def show_residual(
    selection: Selection,
    sublayer: AttentionSublayer | FeedForwardSublayer,
    steps: ResidualSteps,
    title: str,
    key: str,
) -> None:
    """Draw what a sublayer adds to the stream, and the norm around it (section 3.1)."""
    name = {"attention": "Attention", "feed_forward": "FFN"}[key]
    norm, x = _norm_name(sublayer), {"attention": "x", "feed_forward": "z"}[key]
    inner, outer = rf"\mathrm{{{name}}}", rf"\mathrm{{{norm}}}"
    rows = {x: steps.stream, f"{name}": steps.output, "sum": steps.total}
    formula, order = rf"{outer}({x} + {inner}({x}))", "the paper's order"
    apart, own = None, ""
    if sublayer.norm_first:
        rows = {x: steps.stream, f"{norm}({x})": steps.read, name: steps.output}
        apart = (1, _limit(steps.read))
        own = f", those of {norm}({x}) at ±{apart[1]:.1f}"
        formula, order = rf"{x} + {inner}({outer}({x}))", "pre-norm, not the paper's order"
    if sublayer.output_norm is not None:
        rows = {f"{norm}({name})" if row == name else row: of for row, of in rows.items()}
        formula = rf"{x} + {outer}({inner}({outer}({x})))"
        order = "a norm before and one after the sublayer, not the paper's order"
    if isinstance(sublayer, AttentionSublayer) and sublayer.other is not None:
        order += "; attention is the sum of both halves"
    rows |= {"what goes on": steps.result}
    vectors = np.vstack(list(rows.values()))
    # A few dimensions of a stream can be tens of times as large as the others.
    limit = float(np.quantile(np.abs(vectors), 0.98)) or 1.0
    lengths = ", ".join(f"{row} {np.linalg.norm(v):.1f}" for row, v in rows.items())
    with _step(
        f"residual-{key}",
        title,
        formula,
        f"{_STREAMS[key]}, 1 × {len(steps.stream)} ({order}; the norm has ε = "
        f"{sublayer.norm.epsilon:g}). Lengths: {escape_markdown(lengths)}. Colours end at "
        f"±{limit:.1f}{own}; the largest number is {np.abs(vectors).max():.1f}.",
    ):
        alt = f"As rows: {', '.join(rows)}"
        _draw_rows(selection, f"residual_{key}", vectors, list(rows), alt, limit=limit, apart=apart)


def show_feed_forward(
    selection: Selection, record: LayerTrace, kind: Kind, steps: FeedForwardSteps
) -> None:
    """Draw equation 2, with the largest hidden units."""
    d_model, d_ff = record.feed_forward.expand.weight.shape
    units = largest_positive(steps.hidden, _MOST_UNITS)
    norm_first = record.feed_forward.norm_first
    read = f"{_norm_name(record.feed_forward)}(z)" if norm_first else "z"
    read += ", of the stream z after attention"
    between = (
        " Between the two stands cross-attention, which is followed as a kind of its own."
        if kind == "decoder_self"
        else ""
    )
    with _step(
        "feed-forward",
        "6. Feed-forward",
        feed_forward_formula(
            record.feed_forward.activation,
            gated=record.feed_forward.gate is not None,
            biased=record.feed_forward.expand.bias is not None,
            read="s",
        ),
        f"s is what it reads: {read}. W₁ is {d_model:,} × {d_ff:,}, W₂ {d_ff:,} × {d_model:,}. Of "
        f"the {d_ff:,} hidden units {int((steps.hidden > 0).sum()):,} are above 0; drawn are the "
        f"largest.{between}",
    ):
        values = steps.hidden[units].tolist()
        figure = bar_chart(
            [f"unit {unit}" for unit in units.tolist()],
            values,
            theme=selection.theme,
            written=[f"{value:.2f}" for value in values],
        )
        show_figure(figure, key="units", alt="The largest hidden units, as bars")
