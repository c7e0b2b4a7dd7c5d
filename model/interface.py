"""The interface through which the rest of the project uses an encoder-decoder.

Decoding, ablation, traces, measures and pages use a model only through ``Seq2SeqModel``, so that
another family of models only needs a class with these methods and hook points.

``B`` batch, ``S`` source length, ``T`` target length, ``L`` layers, ``H`` heads, ``D`` = d_model,
``K`` = d_k, ``V`` vocabulary size. The stream is what the layers of a stack pass on: a vector for
each token, (B, T, D).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

if TYPE_CHECKING:  # pages and analyses import the names below without torch
    from collections.abc import Iterator

    import torch
    from torch import Tensor, nn

Kind = Literal["encoder_self", "decoder_self", "cross"]
"""A kind of attention: the encoder's self-attention, the decoder's, or cross-attention."""

KINDS: tuple[Kind, ...] = ("encoder_self", "decoder_self", "cross")

Side = Literal["source", "target"]
Stack = Literal["encoder", "decoder"]

_ATTENTION = {
    "encoder_self": "encoder.layers.{}.self_attention",
    "decoder_self": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}


def attention_path(kind: Kind, layer: int) -> str:
    """Return the module path of an attention, below which its hook points are; layers from 0."""
    return _ATTENTION[kind].format(layer)


class Head(NamedTuple):
    """A head is identified by its kind of attention, layer and number, the last two from 0."""

    kind: Kind
    layer: int
    head: int


HeadLike = Head | str | tuple[str, int, int]
"""A head as a person may name it: ``cross.2.4``, counted from 1, or kind, layer, head from 0."""

_HEAD_NAME = re.compile(rf"({'|'.join(KINDS)})\.([1-9][0-9]{{0,5}})\.([1-9][0-9]{{0,5}})")


def head_name(head: Head) -> str:
    """Return how links and commands name a head, such as ``cross.2.4``: layer and number from 1."""
    return f"{head.kind}.{head.layer + 1}.{head.head + 1}"


def parse_head(name: str) -> Head:
    """Return the head of a name that ``head_name`` wrote; a ValueError if it is none."""
    match = _HEAD_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"expected a head such as cross.2.4, got {name!r}")
    kind = next(kind for kind in KINDS if kind == match[1])
    return Head(kind, int(match[2]) - 1, int(match[3]) - 1)


def to_head(given: HeadLike) -> Head:
    """Return the head of a text such as ``cross.2.4`` (from 1), a ``Head`` or a tuple (from 0).

    Other forms are a ValueError. Whether a model has it is not asked here.
    """
    if isinstance(given, str):
        return parse_head(given)
    parts: Any = given
    if isinstance(parts, Sequence) and len(parts) == 3:
        kind, layer, head = parts
        if isinstance(kind, str) and hasattr(layer, "__index__") and hasattr(head, "__index__"):
            return Head(cast(Kind, kind), operator.index(layer), operator.index(head))
    raise ValueError(
        "expected a head such as 'cross.2.4' (layer and head from 1) or ('cross', 1, 3) (from 0), "
        f"got {given!r:.60}"
    )


def to_heads(given: Iterable[HeadLike] | str | Head) -> list[Head]:
    """Return the heads that a collection, or a single name, stands for, as ``to_head`` does."""
    several: Iterable[Any] = [given] if isinstance(given, str | Head) else given
    return [to_head(head) for head in several]


@dataclass(frozen=True)
class Description:
    """Describes the properties of a model, from which pages choose their words and formulas."""

    n_encoder_layers: int
    n_decoder_layers: int
    n_encoder_heads: int
    n_decoder_heads: int
    d_model: int
    encoder_d_k: int
    """Width of the queries, keys and values of a head in the encoder."""
    decoder_d_k: int
    encoder_d_ff: int
    """Width of the hidden layer of the encoder's feed-forward."""
    decoder_d_ff: int
    source_vocab_size: int
    target_vocab_size: int
    max_length: int
    """Longest source, and longest target, in tokens."""
    norm: Literal["pre", "post"]
    """Whether the norm is before each sublayer, or after each residual sum as in the paper."""
    final_norm: bool
    """Whether each stack ends in a norm."""
    attention_bias: bool
    """Whether the projections of queries, keys, values and outputs have biases."""
    output_bias: bool
    """Whether the logits have a bias."""
    tied: Literal["none", "output", "all"]
    """Which weights are shared: none, target embedding with output, or both embeddings with it."""
    scale_embeddings: bool
    """Whether token embeddings are multiplied by √D."""
    scale_scores: bool = True
    """Whether scores are divided by √K."""
    score_divisor: int | None = None
    """The number by whose root scores are divided, where it is not K."""
    score_cap: float | None = None
    """Where given, c tanh(score / c) takes the place of a score before the softmax."""
    logit_cap: float | None = None
    """Where given, c tanh(logit / c) takes the place of a logit."""
    key_heads: int | None = None
    """How many heads of a layer have keys and values of their own, each for as many heads that
    follow each other; None if all have."""
    positions: Literal["sinusoidal", "learned", "relative", "rotary"] = "sinusoidal"
    """The kind of positional encoding. Relative ones are added to scores, not to embeddings; rotary
    ones turn queries and keys of self-attention (Su et al. 2021, "RoFormer")."""
    activation: str = "relu"
    """The activation function of the feed-forward."""
    gated: bool = False
    """Whether the feed-forward multiplies its hidden layer by a second projection of its input."""
    feed_forward_bias: bool = True
    """Whether the layers of the feed-forward have biases."""
    norm_kind: Literal["layer", "rms"] = "layer"
    """Layer norm, or division by the root mean square (Zhang & Sennrich 2019), without a bias."""
    embedding_norm: bool = False
    """Whether a norm follows the sum of embeddings and positions."""
    token_norm: bool = False
    """Whether embeddings are normed before positions are added."""
    scale_output: bool = False
    """Whether the decoder's output is multiplied by 1/√D before it is unembedded."""
    output_norms: bool = False
    """Whether what a sublayer gives is normed before it is added to the stream."""
    token_types: bool = False
    """Whether the vector of a type of tokens is added to every position, and to the same each."""
    output_transform: bool = False
    """Whether a linear layer, the activation function and a norm follow the decoder's last layer
    before it is unembedded. What ``decode`` returns is behind them."""
    merged_attention: bool = False
    """Whether the decoder reads target and source in one attention, by one softmax. It is shown as
    its halves, self-attention and cross-attention, which read the same stream: rows of the two sum
    to 1 together, what the two give is added up, and a norm of it is a norm of the sum."""
    head_norms: bool = False
    """Whether the queries and the keys of each head are normed, before any turn by position."""
    of_encoder: Description | None = None
    """A description that holds for the encoder, where it is of another width or make than the
    decoder, for which this one holds; None if this one holds for both."""

    def of(self, part: Stack | Kind) -> Description:
        """Return the description that holds for a stack, or for that of a kind of attention."""
        is_encoder = part in ("encoder", "encoder_self")
        return self.of_encoder or self if is_encoder else self

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Return the sizes of both vocabularies, that of the source first."""
        return self.source_vocab_size, self.target_vocab_size

    @property
    def adds_positions(self) -> bool:
        """Return whether positions are added to the embeddings."""
        return self.positions in ("sinusoidal", "learned")

    def score_scale(self, d_k: int) -> float:
        """Return the factor of the products of queries and keys."""
        return (self.score_divisor or d_k) ** -0.5 if self.scale_scores else 1.0

    def layers(self, kind: Kind) -> int:
        """Return the number of layers with this kind of attention."""
        return self.n_encoder_layers if kind == "encoder_self" else self.n_decoder_layers

    def heads(self, kind: Kind) -> int:
        """Return the number of heads of this kind of attention in each layer."""
        return self.n_encoder_heads if kind == "encoder_self" else self.n_decoder_heads

    @property
    def shapes(self) -> dict[Kind, tuple[int, int]]:
        """Return for each kind of attention its number of layers and of heads in each layer."""
        return {kind: (self.layers(kind), self.heads(kind)) for kind in KINDS}

    def all_heads(self) -> list[Head]:
        """List all heads, ordered by kind, layer and number."""
        return [
            Head(kind, layer, head)
            for kind in KINDS
            for layer in range(self.layers(kind))
            for head in range(self.heads(kind))
        ]

    def require_heads(self, heads: Iterable[Head]) -> None:
        """Raise a ``ValueError`` if one of some heads is none of the model's."""
        known = set(self.all_heads())
        for head in heads:
            if head not in known:
                there = ", ".join(
                    f"{kind}.1.1 to {kind}.{layers}.{count}"
                    for kind, (layers, count) in self.shapes.items()
                )
                raise ValueError(f"no head {head_name(head)}: expected one of {there}")


Ids = Sequence[int]
"""The ids of the tokens of a text."""
Rows = Sequence[Ids]
"""The ids of several texts."""


@dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens."""

    start: int
    """The first token that the decoder consumes."""
    end: int
    """The token that ends every source and target."""
    padding: int | None
    """The token that fills up sentences in training; None if stacks have none, or not the same. It
    may be the end or the unknown token as well, so that nothing is known by it: batches are padded
    with ``PADDING`` of ``model/masks.py``."""
    unknown: int | None
    """The token that stands for what the vocabulary lacks; None if it lacks nothing."""
    other_ends: tuple[int, ...] = ()
    """Tokens at which decoding ends as well."""
    never_generated: tuple[int, ...] = ()
    """Tokens that decoding does not choose, however likely they are."""

    @property
    def ends(self) -> frozenset[int]:
        """Return all tokens at which decoding ends."""
        return frozenset((self.end, *self.other_ends))


@dataclass(frozen=True)
class WordSpan:
    """Tokens ``start`` to ``stop`` (exclusive) make one written word."""

    start: int
    stop: int


class Vocabulary(Protocol):
    """The tokens of one language: from text to ids, and back."""

    @property
    def kind(self) -> Literal["bpe", "word"]:
        """Return whether tokens are parts of words or whole words."""

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, special ones included."""

    @property
    def control_ids(self) -> frozenset[int]:
        """Return the ids of tokens that stand for no text: padding, start, end, languages."""

    def encode(self, text: str) -> list[int]:
        """Encode a text as ids, without special tokens; lone surrogates are a ValueError."""

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that are encoded as the unknown token, in order."""

    def decode(self, ids: Ids) -> str:
        """Decode ids as text; special tokens are left out."""

    def tokens(self, ids: Ids) -> list[str]:
        """Return the text of each token by itself; one that begins a word has a space before it.

        Bytes that are a part of a character are shown as ``<0xC3>``. Where a token says that a
        word ends (``</w>``) or goes on (``@@``), ``·`` is after one with which it goes on.
        """

    def texts(self, ids: Ids) -> list[str]:
        """Return the texts of tokens that follow one another, with a space where a word begins.

        Each token with a part of a character shows it, as ``é[1/2]`` and ``é[2/2]``.
        """

    def words(self, ids: Ids) -> list[WordSpan]:
        """Split tokens into written words: spans in order, without gaps."""


@dataclass(frozen=True)
class Choices:
    """What a person can choose of a model that knows several; each is empty where it cannot be."""

    sources: tuple[str, ...] = ()
    """Codes of source languages."""
    targets: tuple[str, ...] = ()
    """Codes of target languages."""
    prefixes: tuple[str, ...] = ()
    """Texts that name a task, put before the source."""


@dataclass(frozen=True)
class Languages:
    """A choice of source language, target language and task; None leaves it to the model."""

    source: str | None = None
    """Code of the source language, of a model that knows several."""
    target: str | None = None
    """Code of the target language, likewise."""
    prefix: str | None = None
    """Text that names a task, put before the source, of a model that wants one."""


DEFAULT_LANGUAGES = Languages()


class Tokenizers(Protocol):
    """The vocabularies of a model's source and target, and how each is put before the model."""

    @property
    def source(self) -> Vocabulary:
        """Return the vocabulary of the source."""

    @property
    def target(self) -> Vocabulary:
        """Return the vocabulary of the target."""

    @property
    def prefix(self) -> tuple[int, ...]:
        """Return the ids with which every target begins: the start, and perhaps a language."""

    def encode_source(self, text: str) -> list[int]:
        """Encode a source with the special tokens that the model expects."""

    def encode_target(self, text: str) -> list[int]:
        """Encode a target: the prefix, the tokens and the end."""


class LinearParameters(NamedTuple):
    """Parameters of a linear layer, x W + b."""

    weight: Tensor
    """(in, out)."""
    bias: Tensor | None
    """(out,)."""


class NormParameters(NamedTuple):
    """Parameters of a layer norm: standardise over the last axis, times ``gain``, plus ``bias``."""

    gain: Tensor
    """(D,)."""
    bias: Tensor | None
    """(D,); None for a norm that divides by the root mean square."""
    epsilon: float
    """Added to the variance before its root is taken."""


class Rotation(NamedTuple):
    """How queries and keys are turned by position: x ↦ x · cos + (−x₂, x₁) · sin.

    x₁ and x₂ are the halves of x; dimension i of one is turned with dimension i of the other.
    """

    cos: Any
    """(positions, K)."""
    sin: Any
    """(positions, K)."""


class Origin(NamedTuple):
    """Which weights a model has: run, step, and the sha256 of the weights."""

    run: str
    step: int
    sha256: str


NO_ORIGIN = Origin("", 0, "")
"""That of a model that was not loaded: its weights are those of no checkpoint."""


class Reference(NamedTuple):
    """What another implementation than the one that is shown computes in the same pass."""

    logits: Tensor
    """(B, T, V)."""
    attention: Mapping[Kind, Sequence[Tensor]]
    """Weights of each layer, (B, H, Q, M)."""


class Cache(Protocol):
    """A cache has the keys and values that the decoder has computed for the target so far."""

    def keep(self, rows: Tensor) -> None:
        """Select and reorder the rows of the batch: ``rows`` is a LongTensor of row indices."""


class Seq2SeqModel(Protocol):
    """An encoder-decoder in evaluation mode, as decoding, traces and measures use it.

    It is a PyTorch module with hook points; ``model/hooks.py`` lists them. Those of attention
    are below ``attention_path(kind, layer)``: ``query``, ``key``, ``value``, ``scores``,
    ``weights``, ``heads`` and ``output``.
    """

    origin: Origin
    """Which weights it has; what loads them sets it, and what is recorded of the model has it."""

    @property
    def description(self) -> Description:
        """Return the properties of the model."""

    @property
    def special_ids(self) -> SpecialIds:
        """Return the ids of the start, end, padding and unknown tokens."""

    def named_modules(
        self, memo: None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield path and module of all modules, including the hook points."""

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield path and tensor of all weights; tied ones once, unless duplicates are wanted."""

    def to(self, device: torch.device) -> Any:
        """Move the weights to a device."""

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run the encoder: ids (B, S), perhaps padded → memory (B, S, D), mask (B, 1, 1, S).

        Shorter rows are padded on the right, as ``pad`` of ``model/masks.py`` does. The mask is
        True for tokens; it is None if nothing is padded.

        Raises:
            ValueError: on a wrong shape, too long a source, or a row of padding only.
        """

    def decode(
        self, target: Tensor, memory: Tensor, mask: Tensor | None, cache: Any = None
    ) -> Tensor:
        """Run the decoder: target ids (B, T) → the stream after the final norm (B, T, D).

        Without a cache the target begins with the start token. With a cache, from ``new_cache``,
        it has only the tokens after those of earlier calls, and these are added to the cache.

        Raises:
            ValueError: on a wrong shape or too long a target.
        """

    def unembed(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of what ``decode`` returns, (…, D)."""

    def lens(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of a stream (…, D) as if the last layer had given it."""

    def new_cache(self) -> Cache:
        """Return an empty cache for ``decode``."""

    def reference(self, source: Tensor, consumed: Tensor) -> Reference | None:
        """Run another implementation on ids (B, S) and (B, T), unpadded; None if there is none.

        Hook points are none of its: nothing is captured or edited there.
        """

    def linear(self, path: str) -> LinearParameters:
        """Return the weights of the linear layer at a path.

        Those of attention are ``query_projection``, ``key_projection``, ``value_projection`` and
        ``output_projection`` below ``attention_path(kind, layer)``; those of a feed-forward are
        ``expand``, ``contract`` and, of a gated one, ``gate``. The one that gives the logits is
        ``unembedding``; the stream is scaled before it where ``scale_output`` says so, and is made
        by ``output_transform`` where there is one.
        """

    def norm(self, sublayer: str) -> NormParameters:
        """Return the weights of the norm before or after a sublayer.

        The sublayer is a path such as ``decoder.layers.0.cross_attention``.
        """

    def output_norm(self, sublayer: str) -> NormParameters | None:
        """Return the weights of the norm of what a sublayer gives; None if it has none."""

    def rotation(self, projection: str, length: int) -> Rotation | None:
        """Return how what a projection of an attention makes is turned by position, if it is.

        The projection is a path as for ``linear``; it is that of the first ``length`` positions.
        """

    def head_norm(self, projection: str) -> NormParameters | None:
        """Return the norm of what a projection makes for each head, before it is turned, if any."""

    def final_norm(self, side: Side) -> NormParameters | None:
        """Return the weights of the norm at the end of a side's stack; None if it has none."""

    def embedding_norm(self, side: Side) -> NormParameters | None:
        """Return the weights of the norm after a side's embedding; None if it has none."""
        ...

    def embedding_table(self, side: Side) -> Tensor:
        """Return the embeddings of a side's vocabulary, unscaled: (V, D)."""

    def position_table(self, side: Side) -> Tensor | None:
        """Return the stored positions of a side: (positions, D); None if none are stored."""
