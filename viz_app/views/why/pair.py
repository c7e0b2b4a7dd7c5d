"""Two sentences, the target that both are given, and the two words that compete at a step of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwise.viz_app.analysis.correspondence import corresponding, parting
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import trace_of
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import view
from headwise.viz_app.views.why.caches import TracedPair
from headwise.viz_app.views.why.prepared import prepared_pairs


@dataclass(frozen=True)
class Asked:
    """A pair of sentences is asked about one step of the target that both are given."""

    own_a: Trace
    """A with the target that the page shows: the model's, or one that is forced."""
    own_b: Trace
    """B with the model's translation."""
    pair: TracedPair
    """Both with the shared target."""

    @property
    def parts_at(self) -> int | None:
        """The step at which the two translations part; None if no token of them differs."""
        return parting(self.own_a.predicted.ids, self.own_b.predicted.ids)

    @property
    def first_step(self) -> int:
        """The step that is asked about at first: where they part, or the odds differ most."""
        place = self.parts_at
        if place is not None and place < len(self.pair.a.predicted):
            return place
        of_a, of_b = (each.predictions.log_probability for each in (self.pair.a, self.pair.b))
        return int(np.abs(of_a - of_b).argmax())

    def first_words(self, at: int) -> tuple[int, int]:
        """Return the words that compete at a step at first.

        Where the translations part, these are their next tokens; elsewhere the target's token and
        the one that is likeliest in B besides.
        """
        if at == self.parts_at:
            return self.own_a.predicted.ids[at], self.own_b.predicted.ids[at]
        word = self.pair.a.predicted.ids[at]
        likeliest = self.pair.b.predictions.top_ids[at].tolist()
        return word, next(id for id in likeliest if id != word)


def second_sentence(selection: Selection) -> str:
    """Return B: what was chosen, or that of the prepared pair whose first sentence is open."""
    chosen = view().why.other
    if chosen is not None:
        return chosen.strip()
    text = selection.text.strip()
    return next((pair.b for pair in prepared_pairs(selection.run) if pair.a == text), "")


def asked_of(selection: Selection, trace: Trace, other: str) -> Asked:
    """Trace B, and both sentences with the target that they share."""
    run, step = selection.run, selection.step
    own = trace_of(run, step, other)
    shared = (trace if view().why.shared_by == "A" else own).target_ids
    a = trace_of(run, step, selection.text, shared)
    b = trace_of(run, step, other, shared)
    return Asked(trace, own, TracedPair(a, b, corresponding(a.source, b.source)))
