"""The source word that all heads of cross-attention look at least, beside sentences as long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.viz_app.analysis.failures import shares_below
from headwise.viz_app.analysis.labels import bound_text, make_visible
from headwise.viz_app.measuring.sentence import least_attended_word
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.measures import measures_of

_MOST = 0.5
"""Weight of a row that is most of it: a word that some row gives so much is not overlooked."""


@dataclass(frozen=True)
class OverlookedWord:
    """A word is looked at less than any other of at least four letters."""

    places: Sequence[int]
    """Of its tokens in the source; none where it is looked at too much to be overlooked."""
    note: str
    """How much it is looked at, beside the example sentences."""


def overlooked_word(run: Run, trace: Trace) -> OverlookedWord | None:
    """Find the word; None where there is none, or nothing to compare it with.

    The example sentences are those of the measures, whose targets are the model's own translations:
    a target that is given is not compared with them.
    """
    measures = measures_of(run, [trace.step]).by_step.get(trace.step)
    if trace.forced or measures is None:
        return None

    def compute() -> OverlookedWord | None:
        found = least_attended_word(trace, run.tokenizers)
        others = [
            (each.source, translated.least_attended)
            for each, translated in zip(measures.sentences, measures.translated, strict=True)
            if each.source != trace.source_text
        ]
        if found is None or not others:
            return None
        places, weight = found
        word = make_visible("".join(trace.source.texts[place] for place in places).strip())
        if weight >= _MOST:
            return OverlookedWord(
                (),
                f"No word of at least four letters is overlooked: “{word}” is looked at least by "
                "all heads of cross-attention together, and even it has a row with "
                f"{weight:.2f} on it, which is most of the row.",
            )
        sources, figures = zip(*others, (trace.source_text, weight), strict=True)
        below, most = shares_below(figures, sources)[-1], bound_text(weight, above=True)
        note = (
            f"Of the words of at least four letters “{word}” is looked at least by all heads of "
            f"cross-attention together: no row of any has more than {most} on it. It may be "
            f"redundant or overlooked. Of the example sentences about as long {below:.0%} have a "
            "word that is looked at still less; by chance it is half of them. It has a dashed "
            "frame above."
        )
        return OverlookedWord(places, note)

    key = (trace.sha256, measures.examples_corpus.sha256, trace.source.ids, trace.target_ids)
    return cached("overlooked word", key, compute)
