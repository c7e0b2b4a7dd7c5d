"""Show the tree of the model's modules, with what each hook point recorded of this sentence."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.analysis.modules import build_module_tree, mark_tied_parameters
from headwise.viz_app.figures.modules import module_tree_html
from headwise.viz_app.records.model import ModuleNode
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.weights import named_weights
from headwise.viz_app.views.caches import checkpoint_of
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import choose_one

_LEVELS = {"stacks": 3, "layers": 4, "everything": 9}
"""How far the tree is unfolded: names and levels."""


@panel("modules")
def show_modules(selection: Selection, trace: Trace) -> None:
    """Draw the tree, and ask how far it is unfolded."""
    tree = tree_of(selection, trace)
    unfold = choose_one(
        "Unfold",
        list(_LEVELS),
        key="unfold",
        help="How far the tree is open at first; any of its lines opens and closes what is below.",
    )
    with st.container(key="tree"):
        st.html(module_tree_html(tree, theme=selection.theme, unfolded=_LEVELS[unfold]))
    st.caption(
        f"On the right, parameters: of a module and all below it, {tree.total:,} in all. The line "
        "of a hook point has what its tensor holds for this sentence: shape, mean, standard "
        "deviation, and the mean Euclidean norm of its last axis. Shapes are batch × position × "
        "width; those of a head's vectors are batch × head × position × d_k, of scores and weights "
        "batch × head × query × key. Weights are listed as stored, outputs × inputs: the paper's W "
        "transposed. Left out is dropout, which does nothing outside training."
    )


def tree_of(selection: Selection, trace: Trace) -> ModuleNode:
    """Return the modules of a checkpoint's model, with what a trace's hook points recorded.

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    model = checkpoint_of(selection.run, selection.step).model
    weights = named_weights(model)
    # A module is named before those in it, also where only its weights have a name there.
    names = dict.fromkeys(name for name, _ in model.named_modules(remove_duplicate=False))
    for name, *_ in weights:
        parts = name.split(".")[:-1]
        names |= dict.fromkeys(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return build_module_tree(
        list(names),
        mark_tied_parameters(weights),
        trace.summary,
        selection.run.description,
    )
