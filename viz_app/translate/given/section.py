"""Say how likely a given translation is beside the references of the example sentences."""

from __future__ import annotations

from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.measures import measures_of
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import total_log_probability
from headwise.viz_app.translate.given.found import reference_scores


def beside_references(selection: Selection, trace: Trace) -> str:
    """Say of how many references and unrelated sentences a token is less likely; "" without any."""
    run, step = selection.run, selection.step
    measures = measures_of(run, [step]).by_step.get(step)
    if measures is None:
        return ""
    found = ask_sentences(reference_scores, run, step, Sentences.examples(run, measures))
    if not len(found.unrelated):
        return ""
    own = total_log_probability(trace) / len(trace.predicted)
    references, unrelated = (
        f"{(each < own).mean():.0%}" for each in (found.references, found.unrelated)
    )
    said = (
        f"{references} of {len(found.references):,} references have less a token, {unrelated} of "
        "unrelated sentences."
    )
    if (tokens := len(trace.predicted)) > found.longest:
        said += f" None is as long: they have at most {found.longest} tokens, this one {tokens:,}."
    return said
