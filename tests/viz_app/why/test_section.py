"""Why this word: as pages draw it, and by command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.records.trace import Tokens, Trace, Word
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.__main__ import WhyArguments, main
from headwise.viz_app.why.word.section.neurons import activation_said
from headwise.viz_app.why.word.section.this_word import say_largest
from tests.floats import PASS, near
from tests.viz_app.why.test_bars import account

SOURCE = Tokens((5, 6), (" uno", " dos"), (Word("uno", 0, 1), Word("dos", 1, 2)))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([700.0, 500.0], "most of it by “uno” (+700)"),
        ([600.0, 600.0], "the largest part of it by “uno” (+600)"),
        ([1500.0, -300.0], "most by “uno” (+1,500), of which others take back 300"),
    ],
)
def test_most_of_a_head_is_more_than_half_and_at_most_all(cells: list[float], said: str) -> None:
    made, trace = account(), cast(Trace, SimpleNamespace(source=SOURCE, consumed=SOURCE))
    cross = made.parts.heads["cross"].copy()
    cross[1, 0] = cells
    parts = replace(made.parts, heads={**made.parts.heads, "cross": cross})
    told = say_largest(trace, replace(made, parts=parts), "**x**")
    assert told == f"Most for **x** of all parts: Cross 2.1, +1,200, {said}."


@pytest.mark.parametrize(("sign", "way"), [(1, "for"), (-1, "against")])
def test_no_head_is_named_where_none_speaks_that_way(sign: int, way: str) -> None:
    made, trace = account(), cast(Trace, SimpleNamespace(source=SOURCE, consumed=SOURCE))
    heads = {kind: -sign * np.abs(cells) for kind, cells in made.parts.heads.items()}
    parts = replace(made.parts, heads=heads, biases=np.array(sign * 1024.0))
    told = say_largest(trace, replace(made, parts=parts, difference=sign * 1.0), "**x**")
    assert told == (
        f"Most {way} **x** of all parts: Biases, {sign * 1024:+,}. No head speaks {way} it."
    )


@pytest.mark.parametrize(
    ("activation", "said"),
    [
        (0.0, "It is off here"),
        (0.5, "+0.5."),
        (-0.25, "does the opposite"),
        (-1.9e-8, "as good as off here: its activation is -2e-08."),  # GELU of -5.80
    ],
)
def test_a_neuron_that_is_off_is_said_to_be(activation: float, said: str) -> None:
    assert said in activation_said(activation)


TEXT = "Where is the old dog?"


def arguments(root: Path, out: Path, *rest: str) -> WhyArguments:
    line = ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), str(out), *rest]
    return tyro.cli(WhyArguments, args=line)


def test_arrays_sum_to_the_logarithm_of_the_ratio(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("out.npz", "out.json"):
        main(arguments(run_root, tmp_path / name, "--at", "2"))
    read = json.loads((tmp_path / "out.json").read_text())
    trace = run_trace(load_weights(run, 60).model, run.tokenizers, TEXT)
    best, second = trace.predictions.top_log_probability[1, :2].tolist()
    with np.load(tmp_path / "out.npz") as arrays:
        assert set(read) == set(arrays.files)
        np.testing.assert_allclose(read["parts"], arrays["parts"], atol=1e-5)
        bound = {"dtype": np.float32, "size": 40, "operations": PASS}
        assert arrays["difference"] == near(best - second, **bound)
        assert arrays["parts"].sum() == near(best - second, **bound)
        assert arrays["parts"].shape == arrays["part_names"].shape == arrays["whole"].shape
        cross = arrays["heads_cross"]
        assert cross.shape[-1] == len(trace.source)
        assert arrays["heads_decoder_self"].shape[-1] == 2
        np.testing.assert_allclose(arrays["cross_from_encoder"].sum(-1), cross, atol=1e-4)
        names = arrays["part_names"].tolist()
        feed_forward = arrays["parts"][names.index("feed_forward.1")]
        assert arrays["neurons"][0].sum() == near(feed_forward, **bound)
        assert np.isnan(arrays["whole"][names.index("token")])
        assert np.isfinite(arrays["whole"][names.index("cross.1.2")])
        assert "encoder_self.1.1" in arrays["encoder_part_names"]
        assert "the divisor of the last norm is held at its value" in str(arrays["held"])
        assert "No training met that zero." in read["taken_out"]
    assert capsys.readouterr().out.count("against") == 2


@pytest.mark.parametrize("instead", [".", "·."])
def test_a_token_that_goes_on_with_a_word_can_be_compared(
    run_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], instead: str
) -> None:
    main(arguments(run_root, tmp_path / "out.npz", "--at", "1", "--instead", instead))
    assert " against .: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("out.npz", ["--at", "99"], "at: expected 1 to"),
        ("out.npz", ["--at", "0"], "at: expected 1 to"),
        ("out.npz", ["--at", "1", "--instead", "no such token"], "instead: expected one token"),
        ("out.txt", ["--at", "1"], "ends in"),
        ("none/out.npz", ["--at", "1"], "no such"),
    ],
)
def test_what_cannot_be_asked_or_written_is_refused(
    run_root: Path, tmp_path: Path, name: str, options: list[str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        main(arguments(run_root, tmp_path / name, *options))
