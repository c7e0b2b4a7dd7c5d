"""Where heads look: in one sentence, and if rows are even, which is counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.even import even_head, measure_sentence
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near


def test_even_head_has_the_mean_of_even_rows(run: TrainedRun, sentences: list[EncodedPair]) -> None:
    found = even_head(run.tokenizers, run.counts, sentences)
    steps = [len(sentence.target) - 1 for sentence in sentences]
    # Row i of the decoder has i + 1 keys, <s> and its own among them; the first has no choice.
    own = [1 / (row + 1) for count in steps for row in range(1, count)]
    assert found["begin"]["decoder_self"] == near(np.mean(own))
    assert found["same"]["decoder_self"] == near(np.mean(own))
    across = [
        1 / len(e.source) for e, count in zip(sentences, steps, strict=True) for _ in range(count)
    ]
    assert found["end"]["cross"] == near(np.mean(across))
    assert found["confidence"]["cross"] == near(np.mean(across))
    assert found["entropy"]["encoder_self"] == pytest.approx(1)
    assert run.counts is not None
    rarest = []
    for each, count in zip(sentences, steps, strict=True):
        occurrences = [run.counts.source[id] for id in each.source[:-1]]  # without </s>
        if len(occurrences) > 1:
            rarest += [occurrences.count(min(occurrences)) / len(each.source)] * count
    assert found["rare"]["cross"] == near(np.mean(rarest))


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
