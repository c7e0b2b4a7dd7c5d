"""The largest numbers of the stream over a corpus, which grow as massive activations form.

``B`` batch, ``n`` positions, ``D`` = d_model. ``trace.stream_sizes`` has source and definition.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import torch

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Kind, Seq2SeqModel, Stack
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.trace.stream_sizes import largest_numbers

_KIND_OF: Mapping[Stack, Kind] = {"encoder": "encoder_self", "decoder": "decoder_self"}


@torch.inference_mode()
def largest_ratios(model: Seq2SeqModel, ids: PaddedIds) -> dict[str, list[float]]:
    """Return the largest |x| over the median |x| of each of B sentences, by stack.
    The targets are forced. It is that of the layer, the embedding among them, where it is largest;
    padding does not count. The names are those of ``STREAM_SIZES``."""
    points = {
        stack: [
            f"{stack}.embedding.output",
            *(f"{stack}.layers.{i}.output" for i in range(model.description.layers(kind))),
        ]
        for stack, kind in _KIND_OF.items()
    }
    with capture(model, [point for of_stack in points.values() for point in of_stack]) as seen:
        forced_stream(model, ids.source, ids.target[:, :-1])
    there = {"encoder": ids.is_source, "decoder": ids.is_predicted}
    found = {}
    for stack, of_stack in points.items():
        streams = torch.stack([seen[point][0] for point in of_stack], dim=1).float().cpu().numpy()
        rows = zip(streams, there[stack].cpu().numpy(), strict=True)  # (L + 1, n, D), (n,)
        found[f"largest_{stack}"] = [_largest(stream[:, kept]) for stream, kept in rows]
    return found


def _largest(stream: np.ndarray) -> float:
    with warnings.catch_warnings():  # of a stream of zeros only
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.nanmax(largest_numbers(stream).ratios))
