"""The chance level of shares, on sentences whose rows are counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.even import even_head
from tests.floats import near


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
