"""Costs of heads compared on the same sentences: their ranks, how many differ, and since when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.model.files import CheckpointError
from headwise.model.interface import Head
from headwise.viz_app.analysis.head_ranking import independent_errors
from headwise.viz_app.analysis.paired import all_costs, change, difference_errors, stand_apart
from headwise.viz_app.measuring.sentence_costs import costs_path, read_costs
from headwise.viz_app.records.measures import Measures, SentenceCosts
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.cache import cached, stamp_if_there
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.measures import measures_of


def sentence_costs_of(run: Run, measures: Measures) -> SentenceCosts | None:
    """Return the costs by sentence that were measured with these measures, if there are any.

    Raises:
        CheckpointError: if their file is damaged.
    """
    path = costs_path(run.folder, measures.step)
    found = cached(
        "costs by sentence read",
        (str(path), stamp_if_there(path)),
        lambda: read_costs(run.folder, measures.step),
        entries=16,
        facts=lambda _: {"run": run.name, "step": measures.step},
    )
    if found is None or (found.sha256, found.corpus) != (measures.sha256, measures.corpus):
        return None
    shapes = {kind: array.shape[1:] for kind, array in found.costs.items()}
    return found if shapes == run.description.shapes else None


def errors_of_differences(
    run: Run, measures: Measures, heads: Sequence[Head]
) -> tuple[NDArray[np.float64], str]:
    """Return the standard errors of differences of costs, (n, n), and of what they are, in words.

    Without costs by sentence they are as if each head were measured on other sentences.
    """
    try:
        costs, problem = sentence_costs_of(run, measures), ""
    except CheckpointError as error:
        costs, problem = None, f" {describe_error(error)}"
    if costs is None:
        own = [float(measures.cost_errors[head.kind][head.layer, head.head]) for head in heads]
        return independent_errors(own), (
            "taken as if each head were measured on other sentences, which is more than it is on "
            f"the same: costs by sentence were not kept when this was measured.{problem}"
        )
    places = [list(run.description.all_heads()).index(head) for head in heads]
    return difference_errors(all_costs(costs)[:, places], costs.tokens), (
        f"on the same {len(costs.tokens):,} sentences"
    )


def apart_note(values: Sequence[float], errors: NDArray[np.float64], of: str) -> str:
    """Say how many pairs of heads differ in cost, and how many would by chance."""
    apart = stand_apart(np.array(values, np.float32), errors)
    if not apart.pairs:
        return ""
    return (
        f" Of {apart.pairs:,} pairs of these heads {apart.differ:,} differ by more than twice the "
        f"error of their difference, {of}; if no two heads differed, some {apart.by_chance:.0f} "
        f"would by chance. {apart.all_at_once:,} differ even if all are compared at once (each at "
        f"5% over {apart.pairs:,}, Bonferroni)."
    )


def change_note(run: Run, measures: Measures, head: Head) -> str:
    """Say by how much a head's cost has changed since the measured checkpoint before.

    Empty where there is none on the same sentences.
    """
    before = [step for step in run.steps() if step < measures.step][-1:]
    earlier = measures_of(run, before).by_step.get(before[0]) if before else None
    if earlier is None:
        return ""
    try:
        now, then = (sentence_costs_of(run, each) for each in (measures, earlier))
    except CheckpointError:  # the list of heads says so
        return ""
    if now is None or then is None or (found := change(now, then, head)) is None:
        return ""
    difference, error = found
    sure = abs(difference) > 2 * error
    return (
        f"since step {earlier.step:,} its cost has changed by {difference:+.3f} ± {error:.3f} nats "
        f"per token, on the same sentences{'' if sure else ': no more than chance'}"
    )
