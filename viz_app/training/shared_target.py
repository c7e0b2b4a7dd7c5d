"""Choose the target that several checkpoints are given, so that their maps have the same rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.viz_app.session.caches import Run, log_of, translation_of
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import control
from headwise.viz_app.session.widgets import choose_one

_NAMES = {"newest": "newest checkpoint's output", "reference": "reference", "own": "your own"}


@dataclass(frozen=True)
class SharedTarget:
    """A shared target is given to all checkpoints and says where it comes from."""

    description: str
    """What the target is called in a sentence."""
    text: str
    ids: tuple[int, ...]
    """From ``<s>`` on, as the page's run reads it."""


def same_tokenizers(a: Run, b: Run) -> bool:
    """Return whether two runs read text as the same tokens with the same ids."""
    return a.tokenizers_sha256 == b.tokenizers_sha256


def choose_shared_target(selection: Selection) -> SharedTarget:
    """Ask for the target that all checkpoints are given."""
    run, sentence = selection.run, selection.text.strip()
    reference = ""
    with suppress(CheckpointError):  # the frame, which offers samples too, has said so
        of_sentence = (
            row for row in log_of(run.folder, "samples.jsonl") if row.get("source") == sentence
        )
        reference = next((str(row["reference"]) for row in of_sentence if row.get("reference")), "")
    own = ""
    with st.popover("Target", key="shared-menu"):
        chosen = choose_one(
            "Shared target",
            [name for name in _NAMES if name != "reference" or reference],
            key="shared",
            format_func=_NAMES.__getitem__,
            in_menu=True,
            help="All checkpoints are given one target, so that their maps have the same rows and "
            "columns: what the run's newest checkpoint makes of the sentence, the reference of a "
            "sample sentence, or a translation that you type.",
        )
        if chosen == "own":
            own = st.text_input(
                "Your own translation",
                placeholder="empty: the newest checkpoint's output",
                **control("target", "Your own translation", in_menu=True),
            ).strip()
    encode = run.tokenizers.encode_target
    if chosen == "reference":
        return SharedTarget("the reference", reference, tuple(encode(reference)))
    if own:
        return SharedTarget("your translation", own, tuple(encode(own)))
    newest = run.steps()[-1]
    ids = translation_of(run, newest, selection.text)
    text = run.tokenizers.target.decode(ids)
    return SharedTarget(f"the translation at step {newest:,}", text, ids)
