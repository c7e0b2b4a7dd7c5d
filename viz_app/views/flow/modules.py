"""The tree of the model's modules, with what each hook point saw of this sentence."""

from __future__ import annotations

import streamlit as st

from model.config import TransformerConfig
from viz_app.analysis.formulas import Variant
from viz_app.analysis.modules import counted_once, module_tree
from viz_app.figures.modules import module_tree as tree_html
from viz_app.module_records import Module
from viz_app.records import Trace
from viz_app.views._session import Selection, checkpoint_of
from viz_app.views._widgets import choose_one, panel

_LEVELS = {"stacks": 3, "layers": 4, "everything": 9}
"""How far the tree is unfolded: names and levels."""


@panel("modules")
def show_modules(selection: Selection, trace: Trace) -> None:
    """The tree, with a choice of how far it is unfolded."""
    st.markdown("##### The model, module by module")
    tree = tree_of(selection, trace)
    unfold = choose_one(
        "Unfold",
        list(_LEVELS),
        key="unfold",
        default="stacks",
        help="How far the tree is open at first; any of its lines opens and closes what is below.",
    )
    with st.container(key="tree"):
        st.html(tree_html(tree, theme=selection.theme, unfolded=_LEVELS[unfold]))
    st.caption(
        f"On the right, parameters: of a module and all below it, {tree.total:,} in all. The line "
        "of a hook point has what its tensor holds for this sentence: shape, mean, standard "
        "deviation, and the mean Euclidean norm of its last axis. Shapes are batch × position × "
        "width; those of a head's vectors are batch × head × position × d_k, of scores and weights "
        "batch × head × query × key. Weights are listed as stored, outputs × inputs: the paper's W "
        "transposed. Left out is dropout, which does nothing outside training."
    )


def tree_of(selection: Selection, trace: Trace) -> Module:
    """The modules of a checkpoint's model with what a trace's hook points saw.

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    model = checkpoint_of(selection.run, selection.step).model
    tensors = model.named_parameters(remove_duplicate=False)
    return module_tree(
        [name for name, _ in model.named_modules(remove_duplicate=False)],
        counted_once((name, tuple(tensor.shape), id(tensor)) for name, tensor in tensors),
        trace.summary,
        variant_of(selection.run.info.model),
    )


def variant_of(config: TransformerConfig) -> Variant:
    """What of a configuration decides the formulas."""
    return Variant(
        norm_first=config.norm == "pre",
        final_norm=config.final_norm,
        attention_bias=config.attention_bias,
        output_bias=config.output_bias,
        scaled=config.scale_embeddings,
        layers=config.n_layers,
        heads=config.n_heads,
    )
