"""The target that several checkpoints are given, so that their maps have the same rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import streamlit as st

from model.checkpoint import CheckpointError, Run
from model.config import BOS
from viz_app.views._session import Selection, continued
from viz_app.views._widgets import choose_one
from viz_app.views.address import check_asked

_NAMES = {"newest": "newest checkpoint's output", "reference": "reference", "own": "your own"}


@dataclass(frozen=True)
class SharedTarget:
    """A target and where it comes from."""

    whose: str
    """For people, in a sentence."""
    text: str
    ids: tuple[int, ...]
    """From ``<s>`` on, as the page's run reads it."""

    def ids_for(self, run: Run, own: Run) -> tuple[int, ...]:
        """As another run reads it; ``own`` is the page's."""
        if same_tokenizers(run, own):
            return self.ids
        return tuple(run.tokenizers.encode_target(self.text))


def same_tokenizers(a: Run, b: Run) -> bool:
    """Whether two runs read text as the same pieces, under the same numbers."""
    return a.info.tokenizer_sha256 == b.info.tokenizer_sha256


def choose_shared(selection: Selection) -> SharedTarget:
    """Ask for the target that all checkpoints are given.

    Raises:
        CheckpointError: if the weights of the newest checkpoint cannot be used.
        ValueError: on an empty or too long sentence.
    """
    reference = reference_of(selection)
    chosen = choose_one(
        "Shared target",
        [name for name in _NAMES if name != "reference" or reference],
        key="shared",
        default="newest",
        format_func=_NAMES.__getitem__,
        help="All checkpoints are given one target, so that their maps have the same rows and "
        "columns: what the run's newest checkpoint makes of the sentence, the reference of a "
        "sample sentence, or a translation that you type.",
    )
    encode = selection.run.tokenizers.encode_target
    if chosen == "reference":
        return SharedTarget("the reference", reference, tuple(encode(reference)))
    if chosen == "own":
        check_asked("target", "Your own translation")
        text = st.text_input(
            "Your own translation",
            key="target",
            placeholder="empty: the newest checkpoint's output",
            bind="query-params",
        ).strip()
        if text:
            return SharedTarget("your translation", text, tuple(encode(text)))
    newest = selection.run.steps()[-1]
    ids = continued(selection.run, newest, selection.text, (BOS,))
    text = selection.run.tokenizers.target.decode(ids)
    return SharedTarget(f"the translation at step {newest:,}", text, ids)


def reference_of(selection: Selection) -> str:
    """The reference of the sentence, if it is one of the run's samples and has one."""
    text, rows = selection.text.strip(), []
    with suppress(CheckpointError):  # the frame, which offers samples too, has said so
        rows = selection.run.samples()
    return next((str(row.get("reference") or "") for row in rows if row.get("source") == text), "")
