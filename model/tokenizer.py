"""Tokenizers, built on ``tokenizers``: byte-fallback byte-pair encoding, and whole words.

A piece of byte-pair encoding keeps the space before it (`` the``), so text is the plain
concatenation of its pieces and any text round-trips. One space is put before the text, so that a
word is the same piece at the start of a sentence and inside it. Characters without a piece fall
back to the bytes of their UTF-8 form. A ``WordTokenizer`` knows lower-cased words instead and reads
``<unk>`` for any other. In both, punctuation and symbols are pieces of their own, and special
pieces have ids but never match text: ``</s>`` typed by a person is four characters like any other.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from model.config import BOS, EOS, PAD, UNK
from model.tokenizer_text import check_same_rest, describe

TokenizerKind = Literal["bpe", "word"]

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
"""Pieces with the fixed ids 0 to 3."""

_BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_CONTINUATION = re.compile(r"<0x[89AB][0-9A-F]>")
_ALPHABET = " " + string.ascii_letters + string.digits + string.punctuation
_WORDS = r" ?[\p{P}\p{S}]| ?[^\s\p{P}\p{S}]+|\s"
_BARE_WORDS = pre_tokenizers.Split(
    tokenizers.Regex(r"[\p{P}\p{S}]|[^\s\p{P}\p{S}]+"), behavior="removed", invert=True
)
# Writing leaves no space before closing marks, after opening ones, and in contractions (don't).
_NO_SPACE = re.compile(r" (?=[.,;:!?%…)\]}»”])|(?<=[¿¡(\[{«“]) ")
_CONTRACTION = re.compile(r"(?<=\w) (['’]) (?=(?:s|t|d|m|ll|re|ve)\b)")


@dataclass(frozen=True)
class Word:
    """Pieces ``start`` to ``stop`` (exclusive) make one written word."""

    start: int
    stop: int


def _is_punctuation(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text)[0] in "PS"


class Tokenizer:
    """Text ↔ ids. Ids 0 to 3 are ``<pad> <unk> <s> </s>``."""

    kind: ClassVar[TokenizerKind] = "bpe"

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        pieces = [inner.id_to_token(id) or "" for id in range(inner.get_vocab_size())]
        if tuple(pieces[: len(SPECIAL_PIECES)]) != SPECIAL_PIECES:
            raise ValueError(
                f"expected a vocabulary that begins with {SPECIAL_PIECES}, got {pieces[:4]}"
            )
        self._pieces = pieces

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Learn a byte-pair encoding of ``vocab_size`` pieces from texts.

        It has fewer if the texts have no more to merge, and more if single letters alone are.

        Raises:
            ValueError: if ``vocab_size`` leaves no room beside the special and the byte pieces.
        """
        reserved = len(SPECIAL_PIECES) + len(_BYTES)
        if vocab_size <= reserved:
            raise ValueError(f"vocab_size: expected more than {reserved}, got {vocab_size}")
        learner = _assemble(models.BPE())
        learner.train_from_iterator(
            texts,
            trainers.BpeTrainer(
                vocab_size=vocab_size - reserved,
                initial_alphabet=list(_ALPHABET),
                limit_alphabet=200,
                show_progress=False,
            ),
        )
        learned = json.loads(learner.to_str())["model"]
        pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
        vocabulary = {piece: id for id, piece in enumerate([*SPECIAL_PIECES, *_BYTES, *pieces])}
        merges = [(first, second) for first, second in learned["merges"]]
        return cls(_assemble_pieces(vocabulary, merges))

    @classmethod
    def from_text(cls, text: str) -> Tokenizer:
        """Rebuild a tokenizer from what ``to_text`` gave.

        Raises:
            ValueError: if it is not the description of a tokenizer with our special pieces.
        """
        try:
            given = describe(text)
            if given.model == "WordLevel":
                tokenizer: Tokenizer = WordTokenizer(_assemble_words(given.vocabulary))
            else:
                tokenizer = Tokenizer(_assemble_pieces(given.vocabulary, given.merges))
            check_same_rest(given, describe(tokenizer.to_text()))
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        return tokenizer

    def to_text(self) -> str:
        """The whole tokenizer as JSON."""
        return str(self._inner.to_str(pretty=False))

    @property
    def vocab_size(self) -> int:
        """Number of pieces, special ones included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special pieces.

        Raises:
            ValueError: on lone surrogates, which are no text in any encoding.
        """
        return list(self._encoding(text).ids)

    def unknown(self, text: str) -> list[str]:
        """The words of a text that are read as ``<unk>``, in order.

        Raises:
            ValueError: as ``encode`` does.
        """
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:stop] for id, (start, stop) in spans if id == UNK]

    def _encoding(self, text: str) -> tokenizers.Encoding:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start + 1} of the text is half a character (a lone surrogate); "
                "remove it"
            ) from error
        return self._inner.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special pieces are left out, broken byte sequences become U+FFFD."""
        text = b"".join(map(self._bytes, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ")

    def _bytes(self, id: int) -> bytes:
        if id < len(SPECIAL_PIECES):
            return b""
        piece = self._pieces[id]
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.encode()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as they stand in the vocabulary, a space before those that begin a word."""
        return [self._pieces[id] for id in ids]

    def words(self, ids: Sequence[int]) -> list[Word]:
        """Written words as spans of pieces, in order and without gaps.

        A word begins at a space and at, or after, a punctuation mark. Special pieces are words of
        their own.
        """
        starts: list[int] = []
        word_ended, before = True, ""
        for index, (id, text) in enumerate(zip(ids, self._characters(ids), strict=True)):
            alone = id < len(SPECIAL_PIECES) or _is_punctuation(text.removeprefix(" "))
            begins = word_ended or text[:1].isspace() or (alone and not before.isspace())
            if begins and text:
                starts.append(index)
            word_ended = alone if text else word_ended
            before = text
        return [Word(start, stop) for start, stop in pairwise([*starts, len(ids)])]

    def _characters(self, ids: Sequence[int]) -> list[str]:
        """Text of each piece; that of a character in bytes stands at its first byte."""
        texts = [self._pieces[id] for id in ids]
        for index, text in enumerate(texts):
            if not _BYTE.fullmatch(text):
                continue
            stop = index + 1
            while stop < len(ids) and _CONTINUATION.fullmatch(texts[stop]):
                stop += 1
            character = b"".join(map(self._bytes, ids[index:stop])).decode(errors="replace")
            texts[index:stop] = [character] + [""] * (stop - index - 1)
        return texts


class WordTokenizer(Tokenizer):
    """Lower-cased words and punctuation marks; a word outside the vocabulary is ``<unk>``.

    Upper case, amounts of space and unknown words are lost: text does not come back as it was.
    """

    kind = "word"

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> WordTokenizer:
        """Take the most frequent words of texts, at most ``vocab_size`` with the special pieces.

        Raises:
            ValueError: if ``vocab_size`` leaves no room beside the special pieces.
        """
        if vocab_size <= len(SPECIAL_PIECES):
            raise ValueError(
                f"vocab_size: expected more than {len(SPECIAL_PIECES)}, got {vocab_size}"
            )
        learner = _assemble_words({})
        learner.train_from_iterator(
            texts,
            trainers.WordLevelTrainer(
                vocab_size=vocab_size - len(SPECIAL_PIECES), show_progress=False
            ),
        )
        learned = learner.get_vocab()
        words = sorted(learned, key=learned.__getitem__)
        return cls(_assemble_words({word: id for id, word in enumerate([*SPECIAL_PIECES, *words])}))

    def decode(self, ids: Sequence[int]) -> str:
        """The words, spaced as they are in writing; ``<unk>`` stands for unknown ones."""
        shown = self.pieces([id for id in ids if id not in (PAD, BOS, EOS)])
        return _CONTRACTION.sub(r"\1", _NO_SPACE.sub("", " ".join(shown)))

    def words(self, ids: Sequence[int]) -> list[Word]:
        """Each piece is a word."""
        return [Word(index, index + 1) for index in range(len(ids))]


def count_words(text: str) -> int:
    """Words and punctuation marks of a text: as many pieces as it has in a ``WordTokenizer``."""
    return len(_BARE_WORDS.pre_tokenize_str(text))


def _assemble_words(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_PIECES[UNK]))
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    inner.pre_tokenizer = _BARE_WORDS
    return inner


def _assemble_pieces(
    vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> tokenizers.Tokenizer:
    return _assemble(
        models.BPE(vocabulary, merges, unk_token=SPECIAL_PIECES[UNK], byte_fallback=True)
    )


def _assemble(model: models.BPE) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Prepend(" ")
    inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(_WORDS), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return inner


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of a run; one and the same where the languages share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def train(
        cls,
        texts: Sequence[tuple[str, str]],
        *,
        kind: TokenizerKind,
        vocab_sizes: tuple[int, int],
        shared: bool,
    ) -> TokenizerPair:
        """Learn the tokenizers of (source, target) texts; a shared one has the first size.

        Raises:
            ValueError: if a size leaves no room beside the special pieces.
        """
        learn = {"bpe": Tokenizer.train, "word": WordTokenizer.train}[kind]
        if shared:
            both = learn((text for pair in texts for text in pair), vocab_sizes[0])
            return cls(both, both)
        return cls(*(learn((p[i] for p in texts), vocab_sizes[i]) for i in (0, 1)))

    @property
    def shared(self) -> bool:
        """Whether both languages use one vocabulary."""
        return self.source is self.target

    def encode_source(self, text: str) -> list[int]:
        """What the encoder reads: the pieces of the text and ``</s>``."""
        return [*self.source.encode(text), EOS]

    def encode_target(self, text: str) -> list[int]:
        """The whole target: ``<s>``, the pieces, ``</s>``; the decoder consumes all but the last
        and predicts all but the first."""
        return [BOS, *self.target.encode(text), EOS]
