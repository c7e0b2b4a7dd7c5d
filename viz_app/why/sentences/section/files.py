"""Offers the patches of a pair of sentences as files."""

from __future__ import annotations

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import weights_of
from headwise.viz_app.views.shared.download import Files
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import view
from headwise.viz_app.why.sentences.section.pair import attribution_of, patching_of, question_of


def files_of_patching(selection: Selection, trace: Trace) -> Files | None:
    """Return the file of the patches that are shown; None if none are, or a word is no token."""
    try:
        pair, at, words = question_of(selection, trace)
    except ValueError:  # the page has said so
        return None
    run = selection.run
    exact = pair.refused(run.description, at) is None
    if exact and not view().why.patching:
        return None

    def arrays() -> bytes:
        weights = weights_of(run, selection.step)
        if exact:
            found = patching_of(weights, pair, at, words, lambda done, of: None)
        else:
            found = attribution_of(weights, pair, at, words)
        return found.file(".npz")

    return Files(
        f"The patches that are shown, {'' if exact else 'to first order, '}as arrays of log-odds",
        f"headwise-{trace.run}-{trace.step}-{'patches' if exact else 'attribution'}-{at + 1}",
        {"npz": arrays},
    )
