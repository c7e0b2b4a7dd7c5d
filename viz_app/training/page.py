"""The page Training: a section of it, below the trainings that are running."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.panels import watch
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import fill_in
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.training.compare import show_compare
from headwise.viz_app.training.curves import other_runs, show_curves
from headwise.viz_app.training.direct import show_direct
from headwise.viz_app.training.embeddings import show_embeddings
from headwise.viz_app.training.matrix import show_matrix
from headwise.viz_app.training.stages import show_stages
from headwise.viz_app.training.translations import show_translations
from headwise.viz_app.training.watch import show_watch


def _show_heads(selection: Selection) -> None:
    over = choose_one(
        "Measured on",
        ["corpus", "sentence"],
        key="matrix_over",
        format_func=lambda over: {"corpus": "on a corpus", "sentence": "on this sentence"}[over],
        show_label=False,
        help="On a corpus: what each head does on average. On this sentence: what each head "
        "brought to one of its words.",
    )
    (show_direct if over == "sentence" else show_matrix)(selection)


_SECTIONS: dict[str, Callable[[Selection], None]] = {
    "watch": show_watch,
    "curves": show_curves,
    "heads": _show_heads,
    "stages": show_stages,
    "translations": show_translations,
    "compare": show_compare,
    "embeddings": show_embeddings,
}
_TITLES = {name: name.capitalize() for name in _SECTIONS} | {"heads": "Heads by step"}
_LOGS = {"curves": ("metrics.jsonl",), "translations": ("samples.jsonl",)}
"""Section → the logs that it shows."""


def page(selection: Selection) -> None:
    above = st.container()
    several = len(selection.run.steps()) > 1
    section = choose_one(
        "Section",
        list(_SECTIONS),
        key="training",
        default="watch" if several else "curves",
        format_func=_TITLES.__getitem__,
        show_label=False,
    )
    if several:
        fill_in(training=section)  # addresses without it are of before, and open the curves
    with above:
        run = selection.run
        others = other_runs(selection) if section == "curves" else []
        watch(run.name, others, logs=_LOGS.get(section, ()))
    _SECTIONS[section](selection)
    show_download_menu(selection)
