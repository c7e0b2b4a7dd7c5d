"""Steering: a model is run with heads turned and rows pinned, as ``model/turned.py`` says.

A head is turned by a factor of its output before W_O. Michel et al. (2019) mask heads at the same
place, by the factors 0 and 1.

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from torch import Tensor

from headwise.model.hooks import Edit, edit
from headwise.model.interface import HeadLike, Kind, Seq2SeqModel, attention_path
from headwise.model.turned import PinnedRow, Turned

_FAR_BELOW = -1e4
"""A score so far below another that its weight is exactly 0, in every type of numbers."""


@contextmanager
def turn(model: Seq2SeqModel, turned: Turned) -> Iterator[None]:
    """Turn heads and pin rows while the calling thread runs the model, also in cached decoding.

    All sentences of a batch are turned alike. Where a row is pinned, attention is computed
    explicitly. A head that the model lacks is a ValueError at once, a key that a sentence lacks in
    the pass; a row that it lacks changes nothing.
    """
    model.description.require_heads(turned.heads)
    with ExitStack() as stack:
        for kind, layer in dict.fromkeys((head.kind, head.layer) for head in turned.heads):
            if strengths := turned.strengths_in(kind, layer):
                point = f"{attention_path(kind, layer)}.heads"
                stack.enter_context(edit(model, {point: _multiply_heads(strengths)}))
            if pinned := [pin for pin in turned.pinned if pin.head[:2] == (kind, layer)]:
                is_half = model.description.merged_attention and kind != "encoder_self"
                stack.enter_context(edit(model, _pin(kind, layer, pinned, is_half)))
        yield


@contextmanager
def ablate(model: Seq2SeqModel, heads: Iterable[HeadLike]) -> Iterator[None]:
    """Switch heads off, named as ``to_head`` reads: ``turn`` them to the strength 0."""
    with turn(model, Turned.off(heads)):
        yield


def _multiply_heads(strengths: Mapping[int, float]) -> Edit:
    """Make an edit that multiplies outputs of some heads, (B, H, Q, K), by their strengths."""

    def multiply(x: Tensor) -> Tensor:
        x = x.clone()
        for head, strength in strengths.items():
            if strength:
                x[:, head] *= strength
            else:
                x[:, head] = 0  # also what is not finite, and without a sign
        return x

    return multiply


class _Rows:
    """Finds the rows of given queries in an attention's tensors, (B, H, Q, M).

    With a cache these have only new rows: how many came before, only the keys of the decoder's
    self-attention tell, and tell cross-attention (``note``).
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._first = 0

    def note(self, weights: Tensor) -> Tensor:
        """Note, from the weights of the self-attention before, which row is the first."""
        self._first = weights.shape[-1] - weights.shape[-2]
        return weights

    def of(self, x: Tensor, pinned: Sequence[PinnedRow]) -> Iterator[tuple[PinnedRow, int]]:
        """Yield the pinned rows that a tensor has, and where."""
        queries, keys = x.shape[-2:]
        first = {"encoder_self": 0, "decoder_self": keys - queries, "cross": self._first}
        for pin in pinned:
            place = pin.row - first[self._kind]
            if 0 <= place < queries:
                if pin.last_key >= keys:
                    raise ValueError(
                        f"{pin.described}: expected one of {keys} keys, got {pin.last_key + 1}"
                    )
                yield pin, place


def _not_allowed(pin: PinnedRow, key: int) -> str:
    return (
        f"{pin.described}: expected a key that it may attend to, got {key + 1}; it is padding of "
        "a sentence"
    )


def _pin(kind: Kind, layer: int, pinned: Sequence[PinnedRow], is_half: bool) -> dict[str, Edit]:
    """Make the edits that pin rows of one attention, by hook points.

    A row of a half of a merged attention keeps the share of the weight that the half has, since
    the other half is not touched: its weights are set behind the softmax, over the keys that any
    head of the layer gives a weight above 0.

    A key is given a score far above all others, and the mean equal scores, so that the model's own
    mask says over which keys; weights that are given replace those of the softmax.
    """
    rows, path = _Rows(kind), attention_path(kind, layer)

    def edit_scores(scores: Tensor) -> Tensor:
        scores = scores.clone()
        for pin, place in rows.of(scores, pinned):
            if pin.onto is None:
                scores[:, pin.head.head, place] = 0
            elif isinstance(pin.onto, int):
                scores[:, pin.head.head, place] = _FAR_BELOW
                scores[:, pin.head.head, place, pin.onto] = 0
        return scores

    def edit_weights(weights: Tensor) -> Tensor:
        weights = weights.clone()
        for pin, place in rows.of(weights, pinned):
            row = weights[:, pin.head.head, place]  # (B, M), a view
            if isinstance(pin.onto, int) and not (row[:, pin.onto] == 1).all():
                raise ValueError(_not_allowed(pin, pin.onto))
            if isinstance(pin.onto, tuple):
                given = pin.onto[: row.shape[-1]]
                row[:] = 0
                row[:, : len(given)] = row.new_tensor(given)
        return weights

    def edit_half(weights: Tensor) -> Tensor:
        given, weights = weights, weights.clone()
        for pin, place in rows.of(weights, pinned):
            row = weights[:, pin.head.head, place]  # (B, M), a view
            allowed = (given[:, :, place] > 0).any(dim=1)
            if isinstance(pin.onto, int) and not allowed[:, pin.onto].all():
                raise ValueError(_not_allowed(pin, pin.onto))
            share = row.sum(dim=-1, keepdim=True)
            chosen = allowed.to(row) / allowed.sum(dim=-1, keepdim=True)
            if pin.onto is not None:
                onto = {pin.onto: 1.0} if isinstance(pin.onto, int) else dict(enumerate(pin.onto))
                chosen = row.new_tensor([onto.get(key, 0.0) for key in range(row.shape[-1])])
            row[:] = chosen * share
        return weights

    edits: dict[str, Edit] = {f"{path}.scores": edit_scores, f"{path}.weights": edit_weights}
    if is_half:
        edits = {f"{path}.weights": edit_half}
    if kind == "cross":
        edits[f"{attention_path('decoder_self', layer)}.weights"] = rows.note
    return edits
