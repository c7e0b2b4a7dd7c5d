"""The command ``python -m headwise.viz_app.patch``, and what its arrays have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, edit
from headwise.viz_app.patch import PatchArguments, main
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.patches import run_patching
from tests.floats import PASS, near, rounding

A, B, OTHER = "Where is the old dog?", "Where is the red dog?", "She gave him a book."
LOGITS = 40.0
"""Magnitude of what is added up."""


def arguments(root: Path, out: Path, *rest: str, other: str = B) -> PatchArguments:
    line = ["--run", "tiny", "--text", A, "--other", other, "--checkpoints", str(root), str(out)]
    return tyro.cli(PatchArguments, args=[*line, *rest])


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def test_arrays_are_the_log_odds_of_each_patched_run(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells are worked again by an edit of one pass each."""
    main(arguments(run_root, tmp_path / "out.npz", "--at", "2", "--words", "perro", "está"))
    found = read(tmp_path / "out.npz")
    model = load_weights(run, 60).model
    a, b = run_trace(model, run.tokenizers, A), run_trace(model, run.tokenizers, B)
    words = [run.tokenizers.target.encode(word)[0] for word in ("perro", "está")]
    consumed = torch.tensor([a.consumed.ids[:2]])
    sources = [torch.tensor([each.source.ids]) for each in (a, b)]

    def odds(source: torch.Tensor) -> float:
        with torch.inference_mode():
            logits = model.unembed(forced_stream(model, source, consumed))[0, -1]
        return float(logits[words[0]] - logits[words[1]])

    bound = {"dtype": np.float32, "size": LOGITS, "operations": PASS}
    assert found["odds_a"] == near(odds(sources[0]), **bound)
    assert found["odds_b"] == near(odds(sources[1]), **bound)
    sources_a = found["source_spans_a"]
    assert found["stream_encoder"].shape == (3, len(sources_a))
    assert found["stream_decoder"].shape == (3, 2)
    assert {name: found[name].shape for name in found if "heads" in name or "sub" in name} == {
        **{f"heads_{kind}": (2, 3) for kind in ("encoder_self", "decoder_self", "cross")},
        "sublayers_encoder": (2, 2),
        "sublayers_decoder": (2, 3),
    }
    here, there = slice(*sources_a[-1]), slice(*found["source_spans_b"][-1])  # </s> is in both
    every, written = slice(None), found["sublayers_decoder"]
    for cell, point, rows, other_rows, head in (
        (found["stream_encoder"][1, -1], "encoder.layers.0.output", here, there, None),
        (found["stream_decoder"][2, 0], "decoder.layers.1.output", slice(1), slice(1), None),
        (found["heads_cross"][1, 2], "decoder.layers.1.cross_attention.heads", every, every, 2),
        (written[0, 2], "decoder.layers.0.feed_forward.output", every, every, None),
        (written[1, 1], "decoder.layers.1.cross_attention.output", every, every, None),
    ):
        with torch.inference_mode(), capture(model, [point]) as seen:
            forced_stream(model, sources[1], consumed)
        kept = seen[point][0]

        def put(x: torch.Tensor, kept=kept, rows=rows, other=other_rows, head=head):  # type: ignore[no-untyped-def]
            x = x.clone()
            if head is None:
                x[:, rows] = kept[:, other]
            else:
                x[:, head, rows] = kept[:, head, other]
            return x

        with edit(model, {point: put}):
            assert cell == near(odds(sources[0]), **bound), point
    # All that the decoder reads is the last stream of the encoder, and its last layer is the end.
    assert found["stream_decoder"][-1, -1] == near(float(found["odds_b"]), **bound)
    apart = found["stream_decoder"][0] - found["odds_a"]
    assert np.abs(apart).max() <= rounding(np.float32, LOGITS)
    said = capsys.readouterr().out
    assert said.startswith("perro against está: ")
    assert "in A" in said


def test_first_order_and_json_have_the_same_arrays(run_root: Path, tmp_path: Path) -> None:
    at = ("--at", "2", "--words", "perro", "está")
    main(arguments(run_root, tmp_path / "exact.npz", *at))
    main(arguments(run_root, tmp_path / "exact.json", *at))
    main(arguments(run_root, tmp_path / "near.npz", *at, "--attribution"))
    exact, near_it = read(tmp_path / "exact.npz"), read(tmp_path / "near.npz")
    assert {name: each.shape for name, each in exact.items()} == {
        name: each.shape for name, each in near_it.items()
    }
    assert exact["odds_a"] == near_it["odds_a"]
    assert not np.array_equal(exact["heads_cross"], near_it["heads_cross"])
    written = json.loads((tmp_path / "exact.json").read_text())
    assert set(written) == set(exact)
    np.testing.assert_array_equal(written["heads_cross"], exact["heads_cross"])


def test_a_sentence_patched_by_itself_has_nothing_to_restore(
    run_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npz"
    main(arguments(run_root, out, "--at", "1", "--words", "perro", "está", other=A))
    assert "There is nothing to restore" in capsys.readouterr().out
    found = read(out)
    for name, values in found.items():
        if name.startswith(("stream", "heads", "sublayers", "odds")):
            assert (values == found["odds_a"]).all(), name


def test_without_at_and_words_it_is_where_the_translations_part(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments(run_root, tmp_path / "out.npz", other=OTHER))
    model = load_weights(run, 60).model
    first, second = (run_trace(model, run.tokenizers, text).predicted for text in (A, OTHER))
    both = enumerate(zip(first.ids, second.ids, strict=False))
    place = next(n for n, (one, other) in both if one != other)
    said = f"{first.texts[place].strip()} against {second.texts[place].strip()}: "
    assert capsys.readouterr().out.startswith(said)
    assert read(tmp_path / "out.npz")["stream_decoder"].shape[1] == place + 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "99", "--words", "perro", "está"], "at: expected 1 to"),
        (["--at", "0", "--words", "perro", "está"], "at: expected 1 to"),
        (["--at", "1", "--words", "no such token", "está"], "words: expected one token"),
        (["--at", "1", "--words", "perro", "perro"], "expected two different tokens"),
        (["--other", A], "at: the two translations do not part"),
        (["--other", A, "--at", "1"], "words: the two translations do not part"),
        (["--at", "1", "--words", "perro", "está", "--most-seconds", "0"], "an earlier"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    run_root: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        main(arguments(run_root, tmp_path / "out.npz", *options))


def test_names_are_those_of_the_cells(run: TrainedRun) -> None:
    model = load_weights(run, 60).model
    a = run_trace(model, run.tokenizers, A)
    other = run_trace(model, run.tokenizers, OTHER).source
    found = run_patching(model, a, other, 2, (5, 6))
    named = dict(found.named())
    assert len(named) == len(list(found.named()))
    for name, cell in {
        "stream.encoder.0.2": found.stream_encoder[0, 1],
        "stream.encoder.2.1": found.stream_encoder[2, 0],
        "stream.decoder.1.3": found.stream_decoder[1, 2],
        "encoder_self.1.2": found.heads["encoder_self"][0, 1],
        "decoder_self.2.1": found.heads["decoder_self"][1, 0],
        "cross.2.3": found.heads["cross"][1, 2],
        "sublayer.encoder.2.feed_forward": found.sublayers["encoder"][1, 1],
        "sublayer.decoder.1.decoder_self": found.sublayers["decoder"][0, 0],
        "sublayer.decoder.2.cross": found.sublayers["decoder"][1, 1],
    }.items():
        np.testing.assert_array_equal(named[name], cell, err_msg=name)
    with pytest.raises(ValueError, match="read-only"):
        found.heads["cross"][0, 0] = 1


def test_shares_are_not_divided_by_rounding(run: TrainedRun) -> None:
    model = load_weights(run, 60).model
    a = run_trace(model, run.tokenizers, A)
    found = run_patching(model, a, a.source, 1, (5, 6))
    assert found.nothing_to_restore
    with pytest.raises(ValueError, match="there is nothing to restore"):
        found.restored(found.stream_encoder)
    with pytest.raises(ValueError, match="expected a position from 0"):
        run_patching(model, a, a.source, 99, (5, 6))
