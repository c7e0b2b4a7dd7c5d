"""Word alignments from Python: links, weights and errors, beside a trace and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headwise
from headwise.model.checkpoint import TrainedRun
from headwise.model.training.data import DataError
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers
from tests.floats import PASS, near
from tests.viz_app.conftest import ENGLISH, SPANISH

PAIRS = [*zip(ENGLISH[:3], SPANISH[:3], strict=True), ("", "Nada.")]
REFERENCE = [{(0, 0), (1, 1)}, {(0, 0)}, {(0, 0), (3, 1)}, set()]


@pytest.fixture(scope="module")
def checkpoint(run: TrainedRun) -> headwise.OpenedCheckpoint:
    return headwise.open("tiny", root=run.folder.parent)[-1]


def by_hand(
    checkpoint: headwise.OpenedCheckpoint, pair: tuple[str, str], head: tuple[int, int]
) -> np.ndarray:
    """Weights between the words of a pair (target, source), of rows by predicted tokens."""
    trace = checkpoint.trace(*pair)
    return between_words(checkpoint, trace, trace.attention["cross"][head])


def between_words(
    checkpoint: headwise.OpenedCheckpoint, trace: headwise.OpenedTrace, maps: np.ndarray
) -> np.ndarray:
    maps = maps.astype(np.float64)
    keys = np.array(source_word_numbers(checkpoint.tokenizers, trace.source.ids))
    rows = np.array(word_numbers(checkpoint.tokenizers.target, trace.predicted.ids))
    return np.array(
        [
            [
                maps[rows == target][:, keys == source].sum(axis=-1).mean()
                for source in range(keys.max() + 1)
            ]
            for target in range(rows.max() + 1)
        ]
    )


def test_links_and_weights_are_those_of_a_trace(checkpoint: headwise.OpenedCheckpoint) -> None:
    found = headwise.align(checkpoint, PAIRS, head=("cross", 1, 2))
    assert found.head == "cross.2.3"
    assert (found.error, found.errors, found.diagonal) == (None, {}, None)
    assert found.pairs[3] is None
    for pair, aligned in zip(PAIRS[:3], found.pairs, strict=False):
        assert aligned is not None
        weights = by_hand(checkpoint, pair, (1, 2))
        assert aligned.weights == near(weights, dtype=np.float32, operations=PASS)
        assert aligned.links == {(int(row.argmax()), at) for at, row in enumerate(weights)}


def test_value_norms_and_layers_are_those_of_a_trace(checkpoint: headwise.OpenedCheckpoint) -> None:
    """The longest vector is what is linked, of a head and of what a layer's heads add together."""
    links = []
    for by, of, name in (
        ("value norm", "heads", "cross.2.3"),
        ("weight", "layers", "cross.2"),
        ("value norm", "layers", "cross.2"),
    ):
        found = headwise.align(checkpoint, PAIRS, head=name, by=by, of=of)  # type: ignore[arg-type]
        assert found.head == name
        for pair, aligned in zip(PAIRS[:3], found.pairs, strict=False):
            assert aligned is not None
            trace = checkpoint.trace(*pair)
            maps = {
                "value norm heads": trace.attention["cross"][1, 2]
                * trace.value_norms["cross"][1, 2],
                "weight layers": trace.attention["cross"][1].mean(axis=0),
                "value norm layers": trace.head_sum_norms["cross"][1],
            }[f"{by} {of}"]
            expected = between_words(checkpoint, trace, maps)
            assert aligned.weights == near(expected, dtype=np.float32, operations=PASS)
            links.append(aligned.links)
    assert links[3:6] != links[6:]
    errors = headwise.align(checkpoint, PAIRS, reference=REFERENCE, of="layers").errors
    assert {*errors} == {"cross.1", "cross.2"}


def test_errors_are_of_och_and_ney(checkpoint: headwise.OpenedCheckpoint, tmp_path: Path) -> None:
    """1 − 2 |A ∩ S| / (|A| + |S|); the best head is chosen, beside the diagonal and the bound."""
    found = headwise.align(checkpoint, PAIRS, reference=REFERENCE)
    sure = sum(map(len, REFERENCE))
    rates, diagonal, lowest = {}, 0, 0
    for layer, head in np.ndindex(2, 3):
        right = made = 0
        for pair, reference in zip(PAIRS[:3], REFERENCE, strict=False):
            links = {
                (int(row.argmax()), at)
                for at, row in enumerate(by_hand(checkpoint, pair, (layer, head)))
            }
            right, made = right + len(links & reference), made + len(links)
        rates[f"cross.{layer + 1}.{head + 1}"] = 1 - 2 * right / (made + sure)
    for reference in REFERENCE:
        diagonal += sum(source == target for source, target in reference)
        lowest += len({target for _, target in reference})
    assert found.errors == near(rates)
    assert list(found.errors.values()) == sorted(rates.values())
    assert found.error == found.errors[found.head] == near(min(rates.values()))
    assert found.diagonal == near(1 - 2 * diagonal / (made + sure))
    assert found.lowest == near(1 - 2 * lowest / (made + sure))
    lines = ["0-0 1-1", "0-0", "0-0 3-1", ""]
    file = tmp_path / "links.txt"
    file.write_text("\n".join(lines) + "\n")
    for same in (lines, file, str(file)):
        assert headwise.align(checkpoint, PAIRS, reference=same).errors == found.errors


def test_a_file_of_links_has_the_lines_that_an_editor_shows(
    checkpoint: headwise.OpenedCheckpoint, tmp_path: Path
) -> None:
    path = tmp_path / "links.txt"
    path.write_bytes("0-0\u20281-1\r\n0-0\x85\r\n0-0 3-1\r\n\r\n".encode())
    found = headwise.align(checkpoint, PAIRS, reference=path)
    assert found.errors == headwise.align(checkpoint, PAIRS, reference=REFERENCE).errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reference": REFERENCE[:2]}, "expected links of 4 pairs, got 2"),
        ({"reference": [*REFERENCE[:3], {(-1, 0)}]}, "pair 4: expected words that are counted"),
        ({"reference": ["0-0", "0?1", "", ""]}, "pair 2: expected sure links"),
        ({"reference": [{(90, 0)}, *REFERENCE[1:]]}, "expected links between"),
        ({"head": "cross.9.1"}, "expected a head of tiny from cross.1.1 to cross.2.3"),
        ({"head": "encoder_self.1.1"}, "expected a head of tiny from cross.1.1"),
        ({"head": "cross.3", "of": "layers"}, "a layer of tiny from cross.1 to cross.2, got cros"),
        ({"by": "value norm"}, "expected a reference or a name: only heads' weights are measured"),
    ],
)
def test_what_does_not_fit_is_refused(
    checkpoint: headwise.OpenedCheckpoint, given: dict[str, object], message: str
) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        headwise.align(checkpoint, PAIRS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs", [[], ["The cat."], [("a", "b", "c")], [(1, 2)]])
def test_no_pairs_are_refused(checkpoint: headwise.OpenedCheckpoint, pairs: list[object]) -> None:
    with pytest.raises((ValueError, DataError), match="pairs"):
        headwise.align(checkpoint, pairs)  # type: ignore[arg-type]
