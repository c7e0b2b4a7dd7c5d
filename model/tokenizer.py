"""Tokenizers, built on ``tokenizers``: byte-fallback byte-pair encoding, and whole words.

A token of byte-pair encoding keeps the space before it (`` the``), so text is the plain
concatenation of its tokens and any text round-trips. One space is put before the text, so that a
word is the same token at the start of a sentence and inside it. Characters without a token fall
back to the bytes of their UTF-8 form. A ``WordTokenizer`` has words as tokens, lower-cased if it is
trained here; other words become ``<unk>``. In both, each punctuation mark or symbol is a separate
token (unless a converted vocabulary is split at spaces), and special tokens never match text:
``</s>`` typed by a person is encoded as ordinary characters. A text with half a character (a lone
surrogate), or of more than ``LONGEST_TEXT`` characters, is a ValueError.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.interface import Ids, WordSpan
from headwise.model.spelling import BYTES, texts_of, word_spans
from headwise.model.validation import (
    check_same_settings,
    check_text,
    is_too_long,
    parse_description,
)

TokenizerKind = Literal["bpe", "word"]

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
"""Tokens with the fixed ids 0 to 3."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_ALPHABET = " " + string.ascii_letters + string.digits + string.punctuation
_WORDS = r" ?[\p{P}\p{S}]| ?[^\s\p{P}\p{S}]+|\s"
_BARE_WORDS = pre_tokenizers.Split(
    tokenizers.Regex(r"[\p{P}\p{S}]|[^\s\p{P}\p{S}]+"), behavior="removed", invert=True
)
_BETWEEN_SPACES = pre_tokenizers.Split(  # but what reads like a special token is taken apart
    tokenizers.Regex(r"<(?=(?:pad|unk|s|/s)>)|\S+"), behavior="removed", invert=True
)
# Written text has no space before closing marks, after opening ones, and in contractions (don't).
_NO_SPACE = re.compile(r" (?=[.,;:!?%…)\]}»”])|(?<=[¿¡(\[{«“]) ")
_CONTRACTION = re.compile(r"(?<=\w) (['’]) (?=(?:s|t|d|m|ll|re|ve)\b)")


def byte_tokens(text: str) -> list[str]:
    """Return the tokens of the bytes of a text's UTF-8 form."""
    return [BYTES[byte] for byte in text.encode()]


class Tokenizer:
    """Converts text to ids and back; ids 0 to 3 are ``<pad> <unk> <s> </s>``.

    ``Vocabulary`` in ``model/interface.py`` describes its properties and methods.
    """

    kind: ClassVar[TokenizerKind] = "bpe"
    control_ids: ClassVar[frozenset[int]] = frozenset((PAD, BOS, EOS))

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        tokens = [inner.id_to_token(id) or "" for id in range(inner.get_vocab_size())]
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(
                f"expected a vocabulary that begins with {SPECIAL_TOKENS}, got {tokens[:4]}"
            )
        self._tokens = tokens

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, *, rarest: int = 0) -> Tokenizer:
        """Learn a byte-pair encoding of ``vocab_size`` tokens, beyond those of bytes, from texts.

        It has fewer if nothing is left to merge that occurs ``rarest`` times, and more if the
        characters of the alphabet exceed it.
        """
        reserved = len(SPECIAL_TOKENS) + len(BYTES)
        if vocab_size <= reserved:
            raise ValueError(f"vocab_size: expected more than {reserved}, got {vocab_size}")
        learner = _assemble(models.BPE())
        learner.train_from_iterator(
            texts,
            trainers.BpeTrainer(
                vocab_size=vocab_size - reserved,
                min_frequency=rarest,
                initial_alphabet=list(_ALPHABET),
                limit_alphabet=200,
                show_progress=False,
            ),
        )
        learned = json.loads(learner.to_str())["model"]
        tokens = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
        vocabulary = {token: id for id, token in enumerate([*SPECIAL_TOKENS, *BYTES, *tokens])}
        merges = [(first, second) for first, second in learned["merges"]]
        return cls(_assemble_tokens(vocabulary, merges))

    @classmethod
    def from_text(cls, text: str) -> Tokenizer:
        """Rebuild a tokenizer from the output of ``to_text``."""
        try:
            given = parse_description(text)
            if given.model == "WordLevel":
                lower_case = "Lowercase" in str(given.settings.get("normalizer", "Lowercase"))
                at_spaces = "/s" in str(given.settings.get("pre_tokenizer"))
                inner = _assemble_words(
                    given.vocabulary, lower_case=lower_case, at_spaces=at_spaces
                )
                tokenizer: Tokenizer = WordTokenizer(inner)
            else:
                tokenizer = Tokenizer(_assemble_tokens(given.vocabulary, given.merges))
            check_same_settings(given, parse_description(tokenizer.to_text()))
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        return tokenizer

    def to_text(self) -> str:
        """Return the whole tokenizer as JSON."""
        return str(self._inner.to_str(pretty=False))

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        return list(self._encoding(text).ids)

    def unknown(self, text: str) -> list[str]:
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:stop] for id, (start, stop) in spans if id == UNK]

    @property
    def merges(self) -> list[tuple[str, str]]:
        """Return the merges of the byte-pair encoding, the first learned first; words have none."""
        return parse_description(self.to_text()).merges

    def split(self, text: str) -> list[str]:
        """Split a text into words and marks with their spaces, within which tokens are merged."""
        check_text(text)
        normalized = self._inner.normalizer.normalize_str(text)
        return [part for part, _ in self._inner.pre_tokenizer.pre_tokenize_str(normalized)]

    def _encoding(self, text: str) -> tokenizers.Encoding:
        check_text(text)
        return self._inner.encode(text, add_special_tokens=False)

    def decode(self, ids: Ids) -> str:
        """Decode ids; special tokens are left out, broken byte sequences become U+FFFD."""
        text = b"".join(self._bytes([id for id in ids if id >= len(SPECIAL_TOKENS)]))
        return text.decode(errors="replace").removeprefix(" ")

    def _bytes(self, ids: Ids) -> list[bytes]:
        """Return the bytes of each token; of a special one, those of its name."""
        tokens = [self._tokens[id] for id in ids]
        found = map(_BYTE.fullmatch, tokens)
        return [
            bytes.fromhex(byte[1]) if byte else token.encode()
            for token, byte in zip(tokens, found, strict=True)
        ]

    def tokens(self, ids: Ids) -> list[str]:
        return [self._tokens[id] for id in ids]

    def texts(self, ids: Ids) -> list[str]:
        return texts_of(self._bytes(ids))

    def words(self, ids: Ids) -> list[WordSpan]:
        return word_spans(self._bytes(ids), [id < len(SPECIAL_TOKENS) for id in ids])


class WordTokenizer(Tokenizer):
    """Has words and marks as tokens; spacing, unknown words and mostly upper case are lost."""

    kind = "word"

    @classmethod
    def of(cls, words: Sequence[str], *, at_spaces: bool) -> WordTokenizer:
        """Make a tokenizer of these words; text is lower-cased if all of them are.

        Text is split at spaces and, unless ``at_spaces``, at punctuation marks and symbols.
        """
        vocabulary = {word: id for id, word in enumerate([*SPECIAL_TOKENS, *words])}
        lower_case = all(word == word.lower() for word in words)
        return cls(_assemble_words(vocabulary, lower_case=lower_case, at_spaces=at_spaces))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, *, rarest: int = 0) -> WordTokenizer:
        """Take the most frequent words, at most ``vocab_size``, that occur ``rarest`` times."""
        if vocab_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocab_size: expected more than {len(SPECIAL_TOKENS)}, got {vocab_size}"
            )
        learner = _assemble_words({})
        learner.train_from_iterator(
            texts,
            trainers.WordLevelTrainer(
                vocab_size=vocab_size - len(SPECIAL_TOKENS),
                min_frequency=rarest,
                show_progress=False,
            ),
        )
        learned = learner.get_vocab()
        words = sorted(learned, key=learned.__getitem__)
        return cls(_assemble_words({word: id for id, word in enumerate([*SPECIAL_TOKENS, *words])}))

    def decode(self, ids: Ids) -> str:
        """Join the words with the spacing of written text; unknown words are ``<unk>``."""
        shown = self.tokens([id for id in ids if id not in (PAD, BOS, EOS)])
        return _CONTRACTION.sub(r"\1", _NO_SPACE.sub("", " ".join(shown)))

    def texts(self, ids: Ids) -> list[str]:
        return self.tokens(ids)

    def words(self, ids: Ids) -> list[WordSpan]:
        return [WordSpan(index, index + 1) for index in range(len(ids))]


def split_words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, as a ``WordTokenizer`` splits it."""
    return [word for word, _ in _BARE_WORDS.pre_tokenize_str(text)]


def count_words(text: str) -> int:
    """Return the number of ``split_words``."""
    return len(split_words(text))


def _assemble_words(
    vocabulary: dict[str, int], *, lower_case: bool = True, at_spaces: bool = False
) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    lower = [normalizers.Lowercase()] if lower_case else []
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
    inner.pre_tokenizer = _BETWEEN_SPACES if at_spaces else _BARE_WORDS
    return inner


def _assemble_tokens(
    vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> tokenizers.Tokenizer:
    return _assemble(
        models.BPE(vocabulary, merges, unk_token=SPECIAL_TOKENS[UNK], byte_fallback=True)
    )


def _assemble(model: models.BPE) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Prepend(" ")
    inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(_WORDS), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return inner


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of a run's two languages; the same object if they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer
    source_start: bool = False
    """Whether a source begins with ``<s>``, as those of converted models mostly do."""

    @classmethod
    def train(
        cls,
        texts: Sequence[tuple[str, str]],
        *,
        kind: TokenizerKind,
        vocab_sizes: tuple[int, int],
        shared: bool,
        rarest: int = 0,
    ) -> TokenizerPair:
        """Learn the tokenizers of (source, target) texts; a shared one uses the first size.

        What occurs fewer than ``rarest`` times becomes no token of its own. A pair with a text of
        more than ``LONGEST_TEXT`` characters is left out, as it is from training.
        """
        texts = [pair for pair in texts if not is_too_long(*pair)]
        kinds: dict[TokenizerKind, type[Tokenizer]] = {"bpe": Tokenizer, "word": WordTokenizer}
        learn = partial(kinds[kind].train, rarest=rarest)
        if shared:
            both = learn((text for pair in texts for text in pair), vocab_sizes[0])
            return cls(both, both)
        source, target = (learn((p[i] for p in texts), vocab_sizes[i]) for i in (0, 1))
        return cls(source, target)

    @property
    def shared(self) -> bool:
        """Return whether both languages use one vocabulary."""
        return self.source is self.target

    @property
    def prefix(self) -> tuple[int, ...]:
        return (BOS,)

    def encode_source(self, text: str) -> list[int]:
        """Encode a source: ``<s>`` if the model expects it, the tokens of the text and ``</s>``."""
        start = [BOS] if self.source_start else []
        return [*start, *self.source.encode(text), EOS]

    def encode_target(self, text: str) -> list[int]:
        """Encode a target: ``<s>``, the tokens and ``</s>``."""
        return [BOS, *self.target.encode(text), EOS]
