"""One sentence's heads, and its least looked-at word, by the arrays of its trace."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.measuring.sentence import least_attended_word, measure_sentence
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near


@pytest.fixture(scope="module")
def trace(run: TrainedRun) -> Trace:
    model = load_weights(run, 20).model
    return run_trace(
        model, run.tokenizers, "Where is the black dog?", "¿Dónde está el perro negro?"
    )


def test_heads_have_the_means_of_rows_and_an_even_head_those_of_even_ones(
    trace: Trace, run: TrainedRun
) -> None:
    found = measure_sentence(trace, run.tokenizers, run.counts)
    cross, own = trace.attention["cross"], trace.attention["decoder_self"]
    assert_near(found.values["end"]["cross"], cross[..., -1].mean(-1))
    assert found.even["end"]["cross"] == near(1 / len(trace.source))
    rows = np.arange(1, len(trace.consumed))  # the first has no choice
    assert_near(found.values["previous"]["decoder_self"], own[..., rows, rows - 1].mean(-1))
    assert_near(found.values["begin"]["decoder_self"], own[..., rows, 0].mean(-1))
    assert found.even["begin"]["decoder_self"] == near((1 / (rows + 1)).mean())
    marks = [text.strip() in ("¿", "?") for text in trace.consumed.texts]
    assert_near(
        found.values["punctuation"]["decoder_self"], own[..., rows, :][..., marks].sum(-1).mean(-1)
    )
    assert "end" not in {name for name, of in found.values.items() if "decoder_self" in of}


def test_the_word_that_no_row_of_any_head_looks_at_much(trace: Trace, run: TrainedRun) -> None:
    cross = trace.attention["cross"]
    words = [
        list(range(word.start, word.stop))
        for word in trace.source.words
        if sum(map(str.isalpha, word.text)) >= 4 and "<" not in word.text
    ]
    looked = {tuple(word): float(cross[..., word].sum(-1).max()) for word in words}
    found = least_attended_word(trace, run.tokenizers)
    assert found is not None
    places, weight = found
    assert weight == near(min(looked.values()), dtype=np.float32)
    assert looked[tuple(places)] == near(weight, dtype=np.float32)
    assert least_attended_word(run_trace_of_short(run), run.tokenizers) is None


def run_trace_of_short(run: TrainedRun) -> Trace:
    """Of one word of at least four letters, beside which there is none to be looked at more."""
    return run_trace(load_weights(run, 20).model, run.tokenizers, "Where is it?", "¿Dónde?")
