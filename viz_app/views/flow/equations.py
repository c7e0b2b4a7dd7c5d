"""The paper's equations with the sizes and some numbers of this sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_label
from viz_app.records import Trace
from viz_app.views._session import Selection
from viz_app.views._widgets import plain

_INSIDE, _EMBEDDINGS, _TRANSLATE = "Inside a head", "Embeddings & positions", "Translate"
_NORM = r"\mathrm{LayerNorm}"


@dataclass(frozen=True)
class Equation:
    """An equation, what it is here, and the page that follows it."""

    title: str
    formula: str
    here: str
    page: str


def show_equations(selection: Selection, trace: Trace) -> None:
    """Two equations a row."""
    st.markdown("##### The paper's equations, here")
    found = list(equations_of(selection, trace))
    for start in range(0, len(found), 2):
        for equation, place in zip(found[start : start + 2], st.columns(2), strict=False):
            with place, st.container(border=True, height="stretch"):
                st.markdown(f"**{equation.title}**")
                st.latex(equation.formula)
                st.caption(f"{equation.here} Followed on the page **{plain(equation.page)}**.")


def equations_of(selection: Selection, trace: Trace) -> Iterator[Equation]:
    """The equations of sections 3.1 to 3.5, in the order in which a sentence meets them."""
    config = selection.run.info.model
    d_model, heads, d_k = config.d_model, config.n_heads, config.head_width
    source, steps = len(trace.source), len(trace.consumed)
    position = trace.source_embedding.positions[1] if source > 1 else np.array([math.sin(1.0)] * 2)
    yield Equation(
        "Positional encodings (section 3.5)",
        r"\begin{aligned} PE_{(pos,\,2i)} &= \sin\left(pos / 10000^{2i/D}\right) \\ "
        r"PE_{(pos,\,2i+1)} &= \cos\left(pos / 10000^{2i/D}\right) \end{aligned}",
        f"D = {d_model}, so i is 0 to {d_model // 2 - 1}: {source} × {d_model} for the source, "
        f"{steps} × {d_model} for the target. At pos 1, i = 0: {position[0]:.3f} and "
        f"{position[1]:.3f}.",
        _EMBEDDINGS,
    )
    scale = math.sqrt(d_model)
    yield Equation(
        "Embeddings (section 3.4)",
        (r"x_{pos} = \sqrt{D}\,E_{id} + PE_{pos}")
        if config.scale_embeddings
        else r"x_{pos} = E_{id} + PE_{pos}",
        f"E has {config.source_vocab_size:,} source rows of {d_model}"
        + (f", times √{d_model} = {scale:.2f}." if config.scale_embeddings else ", unscaled here."),
        _EMBEDDINGS,
    )
    yield Equation(
        "Scaled dot-product attention (equation 1)",
        r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V",
        f"√d_k = √{d_k} = {math.sqrt(d_k):.2f}. Weights are {source} × {source} in the encoder, "
        f"{steps} × {steps} and masked in the decoder, {steps} × {source} across.",
        _INSIDE,
    )
    bias = " + b_O" if config.attention_bias else ""
    terms = (f" + b_{letter}" if config.attention_bias else "" for letter in "QKV")
    q, k, v = terms
    yield Equation(
        "Multi-head attention (section 3.2.2)",
        r"\begin{aligned} \mathrm{MultiHead} &= \mathrm{Concat}(\mathrm{head}_1, …, "
        rf"\mathrm{{head}}_{{{heads}}})\,W_O{bias} \\ \mathrm{{head}}_i &= \mathrm{{Attention}}"
        rf"(x W_Q{q},\; y W_K{k},\; y W_V{v}) \end{{aligned}}",
        f"Each of {heads} heads projects from {d_model} to {d_k}; W_O is {heads * d_k} × "
        f"{d_model}. {3 * config.n_layers} such modules, {3 * config.n_layers * heads} heads.",
        _INSIDE,
    )
    yield Equation(
        "Feed-forward (equation 2)",
        r"\mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\,W_2 + b_2",
        f"W₁ is {d_model} × {config.d_ff}, W₂ {config.d_ff} × {d_model}; at each of {source} + "
        f"{steps} positions, in each of {2 * config.n_layers} layers.",
        _INSIDE,
    )
    post = config.norm == "post"
    yield Equation(
        "Residual connection and norm (section 3.1)",
        (rf"{_NORM}(x + \mathrm{{Sublayer}}(x))")
        if post
        else rf"x + \mathrm{{Sublayer}}({_NORM}(x))",
        f"{'The order of the paper' if post else 'Norm first; the paper has it after the sum'}, "
        f"{5 * config.n_layers} times, on rows of {d_model}"
        + ("; and a norm on top of each stack." if config.final_norm else "."),
        _INSIDE,
    )
    first = piece_label(trace.predicted.pieces[0])
    yield Equation(
        "Output (section 3.4)",
        rf"P = \mathrm{{softmax}}(x\,W{' + b' if config.output_bias else ''})",
        f"({steps} × {d_model})({d_model} × {config.target_vocab_size:,}) = {steps} × "
        f"{config.target_vocab_size:,}: a distribution a step. The first gives {plain(first)} "
        f"{np.exp(trace.predictions.log_probability[0]):.3f}.",
        _TRANSLATE,
    )
