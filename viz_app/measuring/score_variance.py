"""How much of a head's choice is by position, and how much by token, over a batch.

A softmax sees only differences within a row of scores. Queries and keys are sums over what was
written into the stream (``core/circuits.py`` takes one row apart with all its parts). Of a row of
scores s_ij, a term t_ij = scale · a_i · c_j, made by a part of the query and a part of the keys,
explains cov_j(t_ij, s_ij) / var_j(s_ij) over the keys that the query may attend to. Shares of all
terms sum to 1; one may be below 0 or above 1 where terms cancel. Covariances and variances are
summed over rows before they are divided, so that a row in which a head hardly distinguishes keys
weighs little. (Scores taken apart: Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits". A variance split by covariances with the sum: Pratt 1987, "Dividing the indivisible".)

Only tokens and positions are followed, from the embedding on, through norms whose divisors are held
(``model/stream.py``). What layers wrote, and biases, is the rest.

``B`` batch, ``n`` positions, ``D`` = d_model, ``H`` heads, ``Q`` and ``M`` queries and keys, ``K``
= d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.model.hooks import hook_names
from headwise.model.interface import KINDS, Kind, NormParameters, Seq2SeqModel, Side, Stack
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, sublayers
from headwise.model.stream import HeldNorm, normed_for_each_head, turned_by_position
from headwise.viz_app.core.batches import PaddedIds, captured
from headwise.viz_app.measuring.heads import HeadSum, rows_with_several_keys

_POINTS = (
    "attention.scores",
    "attention.uncapped",
    "attention.bias",
    "norm.before",
    "norm.after",
    "embedding.tokens",
    "embedding.positions",
)
Parts = Mapping[str, Tensor]  # ``token`` and, if embedded, ``position`` in a stream: (B, n, D)


@torch.inference_mode()
def score_variance(model: Seq2SeqModel, ids: PaddedIds) -> dict[tuple[str, Kind], HeadSum]:
    """Sum covariances of terms with scores over variances, by measure and kind: (B, L H).

    The measures are ``by_position``, in which what relative positions add to scores counts too,
    ``by_token``, and ``by_both``, the products of a token with a position. A model that adds no
    positions to its embeddings has no ``by_both``, and ``by_position`` only where it adds relative
    ones to the scores. Rows with only one allowed key do not count.
    """
    seen = _seen(model, ids)
    found: dict[tuple[str, Kind], list[HeadSum]] = {}
    memory: Parts = {}
    stacks: tuple[Stack, ...] = ("encoder", "decoder")
    for stack in stacks:
        stream = _FollowedStream(model, seen, stack)
        for sublayer in sublayers(model, stack):
            if sublayer.kind is not None:
                read = stream.enter(sublayer)
                keys = memory if sublayer.kind == "cross" else read
                allowed = ids.allowed(sublayer.kind)
                terms = _terms(model, seen, sublayer, read, keys, allowed)
                for name, of_layer in terms.items():
                    found.setdefault((name, sublayer.kind), []).append(of_layer)
            stream.leave(sublayer)
        memory = stream.end()
    return {
        of: HeadSum(
            torch.cat([layer.total for layer in layers], dim=1),
            torch.cat([layer.count for layer in layers], dim=1),
        )
        for of, layers in found.items()
    }


def _seen(model: Seq2SeqModel, ids: PaddedIds) -> dict[str, Tensor]:
    wanted = [name for name in hook_names(model) if name.endswith(_POINTS)]
    if {model.description.of(kind).norm for kind in KINDS} == {"pre"}:
        # What is not on the way to any attention.
        wanted = [name for name in wanted if "feed_forward" not in name]
    found = captured(model, ids, wanted)
    return {name: in_float32(tensors[0]) for name, tensors in found.items() if tensors}


@dataclass
class _FollowedStream:
    """Tokens and positions in the stream of a stack, as far as it has been followed."""

    model: Seq2SeqModel
    seen: Mapping[str, Tensor]
    stack: Stack

    def __post_init__(self) -> None:
        path = f"{self.stack}.embedding"
        self._side: Side = "source" if self.stack == "encoder" else "target"
        self._pre = self.model.description.of(self.stack).norm == "pre"
        names = {"token": f"{path}.tokens", "position": f"{path}.positions"}
        parts = {name: self.seen[point] for name, point in names.items() if point in self.seen}
        self.parts = self._normed(f"{path}.norm", self.model.embedding_norm(self._side), parts)

    def enter(self, sublayer: Sublayer) -> Parts:
        """Return what a sublayer is given of the parts."""
        return self._through(sublayer) if self._pre else self.parts

    def leave(self, sublayer: Sublayer) -> None:
        """Go on behind a sublayer."""
        if not self._pre:
            self.parts = self._through(sublayer)

    def end(self) -> Parts:
        """Return what the stack gives out of the parts."""
        norm = self.model.final_norm(self._side)
        return self._normed(f"{self.stack}.final_norm", norm, self.parts)

    def _through(self, sublayer: Sublayer) -> Parts:
        norm = self.model.norm(sublayer.path)
        return self._normed(f"{sublayer.path}_residual.norm", norm, self.parts)

    def _normed(self, path: str, norm: NormParameters | None, parts: Parts) -> Parts:
        if norm is None:
            return parts
        bias = None if norm.bias is None else in_float32(norm.bias)
        norm = norm._replace(gain=in_float32(norm.gain), bias=bias)
        before, after = self.seen[f"{path}.before"], self.seen[f"{path}.after"]
        held = HeldNorm.seen(self.model, norm, before, after)
        return {name: held(part) for name, part in parts.items()}


def _terms(
    model: Seq2SeqModel,
    seen: Mapping[str, Tensor],
    attention: Sublayer,
    read: Parts,
    keys: Parts,
    allowed: Tensor,
) -> dict[str, HeadSum]:
    """Return the sums of a layer's heads by measure, (B, H)."""
    uncapped = seen.get(f"{attention.path}.uncapped")  # a table of parts is before a cap
    scores = seen[f"{attention.path}.scores"] if uncapped is None else uncapped  # (B, H, Q, M)
    heads = scores.shape[1]
    several = allowed & rows_with_several_keys(allowed)[..., None]  # (B, Q, M)
    count = several.sum(dim=-1).clamp(min=1)[:, None, :, None]  # (B, 1, Q, 1)
    scores = scores.masked_fill(~several[:, None], 0.0)
    apart = scores - scores.sum(dim=-1, keepdim=True) / count
    apart = apart.masked_fill(~several[:, None], 0.0) / count
    variance = (apart * scores).sum(dim=(-2, -1)).double()  # (B, H)

    def projected(parts: Parts, name: str) -> Parts:
        path = f"{attention.path}.{name}_projection"
        weight = in_float32(model.linear(path).weight)

        def for_heads(x: Tensor) -> Tensor:  # (B, H, ·, K)
            return (x @ weight).unflatten(-1, (heads, -1)).transpose(1, 2)

        made: Parts = {part: for_heads(x) for part, x in parts.items()}
        if model.head_norm(path) is not None:  # only models with norms before sublayers have one
            of_memory = attention.kind == "cross" and name == "key"
            norm = "encoder.final_norm" if of_memory else f"{attention.path}_residual.norm"
            whole = for_heads(seen[f"{norm}.after"])
            made = normed_for_each_head(model, path, whole, made)
        rotation = model.rotation(path, made["token"].shape[-2])
        if rotation is None:
            return made
        return {part: turned_by_position(x, rotation) for part, x in made.items()}

    queries = projected(read, "query")
    towards = {name: apart @ key for name, key in projected(keys, "key").items()}  # (B, H, Q, K)
    scale = model.description.of(attention.stack).score_scale(towards["token"].shape[-1])

    def term(query: str, key: str) -> Tensor:
        return (queries[query] * towards[key]).sum(dim=(-2, -1)).double() * scale

    terms = {"by_token": term("token", "token")}
    if "position" in queries and "position" in towards:
        terms["by_position"] = term("position", "position")
        terms["by_both"] = term("token", "position") + term("position", "token")
    relative = seen.get(f"{attention.path}.bias")
    if relative is not None:
        added = (apart * relative).sum(dim=(-2, -1)).double()
        terms["by_position"] = terms.get("by_position", 0.0) + added
    return {name: HeadSum(covariance, variance) for name, covariance in terms.items()}
