"""The account of a word, and the patches of a pair of sentences, as files."""

from __future__ import annotations

import numpy as np

from headwise.model.ties import first_largest
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import account_to_html
from headwise.viz_app.trace.saved import npz_of
from headwise.viz_app.views.caches import weights_of
from headwise.viz_app.views.shared.accounts import asked_account, compared_words
from headwise.viz_app.views.shared.download import Files
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.sentence_pairs import attribution_of, patching_of, question_of
from headwise.viz_app.views.shared.view import view
from headwise.viz_app.views.why.caches import whole_effects_of


def files_of_account(selection: Selection, trace: Trace) -> Files | None:
    """Return the files of the account that is shown; None if what is compared is no token."""
    try:
        account = asked_account(selection, trace)
    except ValueError:  # the page has said so
        return None
    run, shown = selection.run, view().why
    sums = account.parts.feed_forwards
    layer = int(first_largest(np.abs(sums)))
    if shown.feed_forward is not None and 1 <= shown.feed_forward <= len(sums):
        layer = shown.feed_forward - 1
    words, smallest = compared_words(run, account), shown.smallest

    def page() -> bytes:
        return account_to_html(
            trace,
            account,
            words=words,
            smallest=smallest,
            feed_forward=layer,
            theme=selection.theme,
        )

    def arrays() -> bytes:
        effects = whole_effects_of(run, trace, account, lambda done, of: None)
        return npz_of(account.arrays(effects))

    return Files(
        "This account: its pictures, and its arrays. For these every part is taken out of the pass "
        "once, which may take some seconds",
        f"headwise-{trace.run}-{trace.step}-why-{account.step + 1}",
        {"html": page, "npz": arrays},
    )


def files_of_patching(selection: Selection, trace: Trace) -> Files | None:
    """Return the file of the patches that are shown; None if none are, or a word is no token."""
    try:
        asked, at, words = question_of(selection, trace)
    except ValueError:  # the page has said so
        return None
    run, pair = selection.run, asked.pair
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
