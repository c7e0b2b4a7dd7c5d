"""What a researcher asks of a head, by Headwise."""

from pathlib import Path
from typing import Any


def load(folder: Path) -> Any:
    import headwise

    return headwise.open(folder)[-1]


def cross_attention(checkpoint: Any, source: str, target: str) -> Any:
    import torch

    names = "*.cross_attention.weights"
    return torch.cat([*checkpoint.run_with_cache(source, target, names=names).cache.values()])


def without_a_head(checkpoint: Any, source: str, target: str) -> Any:
    import headwise

    on = headwise.evaluate(checkpoint, [(source, target)], metrics=["loss"])
    off = headwise.evaluate(checkpoint, [(source, target)], ablated=["cross.2.4"], metrics=["loss"])
    return off["loss"] - on["loss"]


def gradient(checkpoint: Any, source: str, target: str) -> Any:
    import torch

    name = "encoder.embedding.tokens"
    logits, cache = checkpoint.run_with_cache(source, target, names=name, grad=True)
    token = cache.target_ids[0, 4]
    return torch.autograd.grad(logits[0, 3, token], cache[name])[0][0].norm(dim=-1)


def ranked(checkpoint: Any, source: str, target: str) -> Any:
    import headwise

    table = headwise.measure(checkpoint, [(source, target)], ours=["cost"])
    return table.set_index("head")["value"].sort_values(ascending=False).to_dict()
