"""Find our parameters in state dicts of other implementations, by the names of their tensors.

``V`` vocabulary size, ``D`` = d_model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from headwise.model.files import CheckpointError
from headwise.model.layers import sinusoidal_positions

LayoutName = Literal["annotated-transformer", "torch-nn"]

LAYOUTS: dict[LayoutName, dict[str, str]] = {
    "annotated-transformer": {
        "query_projection": "linears.0",
        "key_projection": "linears.1",
        "value_projection": "linears.2",
        "output_projection": "linears.3",
        r"self_attention\.": "self_attn.",
        r"cross_attention\.": "src_attn.",
        r"feed_forward\.expand": "feed_forward.w_1",
        r"feed_forward\.contract": "feed_forward.w_2",
        r"self_attention_residual\.norm": "sublayer.0",
        r"cross_attention_residual\.norm": "sublayer.1",
        r"^(encoder.*)feed_forward_residual\.norm": r"\1sublayer.1",
        r"feed_forward_residual\.norm": "sublayer.2",
        r"final_norm\.": "",
        r"norm\.weight": "norm.a_2",
        r"norm\.bias": "norm.b_2",
    },
    "torch-nn": {
        r"(query|key|value)_projection\.": "in_proj_",
        "output_projection": "out_proj",
        r"self_attention\.": "self_attn.",
        r"cross_attention\.": "multihead_attn.",
        r"feed_forward\.expand": "linear1",
        r"feed_forward\.contract": "linear2",
        r"self_attention_residual\.norm\.norm": "norm1",
        r"cross_attention_residual\.norm\.norm": "norm2",
        r"^(encoder.*)feed_forward_residual\.norm\.norm": r"\1norm2",
        r"feed_forward_residual\.norm\.norm": "norm3",
        r"final_norm\.": "",
    },
}
"""Parts of our tensors' names, and what they are in each implementation, one after the other."""


def rename(ours: str, layout: LayoutName) -> str:
    """Return the name that a tensor of ours has, below encoder or decoder, in an implementation."""
    for part, theirs in LAYOUTS[layout].items():
        ours = re.sub(part, theirs, ours)
    return ours


def find_stacks(
    path: Path, state: Mapping[str, Tensor], layout: LayoutName
) -> dict[str, tuple[str, int]]:
    """Return for encoder and decoder what stands before their names, and how many layers they have.

    They are found by the names of their attentions; there must be one of each.
    """
    cross = rename("cross_attention.", layout)
    layers: dict[str, int] = {}
    decoders = set()
    for name in state:
        if match := re.match(rf"(|.*?\.)layers\.(\d{{1,3}})\.(self_attn\.|{cross})", name):
            layers[match[1]] = max(layers.get(match[1], 0), int(match[2]) + 1)
            decoders |= {match[1]} if match[3] == cross else set()
    encoders = layers.keys() - decoders
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            f"{path}: expected the layers of one encoder, such as encoder.layers.0.self_attn, and "
            f"of one decoder, such as decoder.layers.0.{cross[:-1]}; got encoders "
            f"{sorted(encoders)} and decoders {sorted(decoders)}; is --layout right?"
        )
    prefixes = zip(("encoder", "decoder"), (*encoders, *decoders), strict=True)
    return {stack: (prefix, layers[prefix]) for stack, prefix in prefixes}


@dataclass(frozen=True)
class Parts:
    """The names of three matrices in the file, where their names do not tell what they are."""

    source_embedding: str = ""
    """Embedding of source tokens."""
    target_embedding: str = ""
    """Embedding of target tokens."""
    generator: str = ""
    """Weights of the linear layer to the target vocabulary."""


FOUND_BY_NAME = Parts()


def find_parts(path: Path, state: Mapping[str, Tensor], given: Parts) -> Parts:
    """Find embeddings and generator outside the stacks by their names, unless they are given."""
    matrices = [n for n in state if state[n].dim() == 2 and not re.search(r"(?i)pos|\bpe\b", n)]
    embeddings = [name for name in matrices if re.search("(?i)emb|lut|tok", name)]
    sources = [name for name in embeddings if re.search("(?i)src|source|enc", name)]
    targets = [name for name in embeddings if re.search("(?i)tgt|trg|target|dec", name)]
    if not sources and not targets:  # one for both languages
        sources = targets = embeddings
    outputs = [name for name in matrices if name not in embeddings]

    names = {}
    by_name = {"source_embedding": sources, "target_embedding": targets, "generator": outputs}
    for part, candidates in by_name.items():
        found = [chosen] if (chosen := getattr(given, part)) else candidates
        if len(found) != 1 or found[0] not in state or state[found[0]].dim() != 2:
            option = part.replace("_", "-")
            raise CheckpointError(
                f"{path}: {option}: expected one matrix (V, D), got {', '.join(found) or 'none'}; "
                f"name it by --{option}; there are {', '.join(matrices) or 'none'}"
            )
        names[part] = found[0]
    return Parts(**names)


def positions_in(state: Mapping[str, Tensor], d_model: int) -> dict[str, int]:
    """Return the tables of sinusoidal positions and how many positions each has."""

    def are_sinusoids(rows: Tensor) -> bool:
        expected = sinusoidal_positions(len(rows), d_model)
        # (float32 computes the angles of late positions this far apart.)
        return torch.allclose(rows.float(), expected, rtol=0, atol=2e-3)

    return {
        name: table.numel() // d_model
        for name, table in state.items()
        if d_model % 2 == 0
        and table.shape[-1:] == (d_model,)
        and 0 < table.numel() == d_model * max(table.shape[:-1], default=0)
        and are_sinusoids((rows := table.reshape(-1, d_model))[:2])  # the others, too, only then
        and are_sinusoids(rows)
    }
