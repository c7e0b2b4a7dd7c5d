"""The checkpoints of a run: the target that they share, and results drawn as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import streamlit as st

from headwise.viz_app.session.caches import Run, load_ahead, samples_of, translation_of
from headwise.viz_app.session.errors import USER_ERRORS, describe_error
from headwise.viz_app.session.log import log_refusal
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import control
from headwise.viz_app.session.widgets import choose_one

Result = TypeVar("Result")
_FIRST = 0.3
"""Seconds after which the first checkpoints are drawn, while others are computed."""
_NAMES = {"newest": "newest checkpoint's output", "reference": "reference", "own": "your own"}


def has_several(run: Run, to: str) -> bool:
    """Return whether a run has several checkpoints; say so if there is nothing ``to`` do."""
    if several := len(run.steps()) > 1:
        return several
    st.info(f"This run has one checkpoint only: there is nothing to {to}.")
    return False


def at_each(
    selection: Selection, compute: Callable[[int], Result], *, first: Sequence[int], key: str
) -> tuple[dict[int, Result], dict[int, str]]:
    """Compute something at each of the steps that are drawn, in slices, in a panel.

    Progress stands where this is called. Some steps come ``first``, then those that are spread over
    the whole training, then those between them.

    Returns:
        What is there by now, in the order of the steps, and the errors of others as Markdown.
    """
    steps = selection.steps()
    found: dict[int, Result] = {}
    problems: dict[int, str] = {}

    def compute_all(note_done: NoteDone) -> None:
        order = [*dict.fromkeys([*first, *coarse_first(steps)])]
        for done, step in enumerate(order, 1):
            try:
                found[step] = compute(step)
                load_ahead(selection.run, step, order[done:])
            except USER_ERRORS as problem:
                log_refusal(problem)
                problems[step] = describe_error(problem)
            note_done(done, len(steps))

    in_slices("Checkpoints", compute_all, key=f"{key}-progress", times=2, first=_FIRST)
    return dict(sorted(found.items())), problems


def coarse_first(steps: Sequence[int]) -> list[int]:
    """Order steps so that however few are taken, they are spread over all of them.

    They are every nth, for n that is halved down to 1.
    """
    strides = [2**n for n in reversed(range(len(steps).bit_length()))]
    return list(dict.fromkeys(step for stride in strides for step in steps[::stride]))


def say_left_out(problems: Mapping[int, str]) -> None:
    """Say at which steps nothing could be computed, and why."""
    for step, problem in problems.items():
        st.warning(f"Step {step:,} is left out: {problem}")


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
    of_sentence = (row for row in samples_of(run) if row["source"] == sentence)
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
