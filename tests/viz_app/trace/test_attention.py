from __future__ import annotations

import numpy as np
import pytest

from model.interface import KINDS
from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.trace.attention import (
    next_log_probability,
    run_attention,
    target_log_probability,
)
from viz_app.trace.sentence import run_trace

TEXT = "Don't worry, she sees him."


def test_attention_trace_matches_the_trace(trained: Transformer, tokenizers: TokenizerPair) -> None:
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


def test_log_probabilities_match_without_capture(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    source = tokenizers.encode_source(TEXT)
    target = tokenizers.encode_target("Ella lo ve.")
    expected = run_attention(trained, source, target).log_probability
    found = target_log_probability(trained, source, target)
    assert found.shape == (len(target) - 1,)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_target_of_start_token_only_is_refused(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    with pytest.raises(ValueError, match=r"^target: expected <s> and at least one token, got 1"):
        run_attention(trained, tokenizers.encode_source(TEXT), [2])


def test_the_next_token_has_the_probability_that_the_pass_gives_it(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    source = tokenizers.encode_source(TEXT)
    target = tokenizers.encode_target("Ella lo ve.")
    expected = target_log_probability(trained, source, target)
    for at in (0, len(target) - 2):
        found = next_log_probability(trained, source, target[: at + 1])
        assert np.exp(found).sum() == pytest.approx(1, abs=1e-5)
        assert found[target[at + 1]] == pytest.approx(expected[at], abs=1e-4)
