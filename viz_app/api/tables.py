"""Measures of heads over pairs, as a table of pandas."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tqdm import tqdm

from headwise.model.interface import Head, Kind, head_name
from headwise.model.training.data import Pair
from headwise.viz_app.api.opened import OpenedCheckpoint
from headwise.viz_app.api.pairs import Pairs, read_pairs
from headwise.viz_app.api.runs import OpenedRun
from headwise.viz_app.measure import MeasureArguments, measure_run
from headwise.viz_app.measuring.heads import RowMeasure, weight_measures
from headwise.viz_app.measuring.plain import encode_all, measure_pairs
from headwise.viz_app.measuring.words import identity_links
from headwise.viz_app.records.measures import (
    MEASURES,
    MOST_NOTE,
    MeasureRange,
    OwnMeasure,
    require_own_names,
)
from headwise.viz_app.records.trace import Floats

_OF_WEIGHTS = ("qk_norm", "qk_rank", "ov_rank")
_TO_OTHERS = ("distance", "from_first", "velocity")
_OF_ALIGNMENTS = ("aer_predicted", "aer_consumed")
Values = Mapping[str, Mapping[Kind, Floats]]


@dataclass(frozen=True)
class Row:
    """A row of the table: a measure of a head at a step."""

    run: str
    step: int
    measure: str
    head: str
    kind: Kind
    layer: int
    """From 1, as in the name."""
    number: int
    """From 1."""
    value: float
    error: float
    """Standard error by 200 resamples of the sentences; NaN for measures of weights alone, and of
    so few sentences that a resample has none."""


def measure(
    run: OpenedRun | OpenedCheckpoint,
    pairs: Pairs,
    *,
    ours: str | Iterable[str] | None = None,
    measures: Mapping[str, RowMeasure] | None = None,
    steps: Iterable[int] | None = None,
    save: bool = False,
    ranges: Mapping[str, MeasureRange] | None = None,
    columns: tuple[str, str] | None = None,
    sentences: int = 512,
) -> pd.DataFrame:
    """Measure every head over pairs whose targets are forced on the model.

    The table has a row for each step, measure and head, with ``value``, a mean over rows of maps or
    over tokens, and its standard ``error``. What a measure has no value for is left out.

    Args:
        run: a run, or one of its checkpoints.
        pairs: (source, target) texts, a file, or a corpus by name; pairs with an empty side, a
            repeated source or too many tokens are left out.
        ours: names of Headwise's measures, as ``docs/measuring-heads.md`` explains them; None for
            all that can be had, none of them if ``measures`` are given. ``aer_predicted`` and
            ``aer_consumed`` are only of the copy task here; ``align`` gives them for references.
        measures: one's own, by name: functions from ``weights`` (B, H, Q, M), heads of all layers
            one after another, and ``allowed``, bool (B, Q, M), to a value for each row (B, H, Q).
        steps: which checkpoints; None for all.
        save: write it into the run's folder, where the pages find it, as the command
            ``headwise.viz_app.measure`` does: with all of ours, which takes longer. The first
            sentence of a function's docstring says there what it is. ``pairs`` is then a file or a
            corpus by name.
        ranges: for pages, whether a measure of one's own is a ``share`` from 0 to 1, ``signed``, or
            an ``amount`` from 0 upwards, which is the default.
        columns: names of the two columns of a file, where they are not the languages.
        sentences: how many pairs at most.

    Raises:
        ValueError: if a name is unknown or taken, a function returns something else, or a step is
            not there.
        DataError: if no pair is left.
    """
    own = dict(measures or {})
    require_own_names(own)
    if odd := [name for name, function in own.items() if not callable(function)]:
        raise ValueError(f"measures: expected functions by name, got none for {', '.join(odd)}")
    ours = [ours] if isinstance(ours, str) else ours
    if odd := sorted({*(ours or ())} - {*MEASURES}):
        raise ValueError(f"ours: expected names among {', '.join(MEASURES)}; got {', '.join(odd)}")
    names = [*ours] if ours is not None else [] if own else [*MEASURES]
    opened = OpenedRun(run.opened) if isinstance(run, OpenedCheckpoint) else run
    given = run.step if isinstance(run, OpenedCheckpoint) else None
    wanted = [given] if given is not None else [*steps] if steps is not None else opened.steps
    if missing := sorted({*wanted} - {*opened.steps}):
        raise ValueError(
            f"steps: expected those of {opened.name}, {opened.steps}; there is none of {missing}"
        )
    if save:
        about = {name: _about(own[name], (ranges or {}).get(name, "amount")) for name in own}
        arguments = MeasureArguments(
            run=opened.name,
            data=_named(pairs),
            steps=tuple(wanted),
            sentences=sentences,
            columns=columns,
            placement=opened.placement,
        )
        found = [
            (each.step, each.values, each.errors)
            for each in measure_run(opened.opened, arguments, own=own, about_own=about)
        ]
    else:
        read = read_pairs(pairs, opened.opened, columns=columns, most=sentences)
        loaded = run if isinstance(run, OpenedCheckpoint) else None
        found = [*_measure(opened, loaded, wanted, read, names, own)]
    rows = (
        row
        for step, values, errors in found
        for name in (*names, *own)
        for row in _rows(opened.name, step, name, values[name], errors.get(name))
    )
    return pd.DataFrame(rows, columns=list(Row.__dataclass_fields__))


def _named(pairs: Pairs) -> str:
    if not isinstance(pairs, str) and not hasattr(pairs, "__fspath__"):
        raise ValueError(
            "pairs: expected a file or a corpus by name with save=True, since the files of measures"
            f" say what was measured on; got {type(pairs).__name__}"
        )
    return str(pairs)


def _about(function: RowMeasure, range: MeasureRange) -> OwnMeasure:
    """Take what a measure is from the first sentence of its docstring."""
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    first = re.split(r"(?<=\.)\s", text, maxsplit=1)[0]
    return OwnMeasure(first[:MOST_NOTE] or "A measure without a description.", range)


def _measure(
    run: OpenedRun,
    loaded: OpenedCheckpoint | None,
    steps: list[int],
    pairs: Sequence[Pair],
    names: list[str],
    own: Mapping[str, RowMeasure],
) -> Iterator[tuple[int, Values, Values]]:
    """Yield step, values and errors of checkpoints; one that is loaded is not loaded again."""
    tokenizers, there = run.tokenizers, run.steps
    encoded = encode_all(pairs, tokenizers, max_length=run.description.max_length)
    data = run.opened.data
    is_copy = data is not None and data.valid_file.partition(":")[0] == "copy"
    links_of = identity_links(tokenizers) if is_copy else None
    of_maps = [name for name in names if name not in _OF_WEIGHTS]
    with tqdm(total=len(steps) * len(encoded), unit="sentence", leave=False) as bar:
        for step in steps:
            checkpoint = loaded or run.at(step)
            before = there[: there.index(step)][-1:]
            others = {"distance": there[-1], "from_first": there[0]}
            others |= {"velocity": before[0]} if before else {}
            values: dict[str, Mapping[Kind, Floats]] = {}
            errors: Values = {}
            if of_maps or own:
                sums = measure_pairs(
                    checkpoint.model,
                    tokenizers,
                    encoded,
                    names=of_maps,
                    own=own,
                    counts=run.opened.counts,
                    others={
                        name: checkpoint.model if at == step else run.at(at).model
                        for name, at in others.items()
                        if name in names
                    },
                    links_of=links_of if {*names} & {*_OF_ALIGNMENTS} else None,
                    advance=bar.update,
                )
                values, errors = dict(sums.values()), sums.errors()
            if {*names} & {*_OF_WEIGHTS}:
                values |= weight_measures(checkpoint.model)
            yield step, values, {name: errors[name] for name in errors if name not in _OF_WEIGHTS}


def _rows(
    run: str,
    step: int,
    measure: str,
    values: Mapping[Kind, Floats],
    errors: Mapping[Kind, Floats] | None,
) -> Iterator[Row]:
    for kind, of_kind in values.items():
        for (layer, head), value in np.ndenumerate(of_kind):
            if np.isnan(value):
                continue
            error = float("nan") if errors is None else float(errors[kind][layer, head])
            name = head_name(Head(kind, layer, head))
            yield Row(run, step, measure, name, kind, layer + 1, head + 1, float(value), error)
