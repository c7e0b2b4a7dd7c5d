"""Heads in words, each value beside its error, what an even head has, and what it was at step 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from headwise.model.interface import Head, Kind
from headwise.model.training.data import Pair
from headwise.viz_app.analysis.head_ranking import head_values
from headwise.viz_app.analysis.labels import ONE_TRAINING_NOTE, count_of
from headwise.viz_app.core.batches import LeftOutCounts, encode
from headwise.viz_app.measuring.files import measures_path
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES
from headwise.viz_app.measuring.head_words import (
    count_words,
    describe_head,
    describe_value,
    in_a_line,
)
from headwise.viz_app.measuring.sums import even_head
from headwise.viz_app.measuring.wording import (
    NO_BASELINES,
    Baselines,
    Distance,
    exact_error,
    with_error,
)
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.cache import cached, stamp_if_there, stamp_of
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.head_choice import choices_for
from headwise.viz_app.session.measures import measure_description, measures_of
from headwise.viz_app.session.vocabulary import special_tokens_of


class HeadsInWords:
    """Says the values of a checkpoint's heads, each beside its error, what an even head has, and
    what it was at step 0; all that is read for that is read once.
    """

    def __init__(self, run: Run, measures: Measures) -> None:
        self._run, self._measures = run, measures

    @cached_property
    def _at_step_0(self) -> Measures | None:
        run = self._run
        return measures_of(run, [0]).by_step.get(0) if run.steps()[0] == 0 else None

    @cached_property
    def _even(self) -> Mapping[str, Mapping[Kind, float]]:
        return even_values(self._run, self._measures)

    def _name_in(self, text: str) -> str:
        return special_tokens_of(self._run).name_in(text)

    def judged_by(self, name: str, head: Head) -> Baselines:
        """Return what a value of a measure of a head is judged by."""
        if name not in MEASURES:
            return NO_BASELINES
        first = self._at_step_0
        return Baselines(
            error_of(self._measures, name, head),
            self._even.get(name, {}).get(head.kind, math.nan),
            math.nan if first is None else _value(first, name, head),
            math.nan if first is None else error_of(first, name, head),
            self._measures.alignment,
        )

    def _of(self, head: Head) -> tuple[dict[str, float], dict[str, Baselines]]:
        values = head_values(self._measures.values, head)
        return values, {name: self.judged_by(name, head) for name in MEASURES}

    def striking(self, head: Head) -> dict[str, str]:
        """Return the most striking measures of a head, and what is said of each."""
        values, beside = self._of(head)
        return describe_head(values, head.kind, beside=beside)

    def head(self, head: Head) -> tuple[str, str]:
        """Say what is most striking in a head: in a plain line, and with numbers."""
        texts = self.striking(head).values()
        return self._name_in(in_a_line(texts)), self._name_in("; ".join(texts))

    def value(self, name: str, head: Head, value: float) -> str:
        """Say a value of a measure of a head."""
        if name == "distance" and self._measures.distance_to == self._measures.step:
            return "the checkpoint from which the others' distances are measured"
        if name == "emergence" and not math.isnan(value):
            by_step = measures_of(self._run, self._run.steps()).by_step
            before = [step for step in by_step if step < value]
            after = f"after checkpoint {before[-1]:,}, " if before else ""
            return f"emerged {after}by checkpoint {value:,.0f}"
        if name not in DESCRIBED:  # somebody added it
            return f"{name}: {value:.3f}" if not math.isnan(value) else f"{name}: no value"
        judged_by = self.judged_by(name, head)
        return self._name_in(describe_value(name, head.kind, value, beside=judged_by))

    def with_error(self, name: str, head: Head, value: float) -> str:
        """Write a value of a measure of a head, with its standard error where it has one."""
        if name == "emergence":  # a checkpoint alone does not say since when
            return self.value(name, head, value).removeprefix("emerged ")
        form = measure_description(name, self._run, (self._measures,)).form
        if name == "cost" or name in self._measures.errors:
            error = error_of(self._measures, name, head)
            return with_error(value, error, form.replace(".2f", ".3f"))
        return f"{round(value, 3) + 0.0:{form}}"

    def by_chance(self, heads: Sequence[Head]) -> str:
        """Say how many values of some heads have a word, and how many would have one by chance."""
        folder, measures = self._run.folder, self._measures
        stamps = [stamp_if_there(measures_path(folder, step)) for step in (0, measures.step)]
        key = (str(folder), measures.step, measures.corpus.sha256, *stamps, *heads)
        found = cached("words by chance", key, lambda: count_words(map(self._of, heads)))
        return (
            f"Of {found.looked_at:,} values of {count_of(len(heads), 'head')} {found.said:,} have "
            f"a word. If each were just at its bound, some {found.by_chance:.0f} would have one by "
            f"chance. {found.all_at_once:,} have one even if all are looked at at once (each at 5% "
            f"over {found.looked_at:,}, Bonferroni)."
        )


def choices_over_training(run: Run, measures: Measures | None, head: Head) -> dict[str, Any]:
    """Return the choices of the page Training for what is most striking in a head over training."""
    choices = {"training": "heads", **choices_for(head)}
    striking = [] if measures is None else [*HeadsInWords(run, measures).striking(head)]
    return choices | {"measure": striking[0]} if striking else choices


def _value(measures: Measures, name: str, head: Head) -> float:
    return float(measures.values[name][head.kind][head.layer, head.head])


def error_of(measures: Measures, name: str, head: Head) -> float:
    """Return the standard error of a value, or what it is at most.

    Where a share is 0, or 1, in each sentence, it is ``exact_error``. Files from before
    errors were kept have none but of costs. A mean of shares from 0 to 1 over n sentences has a
    standard error of at most √(m (1 − m) / n), since the variance of what is between 0 and 1 is at
    most m (1 − m) (Bhatia and Davis 2000); sentences are taken to weigh alike.
    """
    known = {**measures.errors, "cost": measures.cost_errors}
    error = math.nan
    if name in known:
        error = float(known[name][head.kind][head.layer, head.head])
    value, sentences = _value(measures, name, head), max(measures.corpus.sentences, 1)
    measure = MEASURES.get(name)
    if measure is None or measure.range != "share" or not 0 <= value <= 1:
        return error
    if value in (0, 1) and not error > 0 and not isinstance(measure.words, Distance):
        return exact_error(sentences)
    return error if name in known else math.sqrt(value * (1 - value) / sentences)


def even_values(run: Run, measures: Measures) -> Mapping[str, Mapping[Kind, float]]:
    """Return what a head with even rows has of each measure: name → kind → value.

    Files from before these were kept have none: then it is computed over the example sentences.
    """
    if measures.even:
        return measures.even

    def compute() -> Mapping[str, Mapping[Kind, float]]:
        pairs = (Pair(each.source, each.reference) for each in measures.sentences)
        encoded = encode(
            pairs, run.tokenizers, max_length=run.description.max_length, left_out=LeftOutCounts()
        )
        return even_head(run.tokenizers, run.counts, encoded)

    key = (str(run.folder), measures.examples_corpus.sha256, stamp_of(run.folder / "counts.json"))
    return cached("even head", key, compute)


def errors_note(measures: Measures) -> str:
    """Say on which data errors and the even head were computed, with a space before."""
    over = " An even head looks with the same weight at every key that it may look at"
    if measures.even:
        over += ", over the same rows."
    else:
        count = f"{measures.examples_corpus.sentences:,}"
        over += f", here over the {count} example sentences."
    if "entropy" not in measures.errors:
        over += (
            " Only the errors of costs were kept when this was measured; those of shares and of "
            "alignment errors are taken as the largest that they can be where sentences weigh "
            "alike. Measure again to have them."
        )
    return f"{over} {ONE_TRAINING_NOTE}"
