"""What tokens spell: the text of each, and the written words that they make.

Tokens are given by their bytes in UTF-8, a token that begins a word with the space before it. A
character whose bytes are in several tokens is shown at each of them, with its part: the tokens of
``é`` are ``é[1/2]`` and ``é[2/2]``. A byte that is of no character, as in a broken sequence or
where a token has no neighbours, is shown as ``<0xC3>``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from headwise.model.interface import Tokenizers, Vocabulary, WordSpan

BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
"""How each byte is shown, and called in vocabularies with tokens of single bytes."""
_BROKEN = re.compile("[\udc80-\udcff]")


def show_bytes(token: bytes) -> str:
    """Return the text of a token without neighbours."""
    text = token.decode(errors="surrogateescape")
    return _BROKEN.sub(lambda found: BYTES[ord(found[0]) - 0xDC00], text)


def texts_of(tokens: Sequence[bytes]) -> list[str]:
    """Return the texts of tokens that follow one another."""
    return _characters(tokens)[0]


def word_spans(tokens: Sequence[bytes], special: Sequence[bool]) -> list[WordSpan]:
    """Split tokens into written words, which begin at spaces, and at and after marks.

    Spans are in order, without gaps; a special token is a word by itself.
    """
    starts: list[int] = []
    word_ended, before = True, ""
    _, texts = _characters(tokens)
    for index, (text, is_special) in enumerate(zip(texts, special, strict=True)):
        alone = is_special or _is_punctuation(text.removeprefix(" "))
        begins = word_ended or text[:1].isspace() or (alone and not before.isspace())
        if begins and (text or not starts):
            starts.append(index)
        word_ended = alone if text else word_ended
        before = text
    return [WordSpan(start, stop) for start, stop in pairwise([*starts, len(texts)])]


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
    """Return the id of a word that is one token; else a ValueError that begins with the name."""
    id = token_of(tokenizers.target, word)
    if id is None:
        ids = tokenizers.target.encode(word.strip())
        read = " ".join(tokenizers.target.texts(ids)) or "nothing"
        raise ValueError(f"{name}: expected one token, got {word!r:.60}, read as {read}")
    return id


def _is_punctuation(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text)[0] in "PS"


def _characters(tokens: Sequence[bytes]) -> tuple[list[str], list[str]]:
    """Return what each token shows, and the characters that begin in it: "" if none does."""
    shown, begun = [""] * len(tokens), [""] * len(tokens)
    tokens_of_bytes = [index for index, token in enumerate(tokens) for _ in token]
    start = 0
    for character in b"".join(tokens).decode(errors="surrogateescape"):
        encoded = character.encode(errors="surrogateescape")
        stop = start + len(encoded)
        holders = list(dict.fromkeys(tokens_of_bytes[start:stop]))
        text = show_bytes(encoded)
        begun[holders[0]] += text
        for part, index in enumerate(holders, start=1):
            shown[index] += text if len(holders) == 1 else f"{text}[{part}/{len(holders)}]"
        start = stop
    return shown, begun
