"""The account of a word as it is read: bars, names and sentences by hand, and the command."""

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
from headwise.viz_app.why.word.account import Account, Parts
from headwise.viz_app.why.word.bars import (
    bars_by_size,
    by_layer,
    disagrees,
    largest_bars,
    lines_by_part,
    neuron_bars,
)
from headwise.viz_app.why.word.section.neurons import activation_said
from headwise.viz_app.why.word.section.this_word import say_largest
from tests.floats import PASS, assert_near, near

# Two layers of two heads a kind, two keys each; powers of 2, whose sums are exact.
OWN = np.array([[[1, 2], [4, 8]], [[16, 32], [64, 128]]], dtype=np.float64)
CROSS = -OWN
NEURONS = np.array([[0.5, 0.25, 0.125], [-0.5, 0, 2]])
BY_LAYER = {
    "Token": 256.0,
    "Position": -512.0,
    "Decoder self 1": 15.0,
    "Cross 1": -15.0,
    "Feed-forward 1": 0.875,
    "Decoder self 2": 240.0,
    "Cross 2": -240.0,
    "Feed-forward 2": 1.5,
    "Biases": 1024.0,
}
"""What each sublayer brought."""


def account(*, scale: float = 1.0, position: bool = True) -> Account:
    """An account of the parts above; of the encoder, that of part n at each cell is n."""
    parts = Parts(
        token=np.array(256.0 * scale),
        position=np.array(-512.0) if position else None,
        heads={"decoder_self": OWN * scale, "cross": CROSS * scale},
        neurons=NEURONS * scale,
        biases=np.array(1024.0 * scale),
    )
    cells = np.ones((2, 2, 2))
    from_encoder = Parts(
        token=cells,
        position=2 * cells if position else None,
        heads={"encoder_self": np.multiply.outer(cells, [[3.0, 4.0], [6.0, 7.0]])},
        neurons=np.multiply.outer(cells, [5.0, 8.0]),
        biases=9 * cells,
    )
    return Account(0, 5, 6, parts.total, parts, from_encoder, "")


def test_each_sublayer_has_a_bar_in_the_order_of_the_computation() -> None:
    assert list(by_layer(account()).items()) == list(BY_LAYER.items())


def test_the_parts_of_a_stream_have_the_names_of_links_and_files() -> None:
    assert list(account().named()) == [
        *(("token", 256), ("position", -512)),
        *(("decoder_self.1.1", 3), ("decoder_self.1.2", 12), ("cross.1.1", -3)),
        *(("cross.1.2", -12), ("feed_forward.1", 0.875), ("decoder_self.2.1", 48)),
        *(("decoder_self.2.2", 192), ("cross.2.1", -48), ("cross.2.2", -192)),
        *(("feed_forward.2", 1.5), ("biases", 1024)),
    ]
    assert "position" not in dict(account(position=False).named())
    assert account().limit == 1024


def test_small_parts_are_one_bar_which_is_last() -> None:
    parts = {"token": -0.25, "cross.1.1": 2.0, "biases": 0.5, "position": -4.0}
    bars = bars_by_size(parts, 0.5)  # the least size of a bar of its own
    assert [(bar.name, bar.value) for bar in bars] == [
        *(("position", -4), ("cross.1.1", 2), ("biases", 0.5), ("rest", -0.25))
    ]
    assert [bar.label for bar in bars[2:]] == ["Biases", "1 smaller part"]
    assert bars_by_size(parts, 3)[1:] == [("rest", "3 smaller parts", 2.0 + 0.5 - 0.25)]
    assert len(bars_by_size(parts, 0)) == 4
    # Of a number of bars, those of the same size as the last one are not left out.
    assert [bar.name for bar in largest_bars({**parts, "x": -0.5}, 3)] == [
        *("position", "cross.1.1", "biases", "x", "rest")
    ]
    assert len(largest_bars(parts, 100)) == 4
    # Of the encoder each says so: else its feed-forwards would read as those of the decoder.
    of_encoder = {"feed_forward.1": 3.0, "encoder_self.1.2": 2.0, "token": 1.0}
    labels = [bar.label for bar in bars_by_size(of_encoder, 0, encoder=True)]
    assert labels == ["Encoder feed-forward 1", "Encoder self 1.2", "Encoder token"]


def test_neurons_that_brought_nothing_are_among_the_others() -> None:
    largest = [("3", "neuron 3", 2.0), ("1", "neuron 1", -0.5)]
    assert neuron_bars(NEURONS[1]) == [*largest, ("rest", "1 other", 0.0)]
    chosen = [*largest, ("2", "neuron 2", 0.0), ("rest", "0 others", 0.0)]
    assert neuron_bars(NEURONS[1], chosen=1) == chosen
    assert neuron_bars(NEURONS[1], chosen=2) == neuron_bars(NEURONS[1])


def test_heads_of_the_encoder_have_what_they_brought_through_all_cells() -> None:
    assert account().from_encoder.sums() == {
        **{"token": 8, "position": 16, "encoder_self.1.1": 24, "encoder_self.1.2": 32},
        **{"feed_forward.1": 40, "encoder_self.2.1": 48, "encoder_self.2.2": 56},
        **{"feed_forward.2": 64, "biases": 72},
    }
    found = account().by_head()
    assert found["encoder_self"].tolist() == [[24, 32], [48, 56]]
    assert found["cross"].tolist() == [[-3, -12], [-48, -192]]
    assert found["decoder_self"].tolist() == [[3, 12], [48, 192]]


def test_lines_are_of_the_parts_that_are_largest_anywhere() -> None:
    accounts = [account(), account(scale=-0.5)]
    lines = lines_by_part(accounts, 3)
    assert list(lines) == ["Difference", "Token", "Position", "Biases", "6 smaller parts"]
    totals = [each.parts.total for each in accounts]
    assert lines["Difference"] == totals
    assert lines["Biases"] == [1024, -512]
    assert_near(np.sum([lines[name] for name in list(lines)[1:]], axis=0), totals, dtype=float)
    assert list(lines_by_part(accounts, 9)) == ["Difference", *BY_LAYER]
    assert list(lines_by_part(accounts, 8))[-1] == "1 smaller part"


def test_direct_and_whole_differ_in_sign_or_by_half() -> None:
    """By more than half of the larger one, and not where both are below the smallest."""
    for both in ((1.0, -1.0), (1.0, 0.49), (-0.49, -1.0), (1.0, 0.0), (0.1, -0.01)):
        assert disagrees(*both, 0.1), both
    for both in ((1.0, 0.5), (-1.0, -0.75), (4.0, 3.0), (0.09, -0.09)):
        assert not disagrees(*both, 0.1), both


SOURCE = Tokens((5, 6), (" uno", " dos"), (Word("uno", 0, 1), Word("dos", 1, 2)))


def test_most_of_a_head_is_more_than_half_and_at_most_all() -> None:
    made, trace = account(), cast(Trace, SimpleNamespace(source=SOURCE, consumed=SOURCE))
    for cells, said in (
        ([700.0, 500.0], "most of it by “uno” (+700)"),
        ([600.0, 600.0], "the largest part of it by “uno” (+600)"),
        ([1500.0, -300.0], "most by “uno” (+1,500), of which others take back 300"),
    ):
        cross = made.parts.heads["cross"].copy()
        cross[1, 0] = cells
        parts = replace(made.parts, heads={**made.parts.heads, "cross": cross})
        told = say_largest(trace, replace(made, parts=parts), "**x**")
        assert told == f"Most for **x** of all parts: Cross 2.1, +1,200, {said}."
    for sign, way in ((1, "for"), (-1, "against")):  # a way in which no head speaks
        heads = {kind: -sign * np.abs(cells) for kind, cells in made.parts.heads.items()}
        parts = replace(made.parts, heads=heads, biases=np.array(sign * 1024.0))
        told = say_largest(trace, replace(made, parts=parts, difference=sign * 1.0), "**x**")
        assert told == (
            f"Most {way} **x** of all parts: Biases, {sign * 1024:+,}. No head speaks {way} it."
        )


def test_a_neuron_that_is_off_is_said_to_be() -> None:
    """GELU of -5.80 is not 0, but as good as that."""
    for activation, said in (
        *((0.0, "It is off here"), (0.5, "+0.5."), (-0.25, "does the opposite")),
        (-1.9e-8, "as good as off here: its activation is -2e-08."),
    ):
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
    for instead in (".", "·."):  # which goes on with a word
        main(arguments(run_root, tmp_path / "out.npz", "--at", "1", "--instead", instead))
        assert " against .: " in capsys.readouterr().out


def test_what_cannot_be_asked_or_written_is_refused(run_root: Path, tmp_path: Path) -> None:
    for name, options, said in (
        ("out.npz", ["--at", "99"], "at: expected 1 to"),
        ("out.npz", ["--at", "0"], "at: expected 1 to"),
        ("out.npz", ["--at", "1", "--instead", "no such token"], "instead: expected one token"),
        ("out.txt", ["--at", "1"], "ends in"),
        ("none/out.npz", ["--at", "1"], "no such"),
    ):
        with pytest.raises(ValueError, match=said):
            main(arguments(run_root, tmp_path / name, *options))
