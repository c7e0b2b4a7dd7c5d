from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.records.trace import Tokens, Trace, Word
from tests.floats import assert_near


def test_lens_by_hand(trace: Trace) -> None:
    """Two layers, T = 3 steps, k = 2: the actual tokens are 5, 6, 7."""
    ids = np.array([[[9, 5], [6, 1], [1, 2]], [[5, 9], [9, 6], [1, 2]], [[5, 1], [6, 1], [2, 7]]])
    p = np.array([0.5, 0.25], np.float32) * np.arange(1, 4, dtype=np.float32)[:, None, None] / 2
    log_p = np.log(np.broadcast_to(p, ids.shape))
    predictions = replace(trace.predictions, lens_ids=ids, lens_log_probability=log_p)
    tokens = tuple(tuple(tuple(f" p{i}" for i in row) for row in layer) for layer in ids.tolist())
    predicted = Tokens((5, 6, 7), ("a", "b", "c"), tuple(Word("a", i, i + 1) for i in range(3)))
    lens = read_lens(
        replace(trace, predictions=predictions, lens_tokens=tokens, predicted=predicted)
    )
    assert lens.labels == (("p9", "p5", "p5"), ("p6", "p9", "p6"), ("p1", "p1", "p2"))
    assert lens.actual.tolist() == [[False, True, True], [True, False, True], [False] * 3]
    assert_near(lens.probabilities, [[0.25, 0.5, 0.75]] * 3)
    assert lens.notes[0][1] == "p5  0.500\np9  0.250"
    assert lens.notes[2][2] == "p2  0.750\np7  0.375"


def test_last_column_is_the_prediction(trace: Trace) -> None:
    lens = read_lens(trace, count=4)
    expected = np.exp(trace.predictions.top_log_probability[:, 0])
    assert_near(lens.probabilities[:, -1], expected)
    assert [row[-1] for row in lens.labels] == [token_label(p[0]) for p in trace.top_tokens]
    assert lens.actual[:, -1].tolist() == (trace.predictions.rank == 1).tolist()
    assert lens.probabilities.shape == (len(trace.predicted), 3)
    assert {note.count("\n") for row in lens.notes for note in row} == {3}
    usual = read_lens(trace)
    assert {len(note.splitlines()) for row in usual.notes for note in row} == {5}
