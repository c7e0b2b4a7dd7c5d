"""How tokenizers of ``transformers`` write bytes, and the limits of words, into their tokens.

Most is asked of the tokenizer itself: how it joins tokens that are written in a certain way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers.convert_slow_tokenizer import bytes_to_unicode

from headwise.model.spelling import BYTES, show_bytes

_SPACE = "▁"
"""Stands for the space before a word in SentencePiece's tokens."""
_END = "</w>"
_GOES_ON = "@@"
"""What subword-nmt and fairseq write after a token with which a word goes on."""
_LETTERS = {letter: byte for byte, letter in bytes_to_unicode().items()}
"""The letters that stand for bytes in tokens of GPT-2 and BART."""
_LATIN = {chr(byte): byte for byte in range(256)}
"""Those of ByT5."""
_BYTES = {token: byte for byte, token in enumerate(BYTES)}


@dataclass(frozen=True)
class Notation:
    """How the tokens of a vocabulary are written."""

    whole_words: bool = False
    letters: Mapping[str, int] = field(default_factory=dict)
    """The letters that stand for bytes, if tokens are written in them."""
    byte_fallback: bool = False
    """Whether the bytes of characters without a token have tokens, such as ``<0xC3>``."""
    goes_on_before: str | None = None
    """What a token begins with that goes on with a word (``##``), where others begin one."""
    ends_after: str = ""
    """What a token ends with that ends a word (``</w>``)."""
    goes_on_after: str = ""
    """What a token ends with that does not end a word (``@@``)."""
    decodes_with_marks: bool = False
    """Whether the tokenizer's own decoding leaves such marks in texts."""

    @property
    def marks_ends(self) -> bool:
        """Return whether a token says whether a word ends, not whether it begins."""
        return bool(self.ends_after or self.goes_on_after)

    def to_bytes(self, token: str, *, added: bool = False) -> bytes:
        """Return a token in UTF-8, with a space where a word begins, or else where it ends.

        ``added`` is a token that was put into a vocabulary later, which is a text as it is.
        """
        if self.byte_fallback and token in _BYTES:
            return bytes([_BYTES[token]])
        before = after = False
        bare = token
        if self.goes_on_before is not None:
            bare = token.removeprefix(self.goes_on_before)
            before = bare == token
        elif self.ends_after:
            bare = token.removesuffix(self.ends_after)
            after = added or bare != token
        elif self.goes_on_after:
            bare = token.removesuffix(self.goes_on_after)
            after = bare == token
        elif not self.letters:
            bare = token.replace(_SPACE, " ")
        written = bare.encode()
        if self.letters and not added:
            each = ([self.letters[one]] if one in self.letters else one.encode() for one in bare)
            written = b"".join(map(bytes, each))
        return b" " * before + written + b" " * after

    def name(self, token: str, *, added: bool = False) -> str:
        """Return the text of a token by itself, as ``Vocabulary.tokens`` says."""
        if self.byte_fallback and token in _BYTES:
            return token
        text = show_bytes(self.to_bytes(token, added=added))
        if not self.marks_ends:
            return text
        bare = text.removesuffix(" ")
        return f" {bare}" + "·" * (bare == text)


def spaces_before(tokens: Sequence[bytes], special: Sequence[bool]) -> list[bytes]:
    """Put the space that is after a token before the next one; special tokens have none."""
    found, ended = [], False
    for token, is_special in zip(tokens, special, strict=True):
        bare = token.removesuffix(b" ")
        found.append(token if is_special else b" " * ended + bare)
        ended = is_special or bare != token
    return found


def notation_of(tokenizer: Any, tokens: Collection[str]) -> Notation:
    """Find how the tokens of a tokenizer are written; ``tokens`` are those that are not special."""

    def joined(*tokens: str) -> str:
        try:
            return str(tokenizer.convert_tokens_to_string([*tokens])).strip()
        except Exception:  # some raise whatever they meet where a token is not of their kind
            return ""

    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    before = getattr(model, "continuing_subword_prefix", None)
    after = getattr(model, "end_of_word_suffix", None)
    if not before and joined("a", "##b") == "ab":
        before = "##"
    if not after and joined(f"a{_END}", f"b{_END}") == "a b":
        after = _END
    is_apart = joined("a", "b") == "a b" and not any(_SPACE in token for token in tokens)
    goes_on = is_apart and any(len(t) > len(_GOES_ON) and t.endswith(_GOES_ON) for t in tokens)
    of_words = type(model).__name__ == "WordLevel"
    marked = goes_on or (before and joined("a", f"{before}b") != "ab")
    marked = marked or (after and joined(f"a{after}", f"b{after}") != "a b")
    letters: Mapping[str, int] = {}
    if joined("Ã", "©") == "é":
        letters = _LETTERS if joined("a", "Ġb") == "a b" else _LATIN
    return Notation(
        whole_words=of_words and not goes_on,
        letters=letters,
        byte_fallback=all(token in tokens for token in BYTES),
        goes_on_before=before or ("" if is_apart and not (of_words or after or goes_on) else None),
        ends_after=after or "",
        goes_on_after=_GOES_ON if goes_on and not (before or after) else "",
        decodes_with_marks=bool(marked),
    )
