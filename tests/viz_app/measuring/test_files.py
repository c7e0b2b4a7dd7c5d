"""Measures written and read back, and files that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.measuring.files import (
    measured_steps,
    measures_path,
    read_measures,
    write_measures,
)
from headwise.viz_app.measuring.head_measures import MEASURES, SCORE_MEASURES
from headwise.viz_app.records.measures import Example, Measures, Sentence, TranslatedSentence
from tests.viz_app.measures import made_up_measures

NAN = float("nan")
ROUNDED = {"atol": 0.5e-5, "rtol": np.finfo(np.float32).eps}
"""Half a unit of the fifth decimal, and the rounding of what is read to float32."""


def odd(**changes: Any) -> Measures:
    """Measures with what is hard to write: a NaN, thirds, texts with line ends and markup."""
    made = made_up_measures()
    values = {**made.values, "entropy": {**made.values["entropy"]}}
    values["entropy"]["encoder_self"] = np.array([[1 / 7, NAN, 2 / 7]] * 2, np.float32)
    examples = dict(made.examples)
    examples[Head("cross", 1, 2)] = (Example(0, 0, 1, 1 / 3),)
    errors = {"entropy": values["entropy"]}
    even: dict[str, dict[Kind, float]] = {"begin": {"decoder_self": 0.25, "cross": NAN}}
    translated = (
        TranslatedSentence(
            "¿Dónde?", {"log_probability": -2.125, "source_contribution": 1 / 3}, 200 / 3
        ),
        TranslatedSentence("", {"log_probability": -1.0, "source_contribution": NAN}, 0.0),
    )
    sentences = (Sentence("Where?\u2028\n", "¿Dónde?"), Sentence("<b>", "**b**"))
    made = replace(made, errors=errors, even=even)
    made = replace(made, values=values, examples=examples, translated=translated)
    return replace(made, **({"sentences": sentences} | changes))


def test_measures_survive_writing_and_reading(tmp_path: Path) -> None:
    written = odd()
    write_measures(tmp_path, written)
    read = read_measures(tmp_path, 20)
    for kind in KINDS:
        for name in MEASURES:
            array = read.values[name][kind]
            assert array.dtype == np.float32
            assert not array.flags.writeable
            np.testing.assert_allclose(array, written.values[name][kind], **ROUNDED)
        np.testing.assert_allclose(read.cost_errors[kind], written.cost_errors[kind], **ROUNDED)
    assert read.examples == {**written.examples, ("cross", 1, 2): (Example(0, 0, 1, 0.33333),)}
    assert [t.translation for t in read.translated] == ["¿Dónde?", ""]
    figures = {"log_probability": -2.125, "source_contribution": 0.33333}
    assert read.translated[0] == TranslatedSentence("¿Dónde?", figures, 66.66667)
    assert np.isnan(read.translated[1].figures["source_contribution"])
    assert [t.chrf for t in read.translated] == [66.66667, 0.0]
    [(name, kinds)] = read.errors.items()
    assert name == "entropy"
    np.testing.assert_allclose(kinds["encoder_self"], [[1 / 7, NAN, 2 / 7]] * 2, **ROUNDED)
    assert read.even["begin"]["decoder_self"] == 0.25
    assert np.isnan(read.even["begin"]["cross"])
    rest = dict.fromkeys(("errors", "even", "values", "cost_errors", "examples", "translated"))
    assert replace(read, **rest) == replace(written, **rest)


@pytest.mark.parametrize(
    ("row", "source_contribution"),
    [
        (["a", 50.0, -0.25, 0.5, 1.5, 0.0], NAN),  # before the source's contribution
        (["a", 50.0, -0.25, 0.5, 1.5, 0.0, 0.75, 0.125, 0.375, 0.375, 0.0, None], 0.75),
    ],
)
def test_older_files_are_read(tmp_path: Path, row: list[Any], source_contribution: float) -> None:
    """Without errors and what explains scores, and with figures that are no longer there."""
    written = made_up_measures()
    write_measures(tmp_path, written)
    path = measures_path(tmp_path, 20)
    file = orjson.loads(path.read_bytes())
    assert "errors" not in file
    for name in SCORE_MEASURES:
        del file["values"][name]
    file["translated"] = [row] * len(written.sentences)
    for stages in ("stages", "stage_errors"):
        file[stages] = file.get(stages, {}) | {"detached": 0.25, "detached_reference": None}
    file["detection"] = {"default": "left_out", "aucs": {"left_out": [0.75, None, None]}}
    path.write_bytes(orjson.dumps(file))
    read = read_measures(tmp_path, 20)
    [first, _] = read.translated
    assert (first.translation, first.chrf) == ("a", 50)
    figures = {"log_probability": -0.25, "source_contribution": source_contribution}
    np.testing.assert_equal(dict(first.figures), figures)
    assert {*read.stages} == {*written.stages}
    assert (read.stage_errors, read.errors, read.even) == ({}, {}, {})
    assert {*read.values} == {*MEASURES}
    for name in SCORE_MEASURES:
        for kind in KINDS:
            assert read.values[name][kind].shape == (2, 3)
            assert np.isnan(read.values[name][kind]).all()


def test_steps_are_listed_in_order_and_measures_replaced(tmp_path: Path) -> None:
    assert measured_steps(tmp_path) == []
    with pytest.raises(CheckpointError, match=r"no measures of step 20, .* none; make them with"):
        read_measures(tmp_path, 20)
    for step in (500, 0):
        write_measures(tmp_path, made_up_measures(step))
    (tmp_path / "measures" / ".step-0000007.json.abc.unfinished").write_text("{")
    (tmp_path / "measures" / "step-7.json").write_text("{")
    assert measured_steps(tmp_path) == [0, 500]
    with pytest.raises(CheckpointError, match=r"step-0000020\.json: .* those of: 0, 500; make"):
        read_measures(tmp_path, 20)
    write_measures(tmp_path, made_up_measures(500, sha256="other"))
    assert read_measures(tmp_path, 500).sha256 == "other"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":2', '"format_version":3', "format version 3, this program reads 2"),
        ('"step":20', '"step":21', "not measures of step 20, or damaged .*its step is 21"),
        ('"aer_consumed"', '"aer"', "aer_consumed"),
        ('["cross",1,2,', '["cross",1,3,', "expected examples of 18 heads, got 18"),
        ('["¿Dónde?",66.66667,', '["¿Dónde?",', "damaged"),
        (f',["",0.0,-1.0{",null" * 9}]', "", "expected 2 translations, got 1"),
        ("[0,0,1,", "[2,0,1,", "expected examples from 2 sentences"),
        ('"pieces":19', '"pieces":[17]', r"pieces: expected a valid integer, got \[17\]"),
        ("0.14286", "1e39", r"expected less than or equal to 34\d+, got 1e\+39"),
        ("0.14286", "NaN", "expected a finite number, got nan"),
        ('"run"', '"colour":5,"run"', "colour: Unexpected keyword argument, got 5"),
        ("{", "[", "damaged"),
        (None, "", "not measures"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, old: str | None, new: str, message: str) -> None:
    """Without a text to replace, the file is cut off."""
    write_measures(tmp_path, odd())
    path = measures_path(tmp_path, 20)
    text = path.read_text(encoding="utf-8")
    assert old is None or old in text
    path.write_text(text[:500] if old is None else text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"step-0000020\.json: .*{message}.*measure again$"):
        read_measures(tmp_path, 20)


def test_changed_missing_or_odd_sentences_are_refused(tmp_path: Path) -> None:
    write_measures(tmp_path, odd(step=0))
    write_measures(tmp_path, odd(step=20, sentences=odd().sentences[::-1]))
    assert read_measures(tmp_path, 20).sentences[0].source == "<b>"
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: not the example sentences that"):
        read_measures(tmp_path, 0)
    (tmp_path / "measures" / "sentences.jsonl").unlink()
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: cannot be read"):
        read_measures(tmp_path, 20)
    write_measures(tmp_path, odd(sentences=(Sentence("a", "b"), Sentence(5, "b"))))
    with pytest.raises(CheckpointError, match=r"damaged .*source: expected a valid string, got 5"):
        read_measures(tmp_path, 20)
