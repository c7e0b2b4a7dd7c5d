"""Takes a prediction of a traced sentence apart: the border from torch to NumPy for accounts.

What is computed here is defined in ``model/account.py`` and ``model/interventions.py``; what
was turned in the trace is turned in every pass here.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence

import torch
from torch import Tensor

from headwise.model import account as accounts
from headwise.model.interface import (
    Head,
    Seq2SeqModel,
    Stack,
    Tokenizers,
    Vocabulary,
    WordSpan,
    head_name,
)
from headwise.model.interventions import effects_of_parts, effects_of_sources
from headwise.model.placement import in_float32
from headwise.model.readings import ForcedPass, Sublayer, difference_of
from headwise.model.ties import top_k
from headwise.model.turning import turn
from headwise.viz_app.records.account import (
    Account,
    Doubles,
    EncoderParts,
    SourceEffects,
    StreamParts,
    WholeEffects,
)
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.attention import ids_tensor

MEAN = "mean"
"""Compares a word with the mean of all logits."""


def run_account(
    model: Seq2SeqModel, trace: Trace, step: int, instead: int | None, *, word: int | None = None
) -> Account:
    """Give the account of a word at a step of a traced target.

    Args:
        model: the model of the trace.
        trace: the sentence; its target is forced.
        step: the row of the decoder that predicts the word, from 0.
        instead: id of the word to compare with; None for the mean of all logits.
        word: id of the word; None for the one that the target has there.

    Raises:
        ValueError: if the target has no such step, or the two words are the same or unknown.
    """
    word = _word_of(trace, step) if word is None else word
    difference = difference_of(model, word, instead)
    found = accounts.account_of(_pass(model, trace, step), step, difference)
    return Account(
        step=step,
        word=word,
        instead=instead,
        difference=found.difference,
        parts=_stream_parts(found.parts),
        from_encoder=_encoder_parts(found.from_encoder),
    )


def run_cell(
    model: Seq2SeqModel, trace: Trace, account: Account, layer: int, head: int, key: int
) -> StreamParts:
    """Take one cell of cross-attention apart, the encoder's heads by the token that they read."""
    difference = difference_of(model, account.word, account.instead)
    forced = _pass(model, trace, account.step)
    return _stream_parts(accounts.cell_parts(forced, account.step, difference, layer, head, key))


def run_drivers(
    model: Seq2SeqModel, trace: Trace, position: int, layer: int, neuron: int, *, stack: Stack
) -> dict[str, StreamParts]:
    """Take the input of a neuron apart, at a position of a stack, before its activation function.

    Returns:
        By the name of the linear layer: ``expand``, and ``gate`` of a gated feed-forward.
    """
    forced = _pass(model, trace, position if stack == "decoder" else 0)
    found = accounts.neuron_drivers(forced, position, layer, neuron, stack=stack)
    return {name: _stream_parts(parts) for name, parts in found.items()}


def run_whole_effects(
    model: Seq2SeqModel,
    trace: Trace,
    account: Account,
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> WholeEffects:
    """Compute what the difference of an account loses without each head and feed-forward.

    ``note_done`` is told how many parts of how many are done; ``known`` has what an earlier call
    had found that was ended by an exception of it, and is added to.
    """
    sizes = model.description
    stacks: dict[Stack, dict[str, Head | Sublayer]] = {"encoder": {}, "decoder": {}}
    for head in sizes.all_heads():
        stacks["encoder" if head.kind == "encoder_self" else "decoder"][head_name(head)] = head
    for stack, parts in stacks.items():
        layers = sizes.layers("encoder_self" if stack == "encoder" else "decoder_self")
        for layer in range(layers):
            parts[f"feed_forward.{layer + 1}"] = Sublayer(stack, layer, None)
    everything = [part for parts in stacks.values() for part in parts.values()]
    with turn(model, trace.turned):
        effects = effects_of_parts(
            model,
            ids_tensor(model, trace.source.ids),
            ids_tensor(model, trace.consumed.ids[: account.step + 1]),
            difference_of(model, account.word, account.instead),
            everything,
            known=known,
            note_done=lambda done: note_done(done, len(everything)),
        ).tolist()
    of_encoder, of_decoder = effects[: len(stacks["encoder"])], effects[len(stacks["encoder"]) :]
    return WholeEffects(
        encoder=dict(zip(stacks["encoder"], of_encoder, strict=True)),
        decoder=dict(zip(stacks["decoder"], of_decoder, strict=True)),
    )


def run_source_effects(
    model: Seq2SeqModel, trace: Trace, account: Account, spans: Sequence[WordSpan]
) -> SourceEffects:
    """Compute what the difference of an account loses when source tokens are left out.

    Raises:
        ValueError: if rows of the trace are pinned, which are of tokens that would then be others.
    """
    if trace.turned.pinned:
        raise ValueError(
            "expected a trace without pinned rows, since rows and keys have other numbers once a "
            "source word is left out; trace the sentence without them (strengths may stay)"
        )
    with turn(model, trace.turned):
        losses = effects_of_sources(
            model,
            trace.source.ids,
            ids_tensor(model, trace.consumed.ids[: account.step + 1]),
            difference_of(model, account.word, account.instead),
            spans,
        )
    return SourceEffects(tuple(spans), doubles(losses))


@torch.inference_mode()
def run_neuron_words(
    model: Seq2SeqModel, trace: Trace, step: int, layer: int, neuron: int, count: int
) -> tuple[list[int], list[int]]:
    """Return the ids that a neuron raises most and lowers most where it is active, in that order.

    ``count`` of each, by its direct effect at this step.
    """
    added = in_float32(accounts.neuron_logits(_pass(model, trace, step), step, layer, neuron))
    return top_k(added, count).tolist(), top_k(-added, count).tolist()


def word_to_compare(
    tokenizers: Tokenizers, trace: Trace, step: int, instead: str | None
) -> int | None:
    """Return the id of the token with which the word at a step is compared.

    ``instead`` is its text, ``MEAN`` for the mean of all logits, which gives None, or None for the
    likeliest other token.

    Raises:
        ValueError: if the text is not one token, or the trace names no other token.
    """
    if instead == MEAN:
        return None
    if instead is None:
        for id in trace.predictions.top_ids[step].tolist():
            if id != trace.predicted.ids[step]:
                return int(id)
        raise ValueError("top_k: expected at least 2, since the likeliest other token is asked for")
    return single_token(tokenizers, instead, name="instead")


def token_of(vocabulary: Vocabulary, text: str) -> int | None:
    """Return the id of the token that a text is: a word, or a token that goes on with one.

    So ``.`` is found, with and without the ``·`` that pages write before it, and ``un·`` where
    tokens say whether a word ends. None if there is none.
    """
    text = text.strip()
    ids = vocabulary.encode(text)
    if len(ids) == 1 and not vocabulary.unknown(text):
        return ids[0]
    texts = vocabulary.tokens(range(vocabulary.vocab_size))
    names = (text.removeprefix("·"), f" {text}")
    return next((texts.index(name) for name in names if name.strip() and name in texts), None)


def single_token(tokenizers: Tokenizers, word: str, *, name: str) -> int:
    """Return the id of a word of the target that is one token.

    Raises:
        ValueError: if it is not; the message begins with the name of what is asked for.
    """
    id = token_of(tokenizers.target, word)
    if id is None:
        ids = tokenizers.target.encode(word.strip())
        read = " ".join(tokenizers.target.texts(ids)) or "nothing"
        raise ValueError(f"{name}: expected one token, got {word!r:.60}, read as {read}")
    return id


def _word_of(trace: Trace, step: int) -> int:
    if not 0 <= step < len(trace.predicted):
        raise ValueError(
            f"expected a position from 0 to {len(trace.predicted) - 1} of the target, got {step}"
        )
    return trace.predicted.ids[step]


def _pass(model: Seq2SeqModel, trace: Trace, step: int) -> ForcedPass:
    """Run the model on the source and the target up to a step; later steps change nothing."""
    return ForcedPass.run(
        model,
        ids_tensor(model, trace.source.ids),
        ids_tensor(model, trace.consumed.ids[: step + 1]),
        turned=trace.turned,
    )


def doubles(tensor: Tensor) -> Doubles:
    """Return a tensor as a read-only array in float64."""
    array: Doubles = tensor.detach().to("cpu", torch.float64).contiguous().numpy()
    array.flags.writeable = False
    return array


def _stream_parts(parts: accounts.Parts) -> StreamParts:
    return StreamParts(
        token=float(parts.token),
        position=None if parts.position is None else float(parts.position),
        heads={kind: doubles(part) for kind, part in parts.heads.items()},
        neurons=doubles(parts.neurons),
        biases=float(parts.biases),
    )


def _encoder_parts(parts: accounts.EncoderParts) -> EncoderParts:
    return EncoderParts(
        token=doubles(parts.token),
        position=None if parts.position is None else doubles(parts.position),
        heads=doubles(parts.heads),
        feed_forwards=doubles(parts.feed_forwards),
        biases=doubles(parts.biases),
    )
