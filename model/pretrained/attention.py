"""One attention function for all Hugging Face models, with our hook points inside.

It is registered with ``transformers`` under the name ``ATTENTION``, together with a function that
makes its masks: without one of its own it would be given none, and the decoder would see the
future. ``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``K`` = d_k.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from headwise.model.hooks import HookPoint
from headwise.model.stream import capped

ATTENTION = "headwise"
"""The name of the attention function in ``transformers``; models are loaded with it."""


class AttentionPoints(nn.Module):
    """The hook points of one attention, as in ``headwise.model.attention.MultiHeadAttention``.

    ``bias``, only of models with relative positions, is what is added to the scaled scores:
    (1, H, Q, M). ``scores`` are those after the addition and, where a model caps them, after that;
    before it they are ``uncapped``.
    """

    def __init__(self, *, relative: bool, capped: bool = False) -> None:
        super().__init__()
        self.query = HookPoint()
        self.key = HookPoint()
        self.value = HookPoint()
        if relative:
            self.bias = HookPoint()
        if capped:
            self.uncapped = HookPoint()
        self.scores = HookPoint()
        self.weights = HookPoint()
        self.heads = HookPoint()
        self.output = HookPoint()

    def need_steps(self, *, is_half: bool) -> bool:
        """Return whether something is looked at or replaced that fused attention does not have."""
        used = [self.scores, self.weights]
        if is_half:
            used += [self.query, self.heads, self.output]
        return any(point.in_use for point in used)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    dropout: float = 0.0,
    use_cache: bool | None = None,
    position_ids: Tensor | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    source_length: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute attention as equation 1, or fused where scores and weights are not in use.

    ``query`` is (B, H, Q, K), ``key`` and ``value`` are (B, H, M, K), with those of the cache and
    with their positions, so that ``use_cache`` and ``position_ids`` say nothing of the result. They
    may have fewer heads, each for as many queries' heads that follow each other: at the hook points
    every head has its own. ``sliding_window`` is in the mask already.
    Of an attention that reads target and source, the last ``source_length`` keys are the source's.
    It has hook points for both halves: weights of a row sum to 1 over the two together, and heads
    are those of each half.
    ``attention_mask`` is boolean, (B, 1, Q, M), True = may attend; None allows all. ``scaling`` is
    the factor of the scores, 1/√K by default; ``position_bias`` is added to them, (1, H, Q, M);
    ``softcap`` is the c of a cap, c tanh(score / c). ``others`` are what only some families pass;
    all must be None.

    Returns:
        Weighted values (B, Q, H, K), and None in place of weights: these are at the hook points of
        the calling ``module``. Where one of two halves is looked at, (B, Q, 2, H, K): each by
        itself, for ``_pass_halves`` of ``points.py``.

    Raises:
        ValueError: for something that would change the result and is not computed here.
    """
    asked = {"dropout": dropout or None, **others}
    if unknown := [f"{name}={value}" for name, value in asked.items() if value is not None]:
        raise ValueError(
            "expected attention as softmax(scale · q kᵀ + bias + mask) v, got "
            f"{', '.join(unknown)}: this model cannot be shown truthfully; open one without that"
        )
    halves: Any = module.hook_points
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    lengths = [key.shape[2] - (source_length or 0), source_length][: len(halves)]
    queries = [points.query(query) for points in halves]
    keys = [points.key(x) for points, x in zip(halves, key.split(lengths, dim=2), strict=True)]
    values = [
        points.value(x) for points, x in zip(halves, value.split(lengths, dim=2), strict=True)
    ]
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    if hasattr(halves[0], "bias") and position_bias is not None:
        position_bias = halves[0].bias(position_bias)
    if softcap is not None or any(points.need_steps(is_half=len(halves) > 1) for points in halves):
        scores = []
        for points, of_queries, of_keys in zip(halves, queries, keys, strict=True):
            products = of_queries @ of_keys.transpose(-2, -1) * scale
            if position_bias is not None:
                products = products + position_bias
            if softcap is not None:
                products = capped(points.uncapped(products), softcap)
            scores.append(points.scores(products))  # (B, H, Q, M)
        allowed = _joined(scores, dim=-1)
        if attention_mask is not None:
            allowed = allowed.masked_fill(~attention_mask, -math.inf)
        precision = torch.promote_types(allowed.dtype, torch.float32)
        weights = allowed.softmax(dim=-1, dtype=precision).split(lengths, dim=-1)
        heads = [
            points.heads(points.weights(of_keys).to(x.dtype) @ x)
            for points, of_keys, x in zip(halves, weights, values, strict=True)
        ]
    else:
        if position_bias is not None and attention_mask is not None:
            position_bias = position_bias.masked_fill(~attention_mask, -math.inf)
        fused = F.scaled_dot_product_attention(
            queries[0],
            _joined(keys, dim=2),
            _joined(values, dim=2),
            attn_mask=attention_mask if position_bias is None else position_bias,
            scale=scale,
        )
        heads = [halves[0].heads(fused)]
    each = [x.transpose(1, 2) for x in heads]  # (B, Q, H, K)
    return each[0] if len(each) == 1 else torch.stack(each, dim=2), None


def _joined(halves: list[Tensor], dim: int) -> Tensor:
    """Join two halves; a whole is not copied."""
    return halves[0] if len(halves) == 1 else torch.cat(halves, dim=dim)


def _make_mask(*, q_length: int, **settings: Any) -> Tensor | None:
    """Make a boolean mask (B, 1, Q, M); None only for a single query, which sees all keys.

    ``transformers`` may leave out a causal mask that its own attention function knows to apply.
    """
    settings["allow_is_causal_skip"] &= q_length == 1
    return sdpa_mask(q_length=q_length, **settings)


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, _make_mask)
