"""Heads in words, each value beside its error, what an even head has, and what it was at step 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from headwise.model.interface import Head, Kind
from headwise.model.training.data import Pair
from headwise.viz_app.analysis.head_ranking import head_values
from headwise.viz_app.analysis.labels import ONE_TRAINING_NOTE, count_of
from headwise.viz_app.measuring.batches import LeftOutCounts, encode
from headwise.viz_app.measuring.files import measures_path
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES
from headwise.viz_app.measuring.head_words import (
    WordCounts,
    count_words,
    describe_head,
    describe_value,
    in_a_line,
)
from headwise.viz_app.measuring.sums import even_head
from headwise.viz_app.measuring.wording import (
    NO_BASELINES,
    WORDS_NOTE,
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
from headwise.viz_app.session.vocabulary import SpecialTokens, special_tokens_of

Say = Callable[[str, Head, float], str]
"""Says a value in words, by its measure and head."""


def head_in_words(run: Run, measures: Measures, head: Head) -> tuple[str, str]:
    """Say what is most striking in the measures of a head: in a plain line, and with numbers."""
    return heads_in_words(run, measures)(head)


def heads_in_words(run: Run, measures: Measures) -> Callable[[Head], tuple[str, str]]:
    """Return ``head_in_words`` of any head; what they are judged by is read once."""
    beside = _beside(run, measures, _at_step_0(run))
    name_in = special_tokens_of(run).name_in

    def say(head: Head) -> tuple[str, str]:
        values = head_values(measures.values, head)
        texts = describe_head(values, head.kind, beside=beside(head)).values()
        return name_in(in_a_line(texts)), name_in("; ".join(texts))

    return say


def striking_in(run: Run, measures: Measures, head: Head) -> dict[str, str]:
    """Return the most striking measures of a head, and what is said of each."""
    values = head_values(measures.values, head)
    return describe_head(values, head.kind, beside=_beside(run, measures, _at_step_0(run))(head))


def choices_over_training(run: Run, measures: Measures | None, head: Head) -> dict[str, Any]:
    """Return the choices of the page Training for what is most striking in a head over training."""
    choices = {"training": "heads", **choices_for(head)}
    striking = [] if measures is None else [*striking_in(run, measures, head)]
    return choices | {"measure": striking[0]} if striking else choices


class _Judge(Protocol):
    """Returns what values of a head are judged by, of all measures or of some."""

    def __call__(self, head: Head, names: Iterable[str] = ...) -> dict[str, Baselines]: ...


def value_in_words(run: Run, measures: Measures, name: str, head: Head, value: float) -> str:
    return words_of(run, measures)(name, head, value)


def words_of(run: Run, measures: Measures) -> Say:
    """Return what says values, by measure and head, of one checkpoint."""
    return words_at_each(run, {0: measures})[0]


def words_at_each(run: Run, by_step: Mapping[int, Measures]) -> dict[int, Say]:
    """Return what says values, by measure and head, at each step; what all need is read once."""
    first, special = cache(lambda: _at_step_0(run)), cache(lambda: special_tokens_of(run))
    return {step: _words_of(run, each, first, special) for step, each in by_step.items()}


def _words_of(
    run: Run,
    measures: Measures,
    first: Callable[[], Measures | None],
    special: Callable[[], SpecialTokens],
) -> Say:
    beside = cache(lambda: _beside(run, measures, first()))

    def say(name: str, head: Head, value: float) -> str:
        if name == "distance" and measures.distance_to == measures.step:
            return "the checkpoint from which the others' distances are measured"
        if name == "emergence" and not math.isnan(value):
            before = [step for step in measures_of(run, run.steps()).by_step if step < value]
            after = f"after checkpoint {before[-1]:,}, " if before else ""
            return f"emerged {after}by checkpoint {value:,.0f}"
        if name not in DESCRIBED:  # somebody added it
            return f"{name}: {value:.3f}" if not math.isnan(value) else f"{name}: no value"
        [judged_by] = beside()(head, [name]).values() if name in MEASURES else [NO_BASELINES]
        text = describe_value(name, head.kind, value, beside=judged_by)
        return special().name_in(text)

    return say


def value_with_error(run: Run, measures: Measures, name: str, head: Head, value: float) -> str:
    """Write a value of a measure of a head, with its standard error where it has one."""
    if name == "emergence":  # a checkpoint alone does not say since when
        return value_in_words(run, measures, name, head, value).removeprefix("emerged ")
    form = measure_description(name, run, (measures,)).form
    if name == "cost" or name in measures.errors:
        return with_error(value, error_of(measures, name, head), form.replace(".2f", ".3f"))
    return f"{round(value, 3) + 0.0:{form}}"


def _beside(run: Run, measures: Measures, first: Measures | None) -> _Judge:
    """Find what values are judged by: their errors, an even head's values, ``first`` at step 0."""
    even = even_values(run, measures)

    def of(head: Head, names: Iterable[str] = MEASURES) -> dict[str, Baselines]:
        return {
            name: Baselines(
                error_of(measures, name, head),
                even.get(name, {}).get(head.kind, math.nan),
                math.nan if first is None else _value(first, name, head),
                math.nan if first is None else error_of(first, name, head),
                measures.alignment,
            )
            for name in names
        }

    return of


def _at_step_0(run: Run) -> Measures | None:
    return measures_of(run, [0]).by_step.get(0) if run.steps()[0] == 0 else None


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


def words_note(run: Run, measures: Measures, heads: Sequence[Head]) -> str:
    """Say which values have a word, and how many of some heads' would have one by chance."""
    return f"{WORDS_NOTE} {words_by_chance(run, measures, heads)}"


def words_by_chance(run: Run, measures: Measures, heads: Sequence[Head]) -> str:
    """Say how many values of some heads have a word, and how many would have one by chance."""

    def count() -> WordCounts:
        beside = _beside(run, measures, _at_step_0(run))
        return count_words((head_values(measures.values, head), beside(head)) for head in heads)

    stamps = [stamp_if_there(measures_path(run.folder, step)) for step in (0, measures.step)]
    key = (str(run.folder), measures.step, measures.corpus.sha256, *stamps, *heads)
    found = cached("words by chance", key, count)
    return (
        f"Of {found.looked_at:,} values of {count_of(len(heads), 'head')} {found.said:,} have a "
        f"word. If each were just at its bound, some {found.by_chance:.0f} would have one by "
        f"chance. {found.all_at_once:,} have one even if all are looked at at once (each at 5% "
        f"over {found.looked_at:,}, Bonferroni)."
    )


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
