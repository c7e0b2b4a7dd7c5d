"""A forced pass over texts or ids, with the tensors at hook points, perhaps with gradients.

``B`` batch, ``S`` source length, ``T`` target steps, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.model.budget import require_memory
from headwise.model.decoding.greedy import greedy
from headwise.model.estimates import pass_bytes
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, edit, matching_names
from headwise.model.interface import Rows, Seq2SeqModel, SpecialIds, Tokenizers
from headwise.model.masks import PADDING, pad

Texts = str | Sequence[str] | Rows | Tensor
"""A text, several, or ids: rows of a batch. Shorter rows of a tensor are filled up with ``PADDING``
of ``model/masks.py``, as those that a pass returns."""
_LEAVES = ("encoder.embedding.tokens", "decoder.embedding.tokens")


class PassTensors(dict[str, Tensor]):
    """The tensors of a pass by the names of their hook points, batch first, and the ids it read."""

    def __init__(
        self, tensors: Iterable[tuple[str, Tensor]], source_ids: Tensor, target_ids: Tensor
    ) -> None:
        super().__init__(tensors)
        self.source_ids = source_ids
        """(B, S), padded on the right with ``PADDING`` of ``model/masks.py``."""
        self.target_ids = target_ids
        """(B, T + 1), from the start token on, padded likewise."""

    def __missing__(self, name: str) -> Tensor:
        raise KeyError(f"no tensor {name!r} was recorded; there are {', '.join(self) or 'none'}")


class Pass(NamedTuple):
    """The logits of a pass, (B, T, V), and its tensors."""

    logits: Tensor
    cache: PassTensors


def run_with_cache(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    sources: Texts,
    targets: Texts | None = None,
    *,
    names: str | Iterable[str] = "*",
    grad: bool = False,
) -> Pass:
    """Run a model once on sources and given targets, and return logits and tensors.

    Row t of the logits predicts token t + 1 of ``cache.target_ids``; rows whose token there is
    padding mean nothing. Attention masks hide padding: a sentence has the same tensors alone as in
    a batch, up to rounding.

    With ``grad`` all that follows from the embedded tokens has gradients: ``cache[
    "encoder.embedding.tokens"]`` and that of the decoder are leaves, after any edits. The weights
    have none. ``torch.autograd.grad(logits[0, 3, 7], cache[name])`` is the derivative by a tensor.

    Args:
        model: the model, in evaluation mode.
        tokenizers: those of the model.
        sources: texts or ids.
        targets: texts or ids; None for the model's own translations, greedy.
        names: hook points, or patterns such as ``*.heads`` (``matching_names`` of ``hooks.py``).
        grad: whether to record what gradients need.

    Raises:
        ValueError: if there are more sources than targets or fewer, one is empty or too long, or
            no hook point has a name, or rows of a tensor are filled up with a token; or if the
            memory that is free has no room for the pass.
    """
    wanted = matching_names(model, [names] if isinstance(names, str) else list(names))
    recorded = [*dict.fromkeys((*wanted, *(_LEAVES if grad else ())))]
    special = model.special_ids
    source_rows = _rows(sources, tokenizers.encode_source, "source", special)

    def require(targets: Rows) -> None:
        if model.device.type == "cpu":
            source, target = (max(map(len, rows)) for rows in (source_rows, targets))
            rows, about = len(source_rows), model.description
            require_memory(pass_bytes(about, source, target, recorded, rows=rows, grad=grad))

    require([[special.start]])  # the sources alone may take too much
    target_rows = (
        greedy(model, source_rows, tokenizers.prefix)
        if targets is None
        else _rows(targets, tokenizers.encode_target, "target", special)
    )
    if len(source_rows) != len(target_rows):
        raise ValueError(
            f"expected a target for each source, got {len(source_rows)} and {len(target_rows)}"
        )
    require(target_rows)
    source, target = (pad(rows).to(model.device) for rows in (source_rows, target_rows))
    with _gradients(model, grad), capture(model, recorded) as seen:
        logits = model.unembed(forced_stream(model, source, target[:, :-1]))
    found = ((name, tensors[0]) for name, tensors in seen.items() if tensors)
    return Pass(logits, PassTensors(found, source, target))


@contextmanager
def _gradients(model: Seq2SeqModel, wanted: bool) -> Iterator[None]:
    """Record what gradients need from the embedded tokens on, or nothing."""
    if not wanted:
        with torch.no_grad():
            yield
        return
    leaves = dict.fromkeys(_LEAVES, lambda tokens: tokens.detach().requires_grad_())
    with torch.inference_mode(False), torch.enable_grad(), edit(model, leaves):
        yield


def _rows(
    given: Texts, encode: Callable[[str], list[int]], side: str, special: SpecialIds
) -> list[list[int]]:
    """Return ids without padding, one list a row, of texts or ids.

    No row of a tensor may be filled up with the token of padding; one at its end may be the end.
    """
    if isinstance(given, Tensor):
        given = given.tolist() if given.dim() == 2 else [given.tolist()]
        padding = special.padding
        filled = [padding] * (2 if padding == special.end else 1)
        for number, row in enumerate(given):
            if padding is not None and [*row[-len(filled) :]] == filled:
                raise ValueError(
                    f"{side} {number + 1}: expected a row filled up with {PADDING}, got one that "
                    f"ends with the token of padding, {padding}, which may be in a text: give "
                    f"lists of ids, or {PADDING} in its place"
                )
    rows = [given] if isinstance(given, str) else list(given)
    if not rows:
        raise ValueError(f"expected at least one {side}, got none")
    if not isinstance(rows[0], str | Sequence):
        raise ValueError(
            f"{side}: expected texts, or a list of ids for each, got {type(rows[0]).__name__}; "
            "put the ids of one sentence into a list"
        )
    least = 1 if side == "source" else 2
    found = []
    for row in rows:
        ids = encode(row.strip()) if isinstance(row, str) else [id for id in row if id != PADDING]
        if len(ids) < least or (isinstance(row, str) and not row.strip()):
            raise ValueError(f"expected a {side} with tokens in it, got an empty one")
        found.append(ids)
    return found
