from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise.model.interface import KINDS
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.trace.attention import (
    next_log_probability,
    run_attention,
    target_log_probability,
)
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near

TEXT = "Don't worry, she sees him."
ONCE: dict[str, Any] = {"dtype": np.float32, "operations": 1}
"""What was computed in float64 and rounded to float32, as all that is recorded is."""


def test_attention_trace_matches_the_trace(precise: Transformer, tokenizers: TokenizerPair) -> None:
    target = tokenizers.encode_target("No te preocupes, ella lo ve.")
    trace = run_trace(precise, tokenizers, TEXT, target)
    lean = run_attention(precise, trace.source.ids, target)
    assert tuple(lean.attention) == KINDS
    for kind in KINDS:
        assert lean.attention[kind].shape == trace.attention[kind].shape
        assert_near(lean.attention[kind], trace.attention[kind], **ONCE)
        assert not lean.attention[kind].flags.writeable
    expected = trace.predictions.log_probability
    assert_near(lean.log_probability, expected, **ONCE)


def test_log_probabilities_match_without_capture(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    source = tokenizers.encode_source(TEXT)
    target = tokenizers.encode_target("Ella lo ve.")
    expected = run_attention(precise, source, target).log_probability
    found = target_log_probability(precise, source, target)
    assert found.shape == (len(target) - 1,)
    assert_near(found, expected, **ONCE)


def test_target_of_start_token_only_is_refused(
    trained: Transformer, tokenizers: TokenizerPair
) -> None:
    with pytest.raises(ValueError, match=r"^target: expected <s> and at least one token, got 1"):
        run_attention(trained, tokenizers.encode_source(TEXT), [2])


def test_the_next_token_has_the_probability_that_the_pass_gives_it(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    source = tokenizers.encode_source(TEXT)
    target = tokenizers.encode_target("Ella lo ve.")
    expected = target_log_probability(precise, source, target)
    for at in (0, len(target) - 2):
        found = next_log_probability(precise, source, target[: at + 1])
        size = np.abs(found).max()
        assert np.exp(found).sum() == near(1, dtype=np.float32, size=size)
        assert found[target[at + 1]] == near(expected[at], size=size)
