from __future__ import annotations

import numpy as np
import pytest

from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.attention_trace import run_attention, target_log_probability
from viz_app.records import KINDS
from viz_app.trace import run_trace

TEXT = "Don't worry, she sees him."


def test_maps_and_log_probabilities_are_those_of_a_trace(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    target = tokenizers.encode_target("No te preocupes, ella lo ve.")
    trace = run_trace(trained, tokenizers, TEXT, target)
    lean = run_attention(trained, trace.source.ids, target)
    assert tuple(lean.attention) == KINDS
    for kind in KINDS:
        assert lean.attention[kind].shape == trace.attention[kind].shape
        np.testing.assert_allclose(lean.attention[kind], trace.attention[kind], rtol=0, atol=1e-6)
        assert not lean.attention[kind].flags.writeable
    expected = trace.predictions.log_probability
    np.testing.assert_allclose(lean.log_probability, expected, rtol=0, atol=1e-5)


def test_log_probabilities_are_the_same_without_recording(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    source = tokenizers.encode_source(TEXT)
    target = tokenizers.encode_target("Ella lo ve.")
    expected = run_attention(trained, source, target).log_probability
    found = target_log_probability(trained, source, target)
    assert found.shape == (len(target) - 1,)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_target_needs_a_piece_after_its_beginning(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    with pytest.raises(ValueError, match=r"^target: expected <s> and at least one piece, got 1"):
        run_attention(trained, tokenizers.encode_source(TEXT), [2])
