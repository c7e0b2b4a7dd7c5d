"""What ``transformers`` itself computes with the model and the tokenizer of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.model.interface import Head, Kind
from headwise.model.pretrained.folders import quiet


@dataclass(frozen=True)
class Eager:
    """A model with the eager implementation of attention, which can return its weights."""

    inner: Any
    tokenizer: Any

    @classmethod
    def open(cls, folder: Path) -> Eager:
        """Load the model and the tokenizer."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        with quiet():
            return cls(
                AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval(),
                AutoTokenizer.from_pretrained(folder),
            )

    def generate(self, source: Sequence[int], length: int, **settings: Any) -> list[int]:
        """Decode greedily; return the ids of the target, with what it starts with."""
        with torch.no_grad():
            [target] = self.inner.generate(
                torch.tensor([source]),
                num_beams=1,
                do_sample=False,
                max_new_tokens=length,
                **settings,
            )
        ids: list[int] = target.tolist()
        return ids

    def forward(self, source: Sequence[int], target: Sequence[int]) -> Any:
        """Return all outputs of one pass over the ids of a source and a target."""
        with torch.no_grad():
            return self.inner(
                input_ids=torch.tensor([source]),
                decoder_input_ids=torch.tensor([target[:-1]]),
                use_cache=False,
                output_attentions=True,
                output_hidden_states=True,
            )

    def attention(
        self, source: Sequence[int], target: Sequence[int], kind: Kind
    ) -> np.ndarray[Any, Any]:
        """Return the attention weights of a kind, (L, H, Q, M)."""
        names = {"encoder_self": "encoder", "decoder_self": "decoder", "cross": "cross"}
        maps = self.forward(source, target)[f"{names[kind]}_attentions"]
        weights: np.ndarray[Any, Any] = torch.cat(maps).numpy(force=True)
        return weights

    def log_probabilities(
        self, source: Sequence[int], target: Sequence[int]
    ) -> np.ndarray[Any, Any]:
        """Return the log-probability of each token of the target after its first, (T,)."""
        logits = self.forward(source, target).logits[0].log_softmax(dim=-1)
        rows = torch.arange(len(target) - 1)
        found: np.ndarray[Any, Any] = logits[rows, torch.tensor(target[1:])].numpy(force=True)
        return found

    def zero(self, head: Head) -> None:
        """Set the part of the output projection that reads a head to zero, for good."""
        kind, layer, number = head
        inner, across = self.inner, kind == "cross"
        stack = inner.get_encoder() if kind == "encoder_self" else inner.get_decoder()
        if hasattr(stack, "block"):  # T5
            sublayers = stack.block[layer].layer
            output = sublayers[1].EncDecAttention.o if across else sublayers[0].SelfAttention.o
        else:
            module = stack.layers[layer]
            output = (module.encoder_attn if across else module.self_attn).out_proj
        width = output.weight.shape[1] // self.attention([5], [5, 5], kind).shape[1]
        with torch.no_grad():
            output.weight[:, number * width : (number + 1) * width] = 0
