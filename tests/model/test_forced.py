from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model import forced
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.transformer import Transformer
from tests.floats import assert_near


@pytest.mark.parametrize("at_a_time", [1, 3, 1024])
@torch.inference_mode()
def test_log_probabilities_are_those_of_the_logits(
    make_model: Callable[..., Transformer],
    make_ids: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
    at_a_time: int,
) -> None:
    monkeypatch.setattr(forced, "_POSITIONS_AT_A_TIME", at_a_time)
    model = make_model().double()
    source, target = make_ids([5], 37), make_ids([8], 41)
    stream = forced_stream(model, source, target[:, :-1])[0]
    found = log_probabilities(model, stream, target[0, 1:])
    logits = model(source, target[:, :-1])[0]
    expected = [logits[t].softmax(dim=-1)[target[0, t + 1]].log() for t in range(7)]
    assert_near(found, torch.stack(expected))
