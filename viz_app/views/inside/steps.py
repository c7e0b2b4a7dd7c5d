"""The steps of the page: each a formula, the shapes of this sentence, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike, NDArray

from viz_app.analysis.inside import (
    FeedForwardSteps,
    HeadSteps,
    ResidualSteps,
    Shares,
    strongest,
)
from viz_app.figures.charts import head_shares as share_bars
from viz_app.figures.charts import hidden_units
from viz_app.figures.maps import vector_map
from viz_app.figures.steps import contribution_bars, score_stages
from viz_app.layer_records import AttentionSublayer, FeedForwardSublayer, LayerTrace
from viz_app.records import Kind
from viz_app.views._session import Selection
from viz_app.views._widgets import plain, show_figure

_MOST_KEYS, _MOST_UNITS = 8, 10
"""Keys whose weighted values, and hidden units that, are drawn one by one."""
_NORM = r"\mathrm{LayerNorm}"


@contextmanager
def _step(title: str, formula: str, note: str) -> Iterator[None]:
    """A step of the page: what it is on the left, its picture on the right."""
    with st.container(border=True):
        words, picture = st.columns([2, 3], gap="medium")
        with words:
            st.markdown(f"##### {title}")
            st.latex(formula)
            st.caption(note)
        with picture:
            yield


def _limit(*vectors: ArrayLike) -> float:
    return max(float(np.abs(vector).max()) for vector in vectors) or 1.0


def _numbers(vector: ArrayLike) -> str:
    """The first numbers of a vector."""
    values = np.asarray(vector)
    return f"({', '.join(f'{value:.2f}' for value in values[:4])}, …)"


def show_projections(
    selection: Selection,
    attention: AttentionSublayer,
    steps: HeadSteps,
    query: str,
    columns: Sequence[str],
) -> None:
    """What is looked for, and what each key has: section 3.2.2."""
    d_model, d_k = attention.read.shape[1], len(steps.query)
    biased = attention.query_projection.bias is not None
    q, k, v = (f" + b_{letter}" if biased else "" for letter in "QKV")
    what = "the encoder's output" if attention.kind == "cross" else "what the layer reads"
    with _step(
        "1. Query, keys and values",
        rf"\begin{{aligned}} q &= x\,W_Q{q} \\ k_j &= y_j W_K{k} \\ "
        rf"v_j &= y_j W_V{v} \end{{aligned}}",
        f"x, what the layer reads at the query, is 1 × {d_model}; y, {what} at the keys, "
        f"{len(columns)} × {d_model}; each W {d_model} × {d_k}. So q is 1 × {d_k}, keys and values "
        f"are {len(columns)} × {d_k}. q = {_numbers(steps.query)}",
    ):
        vectors = np.vstack([steps.query, steps.keys])
        labels = [f"q: {query}", *(f"k: {label}" for label in columns)]
        figure = vector_map(vectors, labels=labels, limit=_limit(vectors), theme=selection.theme)
        show_figure(
            figure,
            key="projections",
            alt=f"The query and {len(columns)} keys as rows of {d_k} numbers",
        )


def show_scores(
    selection: Selection,
    steps: HeadSteps,
    allowed: NDArray[np.bool_],
    columns: Sequence[str],
    pair: int,
) -> None:
    """From products to weights: equation 1, one row of it."""
    d_k, masked = len(steps.query), int((~allowed).sum())
    mask = (
        f"{masked} later keys are masked: their score becomes −∞, their weight exactly 0."
        if masked
        else "No key is masked here: all may be looked at."
    )
    with st.container(border=True):
        st.markdown("##### 2. Scores, mask and softmax")
        st.latex(r"\alpha_j = \mathrm{softmax}_j\left(\frac{q \cdot k_j}{\sqrt{d_k}} + m_j\right)")
        figure = score_stages(
            steps.products,
            steps.scaled,
            steps.weights,
            allowed=allowed,
            columns=columns,
            names=("q · k", f"÷ √{d_k} = {d_k**0.5:.2f}", "masked", "softmax: weight"),
            theme=selection.theme,
            selected=pair,
        )
        show_figure(
            figure,
            key="stages",
            alt=f"Over {len(columns)} keys: the products, divided, masked, and the weights",
        )
        st.caption(
            f"q Kᵀ is (1 × {d_k})({d_k} × {len(columns)}) = 1 × {len(columns)}: a number a key. "
            f"{mask} The weights sum to {steps.weights.sum():.4f}. The framed key is taken apart."
        )


def show_contributions(selection: Selection, steps: HeadSteps, key: int, label: str) -> None:
    """One product taken apart by its dimensions."""
    products = steps.query * steps.keys[key]
    most = np.argsort(-np.abs(products))[:3]
    with _step(
        "Which dimensions make this product",
        r"q \cdot k_j = \sum_{i=1}^{d_k} q_i\,k_{j,i}",
        f"The {len(products)} products for {plain(label)} sum to {products.sum():.3f}. Most comes "
        f"from dimensions {', '.join(map(str, most))}: "
        f"{', '.join(f'{products[i]:+.2f}' for i in most)}.",
    ):
        figure = contribution_bars(
            products, query=steps.query, key=steps.keys[key], theme=selection.theme
        )
        show_figure(
            figure,
            key="contributions",
            alt=f"What each of {len(products)} dimensions adds to the product, as bars",
        )


def show_weighted(selection: Selection, steps: HeadSteps, columns: Sequence[str]) -> None:
    """The rest of equation 1: values by their weights."""
    heaviest = strongest(steps.weights, _MOST_KEYS)
    others = np.setdiff1d(np.flatnonzero(np.isfinite(steps.masked)), heaviest)
    rows = [*steps.weighted[heaviest]]
    labels = [f"{steps.weights[j]:.3f} v: {columns[j]}" for j in heaviest]
    if len(others):
        rows.append(steps.weighted[others].sum(axis=0))
        labels.append(f"{steps.weights[others].sum():.3f} v: {len(others)} others")
    vectors = np.vstack([*rows, steps.output])
    with _step(
        "3. Weighted values",
        r"\mathrm{head} = \sum_j \alpha_j v_j",
        f"Each value times its weight, the heaviest first; their sum is the head's output, "
        f"(1 × {len(columns)})({len(columns)} × {len(steps.output)}) = 1 × {len(steps.output)}: "
        f"{_numbers(steps.output)}",
    ):
        figure = vector_map(
            vectors,
            labels=[*labels, "sum: head"],
            limit=_limit(vectors),
            theme=selection.theme,
        )
        show_figure(
            figure,
            key="weighted",
            alt="The heaviest values times their weights as rows, and their sum",
        )


def show_shares(
    selection: Selection, attention: AttentionSublayer, shares: Shares, head: int
) -> None:
    """Multi-head attention, section 3.2.2, as a sum over heads."""
    heads, d_model = shares.parts.shape
    rows = attention.output_projection.weight.shape[0]
    biased = attention.output_projection.bias is not None
    labels = [f"head {h + 1}" for h in range(heads)] + ["b_O"] * biased
    parts = np.vstack([shares.parts, *([shares.bias] if biased else []), shares.output])
    bias = " + b_O" if biased else ""
    with _step(
        "4. All heads together",
        rf"\mathrm{{Concat}}(\mathrm{{head}}_1, …, \mathrm{{head}}_{{{heads}}})\,W_O{bias}",
        f"(1 × {rows})({rows} × {d_model}) = 1 × {d_model}, the sum of what each head adds through "
        "its own rows of W_O. The bars: each head's share along that sum; they sum to 1, and a "
        f"head that pulls the other way is below 0. Head {head + 1} has {shares.shares[head]:.3f}.",
    ):
        bars = share_bars(
            labels, shares.shares[: len(labels)].tolist(), theme=selection.theme, marked=head
        )
        show_figure(bars, key="shares", alt="Each head's share in the output of the layer, as bars")
        figure = vector_map(
            parts, labels=[*labels, "sum"], limit=_limit(parts), theme=selection.theme
        )
        show_figure(
            figure,
            key="parts",
            alt="What each head adds to the output of the layer, as rows, and the sum",
        )


def show_residual(
    selection: Selection,
    sublayer: AttentionSublayer | FeedForwardSublayer,
    steps: ResidualSteps,
    title: str,
    key: str,
) -> None:
    """What a sublayer adds to the stream, and the norm around it: section 3.1."""
    name = {"attention": "Attention", "feed_forward": "FFN"}[key]
    inner = rf"\mathrm{{{name}}}"
    rows = {"x": steps.stream, f"{name}": steps.output, "sum": steps.total}
    formula, order = rf"{_NORM}(x + {inner}(x))", "the paper's order"
    if sublayer.norm_first:
        rows = {"x": steps.stream, "LayerNorm(x)": steps.read, name: steps.output}
        formula, order = rf"x + {inner}({_NORM}(x))", "pre-norm, not the paper's order"
    rows |= {"what goes on": steps.result}
    vectors = np.vstack(list(rows.values()))
    # A few dimensions of a stream can be tens of times as large as the others.
    limit = float(np.quantile(np.abs(vectors), 0.98)) or 1.0
    lengths = ", ".join(f"{row} {np.linalg.norm(v):.1f}" for row, v in rows.items())
    with _step(
        title,
        formula,
        f"x is the stream, 1 × {len(steps.stream)} ({order}; the norm has ε = "
        f"{sublayer.norm.epsilon:g}). Lengths: {plain(lengths)}. Colours end at ±{limit:.1f}; the "
        f"largest number is {np.abs(vectors).max():.1f}.",
    ):
        figure = vector_map(vectors, labels=list(rows), limit=limit, theme=selection.theme)
        show_figure(figure, key=f"residual_{key}", alt=f"As rows: {', '.join(rows)}")


def show_feed_forward(
    selection: Selection, record: LayerTrace, kind: Kind, steps: FeedForwardSteps
) -> None:
    """Equation 2, and what fires in it."""
    d_model, d_ff = record.feed_forward.expand.weight.shape
    units = strongest(steps.hidden, _MOST_UNITS)
    between = (
        " Between the two stands cross-attention, which is followed as a kind of its own."
        if kind == "decoder_self"
        else ""
    )
    with _step(
        "6. Feed-forward",
        r"\mathrm{FFN}(x) = \max(0, x\,W_1 + b_1)\,W_2 + b_2",
        f"W₁ is {d_model} × {d_ff}, W₂ {d_ff} × {d_model}. Of the {d_ff} hidden units "
        f"{int((steps.hidden > 0).sum())} fire; drawn are those that fire most.{between}",
    ):
        figure = hidden_units(units.tolist(), steps.hidden[units].tolist(), theme=selection.theme)
        show_figure(figure, key="units", alt="The hidden units that fire most, as bars")
