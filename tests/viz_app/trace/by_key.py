"""What attention adds to the output for each key, by running the model with that key alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.model.hooks import capture, edit
from headwise.model.interface import Kind, Seq2SeqModel, attention_path
from headwise.viz_app.records.trace import Floats, Trace


@torch.inference_mode()
def lengths_by_key(model: Seq2SeqModel, trace: Trace, kind: Kind, layer: int) -> Floats:
    """Lengths of what a layer adds to each query's output when one key keeps its weight: (Q, M)."""
    path = attention_path(kind, layer)
    source, consumed = (torch.tensor([tokens.ids]) for tokens in (trace.source, trace.consumed))

    def output(kept: Tensor) -> Tensor:
        changed = {f"{path}.weights": lambda weights: weights * kept}
        with edit(model, changed), capture(model, [f"{path}.output"]) as seen:
            model.decode(consumed, *model.encode(source))
        return seen[f"{path}.output"][0][0]  # (Q, D)

    keys = len(trace.keys_of(kind))
    bias = output(torch.zeros(keys))
    alone = [(output(key) - bias).norm(dim=-1).numpy() for key in torch.eye(keys)]
    return np.stack(alone, axis=-1)
