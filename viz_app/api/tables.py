"""Measures of heads over pairs, as a table of pandas."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tqdm import tqdm

from headwise.model.checkpoint import Checkpoint
from headwise.model.interface import Head, Kind, head_name
from headwise.model.placement import Placement
from headwise.model.runs import Run, load_checkpoint
from headwise.model.training.corpora import COPY, CorpusStream
from headwise.model.training.data import Pair
from headwise.viz_app.api.opened import OpenedCheckpoint
from headwise.viz_app.api.runs import OpenedRun
from headwise.viz_app.core.batches import encode_all
from headwise.viz_app.measure import MeasureArguments, measure_run
from headwise.viz_app.measuring.checkpoints import MeasureTask, sum_checkpoints
from headwise.viz_app.measuring.corpus import Pairs, read_pairs
from headwise.viz_app.measuring.head_measures import (
    AT_ONCE,
    MEAN_ABLATION,
    MEASURES,
    require_own_names,
)
from headwise.viz_app.measuring.heads import RowMeasure
from headwise.viz_app.measuring.words import identity_links
from headwise.viz_app.records.measures import MOST_NOTE, MeasureRange, OwnMeasure
from headwise.viz_app.records.trace import Floats

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
    so few sentences that a resample has none. Where it is 0, as of a share that is 0 or 1 in each
    sentence, all resamples are the same and say nothing."""


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
    over tokens, and its standard ``error``. What a measure has no value for is left out. ValueError
    if a name is unknown or taken, a function returns something else, or a step is not there.
    DataError if no pair is left.

    Args:
        run: a run, or one of its checkpoints.
        pairs: (source, target) texts, a file, or a corpus by name; pairs with an empty side, a
            repeated source or too many tokens are left out.
        ours: names of Headwise's measures, as ``docs/measuring-heads.md`` explains them; None for
            all that one pass gives, none of them if ``measures`` are given; ``mean_ablation`` takes
            another pass. ``aer_predicted`` and ``aer_consumed`` are only of the copy task here;
            ``align`` gives them for references.
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
    """
    own = dict(measures or {})
    require_own_names(own)
    if odd := [name for name, function in own.items() if not callable(function)]:
        raise ValueError(f"measures: expected functions by name, got none for {', '.join(odd)}")
    ours = [ours] if isinstance(ours, str) else ours
    if odd := sorted({*(ours or ())} - {*MEASURES}):
        raise ValueError(f"ours: expected names among {', '.join(MEASURES)}; got {', '.join(odd)}")
    names = [*ours] if ours is not None else [] if own else [*AT_ONCE]
    opened = OpenedRun(run.opened) if isinstance(run, OpenedCheckpoint) else run
    given = run.step if isinstance(run, OpenedCheckpoint) else None
    wanted = [given] if given is not None else [*steps] if steps is not None else opened.steps
    if missing := sorted({*wanted} - {*opened.steps}):
        raise ValueError(
            f"steps: expected those of {opened.name}, {opened.steps}; there is none of {missing}"
        )
    if save:
        if not isinstance(pairs, str) and not hasattr(pairs, "__fspath__"):
            raise ValueError(
                "pairs: expected a file or a corpus by name with save=True, since the files of "
                f"measures say what was measured on; got {type(pairs).__name__}"
            )
        about = {name: _about(own[name], (ranges or {}).get(name, "amount")) for name in own}
        arguments = MeasureArguments(
            run=opened.name,
            data=str(pairs),
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
    encoded = encode_all(pairs, run.tokenizers, max_length=run.description.max_length)
    data = run.opened.data
    is_copy = data is not None and data.valid_file.partition(":")[0] == COPY

    def load(opened: Run, step: int, placement: Placement) -> Checkpoint:
        is_loaded = loaded is not None and loaded.step == step
        return loaded if loaded and is_loaded else load_checkpoint(opened, step, placement)

    task = MeasureTask(
        run.opened,
        steps,
        open_corpus=lambda: CorpusStream("pairs", "", iter(pairs)),
        sentences=len(encoded),
        links_of=identity_links(run.tokenizers) if is_copy else None,
        placement=run.placement,
        load=load,
        own=own,
    )
    passed = len(steps) * len(encoded) * (1 + (MEAN_ABLATION in names))
    with tqdm(total=passed, unit="sentence", leave=False) as bar:
        for found in sum_checkpoints(task, wanted=names):
            if isinstance(found, int):
                bar.update(found)
            else:
                yield found.step, found.values(), found.heads.errors()


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
