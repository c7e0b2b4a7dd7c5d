"""The command ``python -m headwise.viz_app.find``, and the same on the page Heads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Head, head_name
from headwise.viz_app.find import FindArguments, main
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near

PAIRS = [("Where is the old dog?", "¿Dónde está el perro viejo?"), ("The cats.", "Los gatos.")]


def test_rows_are_written_with_their_sentences(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "rows.json"
    data.write_text("en\tes\n" + "".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    line = ["--run", "tiny", "--checkpoints", str(run_root), "--data", str(data), str(out)]
    line += ["--on", "special", "--head", "cross.2.1", "--least", "0.05", "--most", "3"]
    main(tyro.cli(FindArguments, args=line))
    found = json.loads(out.read_text())
    model, of = load_weights(run, 60).model, 0
    weights: dict[tuple[str, int], float] = {}
    for source, target in PAIRS:
        encoded = run.tokenizers.encode_target(target)
        trace = run_trace(model, run.tokenizers, source, tuple(encoded))
        on_end = trace.attention["cross"][1, 0, :, -1]
        of += len(on_end)
        weights |= {(source, row): float(w) for row, w in enumerate(on_end) if w >= 0.05}
    assert (found["count"], found["of"]) == (len(weights), of)
    assert capsys.readouterr().out == f"{len(weights)} of {of} rows of 2 sentences\n"
    largest = sorted(weights.values(), reverse=True)[:3]
    assert [row["weight"] for row in found["rows"]] == near(largest, dtype="float32", size=1)
    for row in found["rows"]:
        assert row["head"] == head_name(Head("cross", 1, 0))
        assert (row["source"], row["target"]) in PAIRS
        assert row["weight"] == near(weights[row["source"], row["query"]], dtype="float32", size=1)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--on", "token", "rows.json"], "expected a word to look for"),
        (["--on", "special", "rows.txt"], "ends in .json"),
        (["--on", "special", "--head", "cross.9.9", "rows.json"], "no head cross"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_sentence(
    run_root: Path, tmp_path: Path, rest: list[str], message: str
) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("en\tes\nA dog.\tUn perro.\n", encoding="utf-8")
    line = ["--run", "tiny", "--checkpoints", str(run_root), "--data", str(data)]
    arguments = tyro.cli(FindArguments, args=[*line, *rest[:-1], str(tmp_path / rest[-1])])
    with pytest.raises(ValueError, match=message):
        main(arguments)
