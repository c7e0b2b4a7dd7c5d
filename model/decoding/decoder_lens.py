"""What the decoder writes when it reads an inner layer of the encoder: the DecoderLens.

Langedijk, Mohebbi, Sarti, Zuidema and Jumelet 2023, "DecoderLens: Layerwise Interpretation of
Encoder-Decoder Transformers". The output of each encoder layer, through the encoder's final norm
where it has one, takes the place of the memory, and the decoder decodes greedily from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture, edit
from headwise.model.interface import Seq2SeqModel
from headwise.model.masks import pad


@torch.inference_mode()
def decoder_lens(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    layer: int,
    prefix: Sequence[int] | None = None,
) -> list[list[int]]:
    """Decode a batch of sources from a layer of the encoder.

    Args:
        model, sources, prefix: as for ``greedy``.
        layer: how many layers there are below, 0 for the embedding.

    Returns:
        What ``greedy`` returns; from the last layer it is the model's own.

    Raises:
        ValueError: as ``greedy`` does.
    """
    last = model.description.n_encoder_layers
    point, end = (
        "encoder.embedding.output" if n == 0 else f"encoder.layers.{n - 1}.output"
        for n in (layer, last)
    )
    if model.final_norm("source") is not None:
        end = "encoder.final_norm.before"
    with capture(model, [point]) as seen:
        model.encode(pad(sources).to(model.device))
    with edit(model, {end: lambda _: seen[point][0]}):
        return greedy(model, sources, prefix)
