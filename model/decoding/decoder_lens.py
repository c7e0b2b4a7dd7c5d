"""What the decoder writes when it reads an inner layer of the encoder: the DecoderLens."""

from __future__ import annotations

import torch

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture, edit
from headwise.model.interface import Ids, Rows, Seq2SeqModel
from headwise.model.masks import pad


@torch.inference_mode()
def decoder_lens(
    model: Seq2SeqModel, sources: Rows, layer: int, prefix: Ids | None = None
) -> list[list[int]]:
    """Decode a batch of sources from a layer of the encoder, as ``greedy`` does from the last.

    ``layer`` is how many layers there are below, 0 for the embedding. The layer's output, through
    the encoder's final norm where it has one, takes the place of the memory. (Langedijk, Mohebbi,
    Sarti, Zuidema and Jumelet 2023, "DecoderLens: Layerwise Interpretation of Encoder-Decoder
    Transformers".)
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
