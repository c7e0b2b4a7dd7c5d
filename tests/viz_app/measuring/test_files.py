"""Measures written and read back, and files that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS
from headwise.viz_app.measuring.files import (
    measured_steps,
    measures_path,
    read_measures,
    write_measures,
)
from headwise.viz_app.records.measures import (
    FAILURES,
    MEASURES,
    STAGES,
    AlignmentBaselines,
    CorpusSummary,
    Example,
    Measures,
    Sentence,
    TranslatedSentence,
)

NAN = float("nan")
ROUNDED = {"atol": 0.5e-5, "rtol": np.finfo(np.float32).eps}
"""Half a unit of the fifth decimal, and the rounding of what is read to float32."""
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
        corpus=CorpusSummary("valid.jsonl", "c0", 256, 2_048),
        values={name: {kind: array(name) for kind in KINDS} for name in MEASURES},
        cost_errors={kind: array("entropy") for kind in KINDS},
        alignment=AlignmentBaselines(lowest=0.06, diagonal=0.61),
        stages={name: place / 8 for place, name in enumerate(STAGES)},
        examples_corpus=CorpusSummary("en-es.jsonl", "e0", 2, 17),
        sentences=(Sentence("Where?\u2028\n", "¿Dónde?"), Sentence("<b>", "**b**")),
        examples={
            head: tuple(Example(n % 2, n, n + 1, 1 / (n + 3)) for n in range(index % 3))
            for index, head in enumerate(heads)
        },
        translated=(
            TranslatedSentence(
                "¿Dónde?", dict(zip(FAILURES, (-2.125, 0.5, 1 / 3, 0.25), strict=True)), 200 / 3
            ),
            TranslatedSentence("", dict(zip(FAILURES, (-1.0, NAN, NAN, 0.0), strict=True)), 0.0),
        ),
        distance_to=step + 40,
    )


def test_measures_survive_writing_and_reading(tmp_path: Path) -> None:
    written = make()
    write_measures(tmp_path, written)
    read = read_measures(tmp_path, 20)
    for name in MEASURES:
        for kind in KINDS:
            array = read.values[name][kind]
            assert array.dtype == np.float32
            assert not array.flags.writeable
            np.testing.assert_allclose(array, written.values[name][kind], **ROUNDED)
    assert set(read.examples) == set(written.examples)
    for head, examples in written.examples.items():
        assert read.examples[head] == tuple(
            replace(example, weight=round(example.weight, 5)) for example in examples
        )
    assert [t.translation for t in read.translated] == ["¿Dónde?", ""]
    assert read.translated[0].figures == dict(
        zip(FAILURES, (-2.125, 0.5, 0.33333, 0.25), strict=True)
    )
    assert np.isnan(read.translated[1].figures["left_out"])
    assert [t.chrf for t in read.translated] == [66.66667, 0.0]
    for kind in KINDS:
        np.testing.assert_allclose(read.cost_errors[kind], written.cost_errors[kind], **ROUNDED)
    rest = {"values": {}, "cost_errors": {}, "examples": {}, "translated": ()}
    assert replace(read, **rest) == replace(written, **rest)


def test_steps_are_listed_in_order(tmp_path: Path) -> None:
    assert measured_steps(tmp_path) == []
    for step in (500, 0, 20):
        write_measures(tmp_path, make(step))
    (tmp_path / "measures" / ".step-0000007.json.abc.unfinished").write_text("{")
    (tmp_path / "measures" / "step-7.json").write_text("{")
    assert measured_steps(tmp_path) == [0, 20, 500]
    assert read_measures(tmp_path, 500).step == 500


def test_writing_replaces_measures(tmp_path: Path) -> None:
    write_measures(tmp_path, make())
    write_measures(tmp_path, replace(make(), sha256="other"))
    assert read_measures(tmp_path, 20).sha256 == "other"


def test_missing_measures_error_lists_measured_steps(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no measures of step 20, .* none; make them with"):
        read_measures(tmp_path, 20)
    write_measures(tmp_path, make(500))
    with pytest.raises(CheckpointError, match=r"step-0000020\.json: .* those of: 500; make them"):
        read_measures(tmp_path, 20)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":2', '"format_version":3', "format version 3, this program reads 2"),
        ('"step":20', '"step":21', "not measures of step 20, or damaged .*its step is 21"),
        ('"aer_consumed"', '"aer"', "aer_consumed"),
        ('["cross",1,2,', '["cross",1,3,', "expected examples of 18 heads, got 18"),
        ('["¿Dónde?",66.66667,', '["¿Dónde?",', "damaged"),
        (',["",0.0,-1.0,null,null,0.0]', "", "expected 2 translations, got 1"),
        ("[0,0,1,", "[2,0,1,", "expected examples from 2 sentences"),
        (
            "[0,0,1,",
            "[0.5,0,1,",
            r"examples\[1\]\[3\]\[0\]\[0\]: expected a valid integer, got 0.5",
        ),
        ('"pieces":17', '"pieces":[17]', r"pieces: expected a valid integer, got \[17\]"),
        (
            '["¿Dónde?",66.66667,',
            "[7,66.66667,",
            r"translated\[0\]\[0\]: expected a valid string, got 7",
        ),
        ("0.14286", "1e39", r"expected less than or equal to 34\d+, got 1e\+39"),
        ("0.14286", "NaN", "expected a finite number, got nan"),
        ('"run"', '"colour":5,"run"', "colour: Unexpected keyword argument, got 5"),
        ("{", "[", "damaged"),
    ],
)
def test_damaged_or_foreign_file_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    write_measures(tmp_path, make())
    path = measures_path(tmp_path, 20)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"step-0000020\.json: .*{message}.*measure again$"):
        read_measures(tmp_path, 20)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    write_measures(tmp_path, make())
    path = measures_path(tmp_path, 20)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match=r"step-0000020\.json: not measures .* measure again"):
        read_measures(tmp_path, 20)


def test_changed_or_missing_sentences_are_refused(tmp_path: Path) -> None:
    write_measures(tmp_path, make(0))
    write_measures(tmp_path, replace(make(20), sentences=make().sentences[::-1]))
    assert read_measures(tmp_path, 20).sentences[0].source == "<b>"
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: not the example sentences that"):
        read_measures(tmp_path, 0)
    (tmp_path / "measures" / "sentences.jsonl").unlink()
    with pytest.raises(CheckpointError, match=r"sentences\.jsonl: cannot be read"):
        read_measures(tmp_path, 20)


def test_sentences_that_are_not_texts_are_refused(tmp_path: Path) -> None:
    write_measures(tmp_path, replace(make(), sentences=(Sentence("a", "b"), Sentence(5, "b"))))
    with pytest.raises(CheckpointError, match=r"damaged .*source: expected a valid string, got 5"):
        read_measures(tmp_path, 20)
