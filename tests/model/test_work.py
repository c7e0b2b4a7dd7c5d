"""Multiply-adds as counted from shapes, beside those that PyTorch counts in a pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headwise.model.interventions import decoding_work, encoding_work
from headwise.model.transformer import Transformer
from tests.model.pretrained.tiny import build


@pytest.mark.parametrize("name", ["ours", "uneven", "marian", "t5_1_1"])
def test_multiply_adds_are_those_that_pytorch_counts(
    name: str, make_model: Callable[..., Transformer]
) -> None:
    """It does not count what PyTorch's fused attention does on a processor, so that is not used."""
    model = {
        "ours": lambda: make_model(),
        "uneven": lambda: make_model(n_encoder_layers=3, d_k=5, d_ff=23),
    }.get(name, lambda: build(name).ours)()
    source, target = torch.tensor([[4, 5, 6, 7, 8, 9, 2]]), torch.tensor([[1, 4, 5, 6, 7]])
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), counter:
        memory, mask = model.encode(source)
        encoding = counter.get_total_flops() // 2
        model.decode(target, memory, mask)
        both = counter.get_total_flops() // 2
    expected = encoding_work(model.description, 7), decoding_work(model.description, 7, 5)
    assert (encoding, both - encoding) == pytest.approx(expected, rel=0.02)
