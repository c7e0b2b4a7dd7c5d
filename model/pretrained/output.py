"""What makes logits of what the last layer of the decoder of a Hugging Face model gives.

Some have a norm at the end of the decoder; BERT and RoBERTa have what their masked language models
have, a linear layer, an activation function and a norm (Devlin et al. 2019). Then follows the
unembedding. ``D`` = d_model, ``V`` vocabulary size.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.activations import ACT2FN

from headwise.model.interface import LinearParameters
from headwise.model.pretrained.families import Family
from headwise.model.pretrained.parameters import find, linear_parameters
from headwise.model.stream import capped


class Output:
    """The layers between the decoder's last layer and the logits."""

    def __init__(self, inner: Any, decoder: Any, family: Family) -> None:
        self._inner = inner
        self._unembedding: Any = inner.get_output_embeddings()
        self._width: int = decoder.get_input_embeddings().embedding_dim
        self.is_scaled = bool(getattr(decoder.config, family.scale_output, False))
        """Whether the decoder's output is multiplied by 1/√D."""
        self._cap: float | None = getattr(decoder.config, "final_logit_softcapping", None)
        self._end = find(decoder, family.final_norm)
        self._dense: Any = None
        if family.transform is not None:
            dense, norm, activation = family.transform
            self._dense, self._end = (inner.decoder.get_submodule(at) for at in (dense, norm))
            self._activation = ACT2FN[activation or decoder.config.hidden_act]

    @property
    def final_norm(self) -> nn.Module | None:
        """Return the last norm before the unembedding; None if there is none."""
        return self._end

    @property
    def has_transform(self) -> bool:
        """Return whether a linear layer and an activation function come before that norm."""
        return self._dense is not None

    @property
    def transform(self) -> LinearParameters:
        """Return the weights of that linear layer."""
        return linear_parameters(self._dense)

    @property
    def unembedding(self) -> LinearParameters:
        """Return the weights that give the logits: (D, V) and (V,)."""
        weight, own = linear_parameters(self._unembedding)
        biases = (own, *getattr(self._inner, "final_logits_bias", ()))
        given = [bias for bias in biases if bias is not None]
        return LinearParameters(weight, sum(given[1:], given[0]) if given else None)

    def is_tied_to(self, table: Tensor) -> bool:
        """Return whether the unembedding has the weights of a table of embeddings."""
        return self._unembedding.weight is table

    def transformed(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its module in ``transformers`` gives."""
        return self._end(self._activation(self._dense(stream))) if self.has_transform else stream

    def of_last_layer(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its last layer gives."""
        if self.has_transform or self._end is None:
            return self.transformed(stream)
        return self._end(stream)

    def logits(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of the decoder's output (…, D)."""
        if self.is_scaled:
            stream = stream * self._width**-0.5
        logits = self._unembedding(stream)
        if hasattr(self._inner, "final_logits_bias"):
            logits += self._inner.final_logits_bias[0]  # in place: logits may be large
        return capped(logits, self._cap)
