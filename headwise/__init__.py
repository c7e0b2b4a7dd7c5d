"""Headwise: encoder-decoder transformers, and every attention head of them.

``import headwise`` gives what ``__all__`` names: texts in, and everything that the pages can do.

    run = headwise.open("en-es")
    trace = run[-1].trace("Where is my book?")

``docs/from-python.md`` shows each. Importing this costs nothing: what a name needs is imported when
it is first asked for.

In a clone, ``headwise.model`` and ``headwise.viz_app`` are the folders ``model/`` and ``viz_app/``
beside this one; links in this folder lead there, for installers, type checkers and editors. What is
installed has the folders inside this one.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.model.interface import Head as Head
    from headwise.viz_app.api.alignments import HeadAlignment as HeadAlignment
    from headwise.viz_app.api.alignments import align as align
    from headwise.viz_app.api.opened import OpenedCheckpoint as OpenedCheckpoint
    from headwise.viz_app.api.opened import OpenedTrace as OpenedTrace
    from headwise.viz_app.api.opened import read_trace as read_trace
    from headwise.viz_app.api.runs import OpenedRun as OpenedRun
    from headwise.viz_app.api.runs import open as open
    from headwise.viz_app.api.runs import wrap as wrap
    from headwise.viz_app.api.scores import evaluate as evaluate
    from headwise.viz_app.api.scores import prune_curve as prune_curve
    from headwise.viz_app.api.tables import measure as measure

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 (in the order in which a person needs them)
    "open",
    "wrap",
    "measure",
    "evaluate",
    "prune_curve",
    "align",
    "read_trace",
    "Head",
    "OpenedRun",
    "OpenedCheckpoint",
    "OpenedTrace",
    "HeadAlignment",
]

_PLACES = {
    "headwise.model.interface": ("Head",),
    "headwise.viz_app.api.alignments": ("align", "HeadAlignment"),
    "headwise.viz_app.api.opened": ("OpenedCheckpoint", "OpenedTrace", "read_trace"),
    "headwise.viz_app.api.runs": ("open", "wrap", "OpenedRun"),
    "headwise.viz_app.api.scores": ("evaluate", "prune_curve"),
    "headwise.viz_app.api.tables": ("measure",),
}

_MODEL = Path(__file__).resolve().with_name("model")
if _MODEL.is_symlink() or _MODEL.is_file():  # Git writes a link as a file where there are no links
    __path__.insert(0, str(_MODEL.parents[1]))


def __getattr__(name: str) -> object:
    """Import what a name stands for when it is first asked for."""
    for module, names in _PLACES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
