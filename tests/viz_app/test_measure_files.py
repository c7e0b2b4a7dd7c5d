"""Measures written and read back, and files that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.files import CheckpointError
from viz_app.measure_files import measured_steps, measures_path, read_measures, write_measures
from viz_app.measure_records import (
    FAILURES,
    MEASURES,
    Corpus,
    Example,
    Measures,
    Sentence,
    Translated,
)
from viz_app.records import KINDS

NAN = float("nan")
N_LAYERS, N_HEADS = 2, 3


def make(step: int = 20) -> Measures:
    """Measures in which no two numbers are the same; the cost is not known."""
    numbers = iter(np.arange(1, 1_000) / 7)

    def array(name: str) -> np.ndarray:
        values = np.array([[next(numbers) for _ in range(N_HEADS)] for _ in range(N_LAYERS)])
        return (values if name != "cost" else values * NAN).astype(np.float32)

    heads = [(kind, i, h) for kind in KINDS for i in range(N_LAYERS) for h in range(N_HEADS)]
    return Measures(
        run="tiny",
        step=step,
        sha256="5ha",
        corpus=Corpus("valid.jsonl", "c0", 256, 2_048),
        values={name: {kind: array(name) for kind in KINDS} for name in MEASURES},
        examples_corpus=Corpus("en-es.jsonl", "e0", 2, 17),
        sentences=(Sentence("Where?\u2028\n", "¿Dónde?"), Sentence("<b>", "**b**")),
        examples={
            head: tuple(Example(n % 2, n, n + 1, 1 / (n + 3)) for n in range(index % 3))
            for index, head in enumerate(heads)
        },
        translated=(
            Translated("¿Dónde?", dict(zip(FAILURES, (0.25, 0.5, 1 / 3, -2.125), strict=True))),
            Translated("", dict(zip(FAILURES, (0.0, 0.0, NAN, -1.0), strict=True))),
        ),
        distance_to=step + 40,
    )


def test_measures_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = make()
    write_measures(tmp_path, written)
    read = read_measures(tmp_path, 20)
    for name in MEASURES:
        for kind in KINDS:
            array = read.values[name][kind]
            assert array.dtype == np.float32
            assert not array.flags.writeable
            np.testing.assert_allclose(array, written.values[name][kind], atol=0.6e-5)
    assert set(read.examples) == set(written.examples)
    for head, examples in written.examples.items():
        assert read.examples[head] == tuple(
            replace(example, weight=round(example.weight, 5)) for example in examples
        )
    assert [t.translation for t in read.translated] == ["¿Dónde?", ""]
    assert read.translated[0].figures == dict(
        zip(FAILURES, (0.25, 0.5, 0.33333, -2.125), strict=True)
    )
    assert np.isnan(read.translated[1].figures["end"])
    rest = {"values": {}, "examples": {}, "translated": ()}
    assert replace(read, **rest) == replace(written, **rest)


def test_steps_are_listed_in_order(tmp_path: Path) -> None:
    assert measured_steps(tmp_path) == []
    for step in (500, 0, 20):
        write_measures(tmp_path, make(step))
    (tmp_path / "measures" / ".step-0000007.json.abc.unfinished").write_text("{")
    (tmp_path / "measures" / "step-7.json").write_text("{")
    assert measured_steps(tmp_path) == [0, 20, 500]
    assert read_measures(tmp_path, 500).step == 500


def test_measures_are_replaced(tmp_path: Path) -> None:
    write_measures(tmp_path, make())
    write_measures(tmp_path, replace(make(), sha256="other"))
    assert read_measures(tmp_path, 20).sha256 == "other"


def test_missing_measures_are_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no measures of step 20, .* none; make them with"):
        read_measures(tmp_path, 20)
    write_measures(tmp_path, make(500))
    with pytest.raises(CheckpointError, match=r"step-0000020\.json: .* those of: 500; make them"):
        read_measures(tmp_path, 20)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":1', '"format_version":2', "format version 2, this program reads 1"),
        ('"step":20', '"step":21', "not measures of step 20, or damaged .*its step is 21"),
        ('"aer_consumed"', '"aer"', "aer_consumed"),
        ('["cross",1,2,', '["cross",1,3,', "expected examples of 18 heads, got 18"),
        ('["¿Dónde?",0.25,', '["¿Dónde?",', "damaged"),
        (',["",0.0,0.0,null,-1.0]', "", "expected 2 translations, got 1"),
        ("[0,0,1,", "[2,0,1,", "expected examples from 2 sentences"),
        ("[0,0,1,", "[0.5,0,1,", "sentence: expected a whole number, got 0.5"),
        ("[0,0,1,", '[0,"0",1,', "query: expected a whole number, got '0'"),
        ('"sentences":256', '"sentences":"256"', "sentences: expected a whole number, got '256'"),
        ('"pieces":17', '"pieces":[17]', r"pieces: expected a whole number, got \[17\]"),
        ('"run":"tiny"', '"run":null', "run: expected str, got None"),
        ('["¿Dónde?",0.25,', "[7,0.25,", "translation: expected str, got 7"),
        ("0.14286", '"0.14286"', "expected a number or null, got '0.14286'"),
        ("0.14286", "1e39", r"expected a number or null, got 1e\+39"),
        ("{", "[", "damaged"),
    ],
)
def test_what_is_damaged_or_foreign_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    write_measures(tmp_path, make())
    path = measures_path(tmp_path, 20)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"step-0000020\.json: .*{message}.*measure again$"):
        read_measures(tmp_path, 20)


def test_half_a_file_is_named(tmp_path: Path) -> None:
    write_measures(tmp_path, make())
    path = measures_path(tmp_path, 20)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match=r"step-0000020\.json: not measures .* measure again"):
        read_measures(tmp_path, 20)


def test_other_or_missing_sentences_are_named(tmp_path: Path) -> None:
    write_measures(tmp_path, make(0))
    write_measures(tmp_path, replace(make(20), sentences=make().sentences[::-1]))
    assert read_measures(tmp_path, 20).sentences[0].source == "<b>"
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: not the example sentences that"):
        read_measures(tmp_path, 0)
    (tmp_path / "measures" / "sentences.jsonl").unlink()
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: cannot be read"):
        read_measures(tmp_path, 20)


def test_sentences_that_are_no_texts_are_named_even_if_their_hash_fits(tmp_path: Path) -> None:
    write_measures(tmp_path, replace(make(), sentences=(Sentence("a", "b"), Sentence(5, "b"))))
    with pytest.raises(CheckpointError, match=r"damaged .*source: expected str, got 5"):
        read_measures(tmp_path, 20)
