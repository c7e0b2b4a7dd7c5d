"""Runs with many of one thing, as they are written for the app to open."""

from __future__ import annotations

from pathlib import Path

from benchmarks.parts.plenty import RUN, Plenty, write_runs
from benchmarks.sizes import tokenizers_of
from headwise.model.checkpoint import list_runs, open_trained_run


def test_runs_have_as_many_as_asked_for(tmp_path: Path) -> None:
    plenty = Plenty(runs=3, checkpoints=5, metrics=7, vocabulary=53)
    write_runs(tmp_path, plenty, tokenizers_of(plenty.vocabulary))
    assert len(list_runs(tmp_path)) == 3
    run = open_trained_run(RUN, root=tmp_path)
    assert run.steps() == [0, 1, 2, 3, 4]
    assert len(run.metrics()) == 7
    assert run.tokenizers.source.vocab_size == 53
