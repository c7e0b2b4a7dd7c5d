"""Find our parameters in state dicts of other implementations, by the names of their tensors.

``V`` vocabulary size, ``D`` = d_model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mode
from typing import Literal

import torch
from torch import Tensor

from headwise.model.files import CheckpointError
from headwise.model.layers import sinusoidal_positions

LayoutName = Literal["annotated-transformer", "torch-nn"]

Places = dict[str, tuple[str, ...]]
"""Names of tensors in a file, and the parameters of ours that their rows become in equal parts."""


@dataclass(frozen=True)
class Layout:
    """The names of the parts of an implementation, below those of its encoder and decoder."""

    cross_attention: str
    projections: dict[str, tuple[str, ...]]
    """Names of the projections in an attention, up to weight or bias, and ours."""
    feed_forward: tuple[str, str]
    norm: str
    """The norm of a sublayer, with {} for the number of the sublayer in its layer."""
    first_norm: int
    norm_parameters: tuple[str, str]
    """Gain and bias of a norm."""
    always_final_norm: bool
    """Whether each stack must have a norm at its end, or may have none."""
    norm_first: bool
    """Whether the norms are before the sublayers in every model of this implementation."""
    unbiased_norm: bool
    """Whether norms divide by the unbiased standard deviation."""


LAYOUTS: dict[LayoutName, Layout] = {
    "annotated-transformer": Layout(
        cross_attention="src_attn",
        projections={
            f"linears.{number}.": (name,)
            for number, name in enumerate(("query", "key", "value", "output"))
        },
        feed_forward=("feed_forward.w_1", "feed_forward.w_2"),
        norm="sublayer.{}.norm",
        first_norm=0,
        norm_parameters=("a_2", "b_2"),
        always_final_norm=True,
        norm_first=True,
        unbiased_norm=True,
    ),
    "torch-nn": Layout(
        cross_attention="multihead_attn",
        projections={"in_proj_": ("query", "key", "value"), "out_proj.": ("output",)},
        feed_forward=("linear1", "linear2"),
        norm="norm{}",
        first_norm=1,
        norm_parameters=("weight", "bias"),
        always_final_norm=False,
        norm_first=False,
        unbiased_norm=False,
    ),
}


# --- finding the parts ---------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Stack:
    """An encoder or a decoder in a state dict."""

    prefix: str
    layers: int


def find_stacks(path: Path, state: Mapping[str, Tensor], layout: Layout) -> tuple[Stack, Stack]:
    """Find the encoder and the decoder by the names of their attentions; there must be one each."""
    with_self = _numbered(state, "self_attn")
    with_cross = _numbered(state, layout.cross_attention)
    encoders, decoders = sorted(set(with_self) - set(with_cross)), sorted(with_cross)
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            f"{path}: expected the layers of one encoder, such as encoder.layers.0.self_attn, and "
            f"of one decoder, such as decoder.layers.0.{layout.cross_attention}; got encoders "
            f"{encoders} and decoders {decoders}; is --layout right?"
        )
    encoder, decoder = encoders[0], decoders[0]
    return (
        Stack(encoder, max(with_self[encoder]) + 1),
        Stack(decoder, max(with_self.get(decoder, {0}) | with_cross[decoder]) + 1),
    )


def _numbered(state: Mapping[str, Tensor], attention: str) -> dict[str, set[int]]:
    """Map what stands before layers.0.self_attn and the like to the numbers of the layers."""
    found: dict[str, set[int]] = {}
    for name in state:
        if match := re.match(rf"(|.*?\.)layers\.(\d{{1,3}})\.{attention}\.", name):
            found.setdefault(match[1], set()).add(int(match[2]))
    return found


def widths(
    state: Mapping[str, Tensor], stacks: tuple[Stack, Stack], layout: Layout
) -> tuple[int, int]:
    """Return D and d_ff: the sizes that most of the tensors have."""
    inside = {name: t for name, t in state.items() if t.dim() and _inside(name, stacks)}
    hidden = [t.shape[0] for name, t in inside.items() if f".{layout.feed_forward[0]}." in name]
    return mode(t.shape[-1] for t in inside.values()), mode(hidden or [1])


def _inside(name: str, stacks: tuple[Stack, Stack]) -> bool:
    return any(name.startswith((f"{s.prefix}layers.", f"{s.prefix}norm.")) for s in stacks)


def positions_in(
    state: Mapping[str, Tensor], stacks: tuple[Stack, Stack], d_model: int
) -> dict[str, int]:
    """Return the tables of sinusoidal positions and how many positions each has."""
    found = {}
    for name, table in state.items():
        if _inside(name, stacks) or not table.dim() or table.shape[-1] != d_model or d_model % 2:
            continue
        length = max(table.shape[:-1], default=0)
        if (
            length
            and table.numel() == length * d_model
            and torch.allclose(
                table.reshape(length, d_model),
                sinusoidal_positions(length, d_model),
                rtol=0,
                atol=2e-3,  # float32 computes the angles of late positions this far apart
            )
        ):
            found[name] = length
    return found


def find_parts(
    path: Path, state: Mapping[str, Tensor], stacks: tuple[Stack, Stack], given: Parts
) -> Parts:
    """Find embeddings and generator by their names, unless they are given."""
    outside = [name for name in state if state[name].dim() == 2 and not _inside(name, stacks)]
    matrices = [name for name in outside if not re.search(r"(?i)pos|\bpe\b", name)]
    embeddings = [name for name in matrices if re.search("(?i)emb|lut|tok", name)]
    sources = [name for name in embeddings if re.search("(?i)src|source|enc", name)]
    targets = [name for name in embeddings if re.search("(?i)tgt|trg|target|dec", name)]
    if not sources and not targets:  # one for both languages
        sources = targets = embeddings
    outputs = [name for name in matrices if name not in embeddings]

    def one(option: str, chosen: str, candidates: list[str], example: str) -> str:
        if chosen and (chosen not in state or state[chosen].dim() != 2):
            raise CheckpointError(
                f"{path}: --{option}: expected the name of a matrix (V, D), got {chosen!r}; there "
                f"are {', '.join(matrices) or 'none'}"
            )
        if not chosen and len(candidates) != 1:
            raise CheckpointError(
                f"{path}: {option}: expected one matrix (V, D) with a name such as {example}, got "
                f"{', '.join(candidates) or 'none'} of {', '.join(matrices) or 'no matrices'}; "
                f"name it by --{option}"
            )
        return chosen or candidates[0]

    return Parts(
        one("source-embedding", given.source_embedding, sources, "src_embed.weight"),
        one("target-embedding", given.target_embedding, targets, "tgt_embed.weight"),
        one("generator", given.generator, outputs, "generator.weight"),
    )


# --- our parameters in them ----------------------------------------------------------------------


def places_of(
    state: Mapping[str, Tensor], stacks: tuple[Stack, Stack], layout: Layout
) -> tuple[Places, bool, bool]:
    """Return where the parameters of the layers and final norms are, and whether it has these.

    The first flag is of biases, the second of final norms.
    """
    endings = ("bias", layout.norm_parameters[1])
    bias = any(name.endswith(endings) and _inside(name, stacks) for name in state)
    final_norm = layout.always_final_norm or any(
        name.startswith(f"{stack.prefix}norm.") for stack in stacks for name in state
    )
    places: Places = {}
    for stack, ours in zip(stacks, ("encoder", "decoder"), strict=True):
        layer = _layer(layout, is_decoder=ours == "decoder")
        for index in range(stack.layers):
            places |= {
                f"{stack.prefix}layers.{index}.{theirs}": tuple(
                    f"{ours}.layers.{index}.{name}" for name in names
                )
                for theirs, names in layer.items()
            }
        if final_norm:
            places |= _norm(layout, f"{stack.prefix}norm", f"{ours}.final_norm.norm")
    if not bias:
        places = {name: ours for name, ours in places.items() if not ours[0].endswith("bias")}
    return places, bias, final_norm


def _layer(layout: Layout, *, is_decoder: bool) -> Places:
    attentions = {"self_attn": "self_attention"}
    if is_decoder:
        attentions[layout.cross_attention] = "cross_attention"
    modules: Places = {
        f"{theirs}.{part}": tuple(f"{ours}.{name}_projection." for name in names)
        for theirs, ours in attentions.items()
        for part, names in layout.projections.items()
    }
    for theirs, ours in zip(layout.feed_forward, ("expand", "contract"), strict=True):
        modules[f"{theirs}."] = (f"feed_forward.{ours}.",)
    places = {
        f"{theirs}{kind}": tuple(f"{name}{kind}" for name in ours)
        for theirs, ours in modules.items()
        for kind in ("weight", "bias")
    }
    for number, ours in enumerate([*attentions.values(), "feed_forward"], layout.first_norm):
        places |= _norm(layout, layout.norm.format(number), f"{ours}_residual.norm.norm")
    return places


def _norm(layout: Layout, theirs: str, ours: str) -> Places:
    gain, bias = layout.norm_parameters
    return {f"{theirs}.{gain}": (f"{ours}.weight",), f"{theirs}.{bias}": (f"{ours}.bias",)}
