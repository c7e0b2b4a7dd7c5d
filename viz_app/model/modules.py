"""Show the tree of the model's modules, with what each hook point recorded of this sentence.

Beside the presets stands this run's configuration, and what each choice changes in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st

from headwise.model.config import TransformerConfig
from headwise.model.interface import Description
from headwise.model.presets import PRESETS
from headwise.viz_app.analysis.formulas import describe_module, describe_point
from headwise.viz_app.figures.html import comparison_table, module_tree_html
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary, Trace
from headwise.viz_app.session.caches import checkpoint_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import choose_one, show_heading
from headwise.viz_app.trace.weights import named_weights

_LEVELS = {"stacks": 2, "layers": 4, "everything": 9}
"""How far the tree is unfolded: names and levels."""
_ROWS = {
    "norm": (
        "norm",
        "pre: x + f(LayerNorm(x)). post, the paper's: LayerNorm(x + f(x)). The formula of every "
        "residual; the modules stay the same.",
    ),
    "final_norm": (
        "final norm",
        "Adds final_norm on top of encoder and decoder: 4 D parameters together.",
    ),
    "attention_bias": (
        "attention biases",
        "Adds b_Q, b_K, b_V and b_O to each attention: 3 h d_k + D parameters each.",
    ),
    "output_bias": ("output bias", "Logits are x W + b: V parameters more in unembedding."),
    "d_model": (
        "d_model",
        "D, the width of the stream: of what goes in and out of every sublayer.",
    ),
    "n_heads": ("heads h", "The second number in the shapes of queries, keys, values and weights."),
    "head_width": (
        "d_k",
        "Width of a head's queries, keys and values: √d_k in the scores, W_Q of D × h d_k. "
        "In the paper always D / h.",
    ),
    "n_encoder_layers": ("encoder layers N", "Layers below encoder.layers."),
    "n_decoder_layers": ("decoder layers", "Layers below decoder.layers; in the paper as many."),
    "d_ff": ("d_ff", "Width of feed_forward.hidden: 2 D d_ff + d_ff + D parameters each."),
    "tied": (
        "tied embeddings",
        "none: three tables. output: unembedding is the target's table. all, the paper's: one for "
        "the three. Formulas stay; a tied tensor is counted once.",
    ),
    "scale_embeddings": ("embeddings × √D", "√D · E[id] in place of E[id]; no parameters."),
    "source_vocab_size": (
        "source tokens",
        "Rows of the source's table, D parameters each; of presets, the most that they allow.",
    ),
    "target_vocab_size": (
        "target tokens",
        "V: rows of the target's table, and the width of logits; of presets, the most.",
    ),
    "dropout": (
        "dropout",
        "On embeddings + positions and on each sublayer's output, in training only: nothing here.",
    ),
    "hidden_dropout": (
        "hidden dropout",
        "Between W₁ and W₂, in training only (not in the paper): nothing here.",
    ),
    "max_length": (
        "longest sentence",
        "In tokens. Positions are computed, not stored: no parameters, the tree stays the same.",
    ),
}
"""Attribute of a configuration → its label, and what it changes in the tree and its formulas."""


@panel("modules")
def show_modules(selection: Selection, trace: Trace) -> None:
    """Draw the tree, and ask how far it is unfolded."""
    tree = tree_of(selection, trace)
    show_heading(
        "Module by module",
        f"On the right, parameters: of a module and all below it, {tree.total:,} in all. The line "
        "of a hook point has what its tensor holds for this sentence: shape, mean, standard "
        "deviation, and the mean Euclidean norm of its last axis. Shapes are batch × position × "
        "width; those of a head's vectors are batch × head × position × d_k, of scores and weights "
        "batch × head × query × key. Weights are listed as stored, outputs × inputs: the paper's W "
        "transposed. Left out is dropout, which does nothing outside training.",
    )
    unfold = choose_one(
        "Unfold",
        list(_LEVELS),
        key="unfold",
        help="How far the tree is open at first; any of its lines opens and closes what is below.",
    )
    with st.container(key="tree"):
        st.html(module_tree_html(tree, unfolded=_LEVELS[unfold]))


def tree_of(selection: Selection, trace: Trace) -> ModuleNode:
    """Return the modules of a checkpoint's model, with what a trace's hook points recorded."""
    model = checkpoint_of(selection.run, selection.step).model
    weights = named_weights(model)
    # A module is named before those in it, also where only its weights have a name there.
    names = dict.fromkeys(name for name, _ in model.named_modules(remove_duplicate=False))
    for name, *_ in weights:
        parts = name.split(".")[:-1]
        names |= dict.fromkeys(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return build_module_tree(
        list(names), mark_tied_parameters(weights), trace.summary, selection.run.description
    )


def show_presets(selection: Selection, _: Trace) -> None:
    """Draw a table with a row for each choice and a column for each preset."""
    show_heading(
        "This run beside the presets",
        "≠ marks what differs from this run. A preset is what a training begins from "
        "(`python -m headwise.model.train --preset …`); each value can be changed. A setting "
        "unfolds into what it changes.",
    )
    own = selection.run.config
    if own is None:
        st.caption("Presets are those of Headwise's own trainings; this model is not one of them.")
        return
    models = [own, *(preset.model for preset in PRESETS.values())]
    rows = [
        (label, [_format(model, name) for model in models], note)
        for name, (label, note) in _ROWS.items()
    ]
    with st.container(key="presets"):
        st.html(comparison_table(["this run", *PRESETS], rows))


def _format(model: TransformerConfig, name: str) -> str:
    value = getattr(model, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def mark_tied_parameters(
    tensors: Iterable[tuple[str, tuple[int, ...], int]],
) -> tuple[Parameter, ...]:
    """Make parameters from names, shapes and identities; equal identities mark tied tensors."""
    first: dict[int, str] = {}
    parameters = []
    for name, shape, identity in tensors:
        shared = first.setdefault(identity, name)
        parameters.append(Parameter(name, shape, shared if shared != name else None))
    return tuple(parameters)


def build_module_tree(
    names: Sequence[str],
    parameters: Sequence[Parameter],
    summary: Sequence[HookSummary],
    model: Description,
) -> ModuleNode:
    """Build the tree of the modules that have a parameter or a hook point, in order of ``names``.

    Names are the paths of all modules, parents first, from the root ``""``. A residual connection
    has the children of its norm. ValueError if a parameter or a hook point belongs to no module.
    """
    own: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        own.setdefault(parameter.name.rpartition(".")[0], []).append(parameter)
    points = {seen.name: HookPointNode(seen, describe_point(seen.name, model)) for seen in summary}
    if strange := sorted({*own, *points} - set(names)):
        raise ValueError(f"expected parameters and hook points of the modules, got {strange[0]}")
    below: dict[str, list[str]] = {}
    for name in names:
        if name:
            below.setdefault(name.rpartition(".")[0], []).append(name)

    def build(path: str) -> ModuleNode:
        children: list[ModuleNode | HookPointNode] = []
        for name in below.get(path, ()):
            if name in points:
                children.append(points[name])
                continue
            part = build(name)
            if name.endswith("_residual.norm"):
                children += part.children
            elif part.children or part.parameters:
                children.append(part)
        text = describe_module(path, model)
        return ModuleNode(
            path=path,
            title=text.title,
            what=text.what,
            formula=text.formula,
            parameters=tuple(own.get(path, ())),
            children=tuple(children),
        )

    return build("")
