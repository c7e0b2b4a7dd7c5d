"""Peers with our weights say what our model says, and decode what it decodes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from benchmarks.peers.torch_nn import TorchTransformer
from headwise.model.config import EOS, PAD
from headwise.model.decoding.greedy import greedy
from headwise.model.masks import PADDING
from headwise.model.transformer import Transformer
from tests.floats import assert_near
from tests.tiny import tiny_model

SIZE = {
    "target_vocab_size": 37,
    "n_heads": 2,
    "d_k": None,
    "norm": "post",
    "final_norm": False,
    "output_bias": True,
    "tied": "all",
    "dropout": 0.0,
}


@pytest.fixture
def ours() -> Transformer:
    return tiny_model(**SIZE).eval()


@pytest.fixture
def source() -> torch.Tensor:
    return torch.tensor([[9, 7, 31, 8, EOS], [5, 36, EOS, PADDING, PADDING]])


@pytest.fixture
def target() -> torch.Tensor:
    return torch.tensor([[2, 11, 30], [2, 6, 17]])


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@torch.inference_mode()
def test_torch_nn(ours: Transformer, source: torch.Tensor, target: torch.Tensor) -> None:
    ours.double()
    assert_near(TorchTransformer(ours).double()(source, target), ours(source, target))


@torch.inference_mode()
def test_marian(ours: Transformer, source: torch.Tensor, target: torch.Tensor) -> None:
    pytest.importorskip("transformers")
    from benchmarks.peers.marian import marian_of

    logits = (
        marian_of(ours.double())
        .double()(
            input_ids=source.clamp(min=0),
            attention_mask=(source != PADDING).long(),
            decoder_input_ids=target,
        )
        .logits
    )
    # All is float64 but the positions, which the two round to float32 in different places.
    assert_near(logits, ours(source, target), dtype=torch.float32, operations=4)


def test_ctranslate2(ours: Transformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process begins with the main program, which Streamlit's own tests leave replaced.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    from benchmarks.peers.ctranslate2 import convert, translator
    from benchmarks.peers.marian import marian_of

    with torch.no_grad():
        ours.unembedding.bias[[PAD, 2, EOS]] = -1e4
    sentence = [9, 7, 31, 8, EOS]
    convert(marian_of(ours), tmp_path / "model")
    expected = greedy(ours, [sentence])
    with translator(tmp_path / "model", threads=1) as translate:
        assert translate([sentence], len(expected[0]) - 1) == expected
