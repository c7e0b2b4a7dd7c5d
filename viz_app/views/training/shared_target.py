"""Choose the target that several checkpoints are given, so that their maps have the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.viz_app.views.caches import Run, log_of, translation_of
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import control
from headwise.viz_app.views.shared.widgets import choose_one

_NAMES = {"newest": "newest checkpoint's output", "reference": "reference", "own": "your own"}


@dataclass(frozen=True)
class SharedTarget:
    """A shared target is given to all checkpoints and says where it comes from."""

    description: str
    """What the target is called in a sentence."""
    text: str
    ids: tuple[int, ...]
    """From ``<s>`` on, as the page's run reads it."""

    def ids_for(self, run: Run, own: Run) -> tuple[int, ...]:
        """Return the ids as another run reads the text; ``own`` is the page's run."""
        if same_tokenizers(run, own):
            return self.ids
        return tuple(run.tokenizers.encode_target(self.text))


def same_tokenizers(a: Run, b: Run) -> bool:
    """Return whether two runs read text as the same tokens with the same ids."""
    return a.tokenizers_sha256 == b.tokenizers_sha256


def choose_shared_target(selection: Selection) -> SharedTarget:
    """Ask for the target that all checkpoints are given."""
    reference = reference_of(selection)
    chosen = choose_one(
        "Shared target",
        [name for name in _NAMES if name != "reference" or reference],
        key="shared",
        format_func=_NAMES.__getitem__,
        help="All checkpoints are given one target, so that their maps have the same rows and "
        "columns: what the run's newest checkpoint makes of the sentence, the reference of a "
        "sample sentence, or a translation that you type.",
    )
    encode = selection.run.tokenizers.encode_target
    if chosen == "reference":
        return SharedTarget("the reference", reference, tuple(encode(reference)))
    if chosen == "own":
        text = st.text_input(
            "Your own translation",
            placeholder="empty: the newest checkpoint's output",
            **control("target", "Your own translation"),
        ).strip()
        if text:
            return SharedTarget("your translation", text, tuple(encode(text)))
    newest = selection.run.steps()[-1]
    ids = translation_of(selection.run, newest, selection.text)
    text = selection.run.tokenizers.target.decode(ids)
    return SharedTarget(f"the translation at step {newest:,}", text, ids)


def reference_of(selection: Selection) -> str:
    """Return the reference of the sentence if it is one of the run's samples, or an empty text."""
    text = selection.text.strip()
    rows: Sequence[Mapping[str, Any]] = ()
    with suppress(CheckpointError):  # the frame, which offers samples too, has said so
        rows = log_of(selection.run.folder, "samples.jsonl")
    return next((str(row.get("reference") or "") for row in rows if row.get("source") == text), "")
