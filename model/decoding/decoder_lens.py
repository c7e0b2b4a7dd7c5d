"""What the decoder writes when it reads an inner layer of the encoder: the DecoderLens.

Langedijk, Mohebbi, Sarti, Zuidema and Jumelet 2023, "DecoderLens: Layerwise Interpretation of
Encoder-Decoder Transformers". The output of each encoder layer, through the encoder's final norm
where it has one, takes the place of the memory, and the decoder decodes greedily from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import Edit, capture, edit
from headwise.model.interface import Seq2SeqModel
from headwise.model.masks import pad


@torch.inference_mode()
def decoder_lens(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    prefix: Sequence[int] | None = None,
) -> list[list[list[int]]]:
    """Decode a batch of sources from the encoder's embedding and from each of its layers.

    Args:
        model, sources, prefix: as for ``greedy``.

    Returns:
        For the embedding, and then for each layer, what ``greedy`` returns; from the last layer it
        is the model's own.

    Raises:
        ValueError: as ``greedy`` does.
    """
    layers = model.description.n_encoder_layers
    points = ["encoder.embedding.output", *(f"encoder.layers.{n}.output" for n in range(layers))]
    end = points[-1]
    if model.final_norm("source") is not None:
        end = "encoder.final_norm.before"
    with capture(model, points) as seen:
        model.encode(pad(sources).to(model.device))
    found = []
    for point in points:
        with edit(model, {end: _replace_by(seen[point][0])}):
            found.append(greedy(model, sources, prefix))
    return found


def _replace_by(stream: Tensor) -> Edit:
    return lambda _: stream
