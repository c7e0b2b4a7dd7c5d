"""Show the paper's equations with the sizes and some numbers of this sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headwise.model.interface import Description
from headwise.viz_app.analysis.formulas import (
    divisor,
    feed_forward_formula,
    multi_head_formula,
    norm_name,
    output_formula,
)
from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.model.angles import encoding_formula, encodings, order_of
from headwise.viz_app.model.choices import SECTION_TITLES
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import PAGE_TITLES, PageName, show_link


@dataclass(frozen=True)
class Equation:
    """An equation of the paper has numbers of this sentence and a page that shows it in detail."""

    title: str
    formula: str
    here: str
    page: PageName
    section: str = ""
    """The section of that page; "" for the one that it opens with."""


def show_equations(selection: Selection, trace: Trace) -> None:
    """Draw the equations one below the other, and the ways to what shows them in detail."""
    with st.container(key="equations", gap="xsmall"):
        for equation in equations_of(selection, trace):
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                where = re.findall(r"\((.*?)\)", equation.title)
                note = f"{where[0].capitalize()}. {equation.here}"
                title = re.sub(r" \(.*?\)", "", equation.title)
                st.markdown(f"**{title}**", help=note, width="content")
                field = "section" if equation.page == "model" else equation.page
                section = {field: equation.section} if equation.section else {}
                label = SECTION_TITLES.get(equation.section) or PAGE_TITLES[equation.page]
                show_link(label, equation.page, key=f"follow-{equation.title}", **section)
            st.latex(equation.formula)


def equations_of(selection: Selection, trace: Trace) -> Iterator[Equation]:
    """Yield the equations of sections 3.1 to 3.5 in the order in which a sentence meets them."""
    model = selection.run.description
    source, steps = len(trace.source), len(trace.consumed)
    yield from _of_positions(model, trace.source_embedding.positions, source, steps)
    yield from _of_embeddings(model)
    yield from _of_attention(model, source, steps)
    yield from _of_feed_forward(model, source, steps)
    yield from _of_norm(model)
    first = token_label(trace.predicted.texts[0])
    scaled = f" x is divided by √{model.d_model:,} first." * model.scale_output
    if model.logit_cap is not None:
        scaled += f" No logit is beyond ±{model.logit_cap:g}."
    yield Equation(
        "Output (section 3.4)",
        rf"P = \mathrm{{softmax}}({output_formula(model, 'x')})",
        f"({steps} × {model.d_model:,})({model.d_model:,} × {model.target_vocab_size:,}) = "
        f"{steps} × {model.target_vocab_size:,}, a distribution for each position.{scaled} The "
        f"first gives “{escape_markdown(first)}” the probability "
        f"{np.exp(trace.predictions.log_probability[0]):.3f}.",
        "translate",
    )


def _of_positions(
    model: Description, positions: Floats | None, source: int, steps: int
) -> Iterator[Equation]:
    of_encoder, d_model = model.of("encoder").d_model, model.d_model
    half = d_model // 2
    shapes = f"{source} × {of_encoder:,} for the source, {steps} × {d_model:,} for the target."
    title = "Positional encodings (section 3.5)"
    if model.positions == "relative":
        title, formula = "Relative positions (not in the paper)", r"B_{ij} = b(j - i)"
        here = (
            "Nothing is added to embeddings: each head adds to a score a learned number for the "
            "distance from query to key, in self-attention only."
        )
    elif model.positions == "rotary":
        title = "Rotary positions (not in the paper)"
        formula = (
            r"\begin{aligned} \tilde x_i &= x_i \cos(pos\,\omega_i) - x_{d_k/2+i} "
            r"\sin(pos\,\omega_i) \\ \tilde x_{d_k/2+i} &= x_{d_k/2+i} \cos(pos\,\omega_i) + "
            r"x_i \sin(pos\,\omega_i) \end{aligned}"
        )
        here = (
            "Nothing is added to embeddings: in self-attention each query and key x is turned by "
            "its position, two dimensions at a time, so that a score depends on how far apart the "
            "two are (Su et al. 2021). Values are not turned, nor is anything in cross-attention"
            + (", but its queries, which are those of self-attention." * model.merged_attention)
            + "." * (not model.merged_attention)
        )
    elif model.positions == "learned":
        title, formula = "Positional encodings (section 3.5, learned)", r"PE_{pos} = W_{pos}"
        here = f"A learned row a position, no sines: {shapes}" + (
            " To each the vector of the first type of tokens is added, since all tokens are of it."
            * model.token_types
        )
    elif positions is None:
        return
    elif (order := order_of(positions)) is None:
        formula = r"PE_{pos} = \sin, \cos\;\text{of}\;pos\;\text{at many wavelengths}"
        here = f"Sines and cosines, but not those of the paper's formula: {shapes}"
    else:
        formula = encoding_formula(order)
        first = positions[1] if len(positions) > 1 else encodings([1], d_model, order)[0]
        second = 1 if order == "interleaved" else half
        note = "" if order == "interleaved" else "All sines come first, then the cosines. "
        here = (
            f"{note}D = {d_model:,}, so i is 0 to {half - 1}: {shapes} pos is counted from 0: "
            f"token 2 has pos 1, and at i = 0 {first[0]:.3f} and {first[second]:.3f}."
        )
    yield Equation(title, formula, here, "model", "positions")


def _of_embeddings(model: Description) -> Iterator[Equation]:
    """Yield the equation of the input of the encoder, and of the decoder where it is another."""
    encoder, title = model.of("encoder"), "Embeddings (section 3.4)"
    formulas = [_input_formula(of) for of in (encoder, model)]
    same = formulas[0] == formulas[1]
    for stack, of, formula in (("source", encoder, formulas[0]), ("target", model, formulas[1])):
        size = of.source_vocab_size if stack == "source" else of.target_vocab_size
        scaled = (
            f", which are multiplied by √{of.d_model:,} = {math.sqrt(of.d_model):.2f}."
            if of.scale_embeddings
            else ", which are not scaled here."
        )
        if stack == "source" or not same:
            yield Equation(
                title + f", {stack}" * (not same),
                f"x_{{pos}} = {formula}",
                f"E of the {stack} has {size:,} rows, one for each token of the vocabulary, of "
                f"{of.d_model:,} numbers{scaled}",
                "model",
                "input",
            )


def _input_formula(model: Description) -> str:
    token = r"\sqrt{D}\,E_{id}" if model.scale_embeddings else "E_{id}"
    token = rf"\mathrm{{{norm_name(model)}}}({token})" if model.token_norm else token
    whole = token + " + PE_{pos}" * model.adds_positions
    return rf"\mathrm{{{norm_name(model)}}}({whole})" if model.embedding_norm else whole


def _of_attention(model: Description, source: int, steps: int) -> Iterator[Equation]:
    in_a_layer = 1 if model.merged_attention else 2
    layers = model.n_encoder_layers + in_a_layer * model.n_decoder_layers
    streams = [model.of("encoder").d_model, model.d_model]
    heads = [model.n_encoder_heads, model.n_decoder_heads]
    widths = [model.encoder_d_k, model.decoder_d_k]
    weights = (
        f"Weights are {source} × {source} in the encoder, {steps} × {steps} and masked in the "
        f"decoder, {steps} × {source} across."
    )
    roots = [f"√{model.score_divisor or d_k} = {1 / model.score_scale(d_k):.2f}" for d_k in widths]
    if model.scale_scores:
        fraction = rf"\frac{{QK^\top}}{{\sqrt{{{divisor(model)}}}}}"
        scaled = f"√d_k = {_by_stack(*roots)}. "
        if model.score_divisor is not None:
            scaled = f"{roots[0]}, where the paper has √d_k. "
    else:
        fraction, scaled = "QK^\\top", "Scores are not divided by √d_k here. "
    cap = model.score_cap
    if cap is not None:
        fraction = rf"{cap:g}\tanh\left({fraction}\,/\,{cap:g}\right)"
        scaled += f"No score is beyond ±{cap:g}. "
    if model.positions == "rotary":
        also = ", and so are the queries of cross-attention" * model.merged_attention
        scaled += f"In self-attention Q and K are turned by position first{also}. "
    if model.merged_attention:
        scaled += (
            "In the decoder the softmax is one over target and source: its weights are shown as "
            "two halves, self-attention and cross-attention, which sum to 1 together. "
        )
    relative = " + B" if model.positions == "relative" else ""
    yield Equation(
        f"{'Scaled dot' if model.scale_scores else 'Dot'}-product attention (equation 1)",
        r"\begin{aligned} & \mathrm{Attention}(Q, K, V) \\ "
        rf"& = \mathrm{{softmax}}\left({fraction}{relative}\right)V \end{{aligned}}",
        scaled + "B is added in self-attention only. " * bool(relative) + weights,
        "inside",
        "scores",
    )
    q, k, v = (f" + b_{letter}" if model.attention_bias else "" for letter in "QKV")
    query, key = f"x W_Q{q}", f"y W_K{k}"
    if model.head_norms:
        query, key = (rf"\mathrm{{{norm_name(model)}}}({of})" for of in (query, key))
    number = str(heads[0]) if heads[0] == heads[1] else "h"
    each = [
        f"{n} heads projects from {d_model:,} to {d_k}"
        for n, d_model, d_k in zip(heads, streams, widths, strict=True)
    ]
    outputs = [
        f"{n * d_k:,} × {d_model:,}" for n, d_model, d_k in zip(heads, streams, widths, strict=True)
    ]
    across = f"Keys and values of cross-attention are made from the encoder's {streams[0]:,}. " * (
        streams[0] != streams[1]
    )
    total = model.n_encoder_layers * heads[0] + in_a_layer * model.n_decoder_layers * heads[1]
    yield Equation(
        "Multi-head attention (section 3.2.2)",
        rf"\begin{{gathered}} {multi_head_formula(number, biased=model.attention_bias)} \\ "
        r"\mathrm{head}_i = \mathrm{Attention}(Q_i, K_i, V_i) \\ "
        rf"Q_i = {query},\quad K_i = {key} \\ V_i = y W_V{v} \end{{gathered}}",
        f"Each of {_by_stack(*each, joined=', each of ')}; W_O is {_by_stack(*outputs)}. {across}"
        f"{layers} such modules, {total} heads.{_shared_keys(model)}",
        "inside",
        "heads",
    )


def _shared_keys(model: Description) -> str:
    """Say which heads share keys and values; "" where each has its own."""
    said = []
    for stack, heads in (("encoder", model.n_encoder_heads), ("decoder", model.n_decoder_heads)):
        own = model.of("encoder" if stack == "encoder" else "decoder").key_heads
        if own is not None:
            said.append(f"in the {stack} each {heads // own} heads in a row, of {heads},")
    return f" Keys and values are shared: {' and '.join(said)} have the same." if said else ""


def _by_stack(encoder: str, decoder: str, *, joined: str = ", ") -> str:
    """Join what is said of encoder and decoder, once if it is the same."""
    if encoder == decoder:
        return encoder
    return f"{encoder} in the encoder{joined}{decoder} in the decoder"


def _of_feed_forward(model: Description, source: int, steps: int) -> Iterator[Equation]:
    """Yield equation 2: one for each stack where they differ in it."""
    encoder = model.of("encoder")
    widths = [
        f"{d_model:,} × {d_ff:,}, W₂ {d_ff:,} × {d_model:,}"
        for d_model, d_ff in (
            (encoder.d_model, model.encoder_d_ff),
            (model.d_model, model.decoder_d_ff),
        )
    ]
    formulas = [
        feed_forward_formula(of.activation, gated=of.gated, biased=of.feed_forward_bias)
        for of in (encoder, model)
    ]
    gate, layers = " V has the shape of W₁.", (model.n_encoder_layers, model.n_decoder_layers)
    title = "Feed-forward (equation 2)"
    if formulas[0] == formulas[1]:
        here = f"W₁ is {_by_stack(*widths)}; at each of {source} + {steps} positions, in each of "
        here += f"{sum(layers)} layers.{gate * model.gated}"
        yield Equation(title, formulas[0], here, "inside", "feed forward")
        return
    for stack, of, formula, width, count, positions in zip(
        ("encoder", "decoder"),
        (encoder, model),
        formulas,
        widths,
        layers,
        (source, steps),
        strict=True,
    ):
        here = f"W₁ is {width}; at each of {positions} positions, in each of {count} layers."
        yield Equation(
            f"{title}, {stack}", formula, here + gate * of.gated, "inside", "feed forward"
        )


def _of_norm(model: Description) -> Iterator[Equation]:
    """Yield the equation of the norm: one for each stack where they differ in it."""
    encoder, same = model.of("encoder"), ("norm", "norm_kind", "final_norm", "d_model")
    of_decoder = 2 if model.merged_attention else 3
    layers = {"encoder": 2 * model.n_encoder_layers, "decoder": of_decoder * model.n_decoder_layers}
    if all(getattr(encoder, name) == getattr(model, name) for name in same):
        yield _norm_of_stack(model, sum(layers.values()), "")
    else:
        yield _norm_of_stack(encoder, layers["encoder"], ", encoder")
        yield _norm_of_stack(model, layers["decoder"], ", decoder")


def _norm_of_stack(model: Description, sublayers: int, where: str) -> Equation:
    post, norm = model.norm == "post", rf"\mathrm{{{norm_name(model)}}}"
    order = (
        "The norm comes after the sum, as in the paper"
        if post
        else "The norm comes before the sublayer; in the paper it comes after the sum"
    )
    inner = rf"\mathrm{{Sublayer}}({norm}(x))"
    if model.output_norms:
        order += ", and another norm is of what the sublayer gives"
        inner = rf"{norm}({inner})"
    root = "" if model.norm_kind == "layer" else "The norm divides by the root mean square. "
    return Equation(
        f"Residual connection and norm (section 3.1){where}",
        rf"{norm}(x + \mathrm{{Sublayer}}(x))" if post else f"x + {inner}",
        f"{root}{order}. There are {sublayers} of these, on rows of {model.d_model:,}"
        + (f"; and one more norm on top of {'the' if where else 'each'} stack." * model.final_norm)
        + "." * (not model.final_norm),
        "inside",
        "residual",
    )
