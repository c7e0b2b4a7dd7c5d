"""Check the files of a Hugging Face tokenizer one by one, so that a message names the broken one.

The loaders of ``transformers`` raise whatever they meet where a file is not as they expect, without
its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from headwise.model.files import CheckpointError, lines_of, parse_json, read_bytes
from headwise.model.pretrained.folders import MOST_BYTES_OF, check_files, read_settings
from headwise.model.validation import check_values, validate_json

MOST_ADDED = 10_000
"""Most tokens that are added to a vocabulary; Gemma 3 has 6,415."""
_MOST_TEXT_OF_ADDED = 2**20
"""Characters of all of them."""
_MOST_OF_SPECIAL = 2_000
"""Most special tokens in one list: each is looked for in all others."""
_MOST_OF_PARTS = 2 * 2**20
"""Bytes of a tokenizer's JSON without vocabulary; a normalizer has up to 320,000."""
_MOST_AROUND = 1_000
"""Tokens that a tokenizer may put before and after a text."""
_MOST_LINES = 600_000
_MORE_TOKENS = 20_000
_MOST_FEW, _VALUES_OF_TOKEN = 100_000, 10
"""Values of a tokenizer's JSON: so many, and for each token of its model. Gemma has 7.8 for each: a
token, and 2.3 merges of two."""
_WITH_LENGTH = 2
"""The kind of a field of protobuf that is a message, or a text."""
_Token = str | dict[str, Any] | None
_Texts = Annotated[list[str | dict[str, Any]], Field(max_length=_MOST_OF_SPECIAL)]
_Count = Annotated[int, Field(ge=0, lt=_MOST_OF_SPECIAL)]
_Ids = dict[str, Annotated[int, Field(ge=0, lt=10_000_000)]]


@dataclass(frozen=True)
class _Settings:
    """The part of ``tokenizer_config.json`` and ``special_tokens_map.json`` with a known type."""

    tokenizer_class: str | None = None
    model_max_length: int | float | None = None
    bos_token: _Token = None
    eos_token: _Token = None
    unk_token: _Token = None
    sep_token: _Token = None
    pad_token: _Token = None
    cls_token: _Token = None
    mask_token: _Token = None
    additional_special_tokens: _Texts | None = None
    extra_special_tokens: (
        _Texts | Annotated[dict[str, _Token], Field(max_length=_MOST_OF_SPECIAL)] | None
    ) = None
    added_tokens_decoder: Annotated[
        dict[Annotated[str, Field(pattern=r"^\d{1,7}$")], dict[str, Any]],
        Field(max_length=MOST_ADDED),
    ] = field(default_factory=dict)
    source_lang: str | None = None
    target_lang: str | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None
    language_codes: str | None = None
    separate_vocabs: bool = False
    sp_model_kwargs: dict[str, Any] | None = None
    extra_ids: _Count | None = None
    num_madeup_words: _Count | None = None
    offset: _Count | None = None


def _check_settings(content: bytes, _: int) -> None:
    validate_json(_Settings, content, extra="ignore")
    if len(parse_json(content)) > _MOST_OF_SPECIAL:  # each is given to the class of the tokenizer
        raise ValueError(f"expected at most {_MOST_OF_SPECIAL:,} settings, got more")


def _check_ids(content: bytes, tokens: int) -> None:
    ids = validate_json(_Ids, content)
    if len(ids) > (most := 2 * tokens + _MORE_TOKENS):
        raise ValueError(f"expected at most {most:,} tokens, got {len(ids):,}: the model has fewer")
    if not ids:
        raise ValueError("expected tokens and their ids, got none")
    if len(set(ids.values())) < len(ids):
        raise ValueError("expected an id of its own for each token, got some twice")


def _check_added(content: bytes, _: int) -> None:
    if len(validate_json(_Ids, content)) > MOST_ADDED:
        raise ValueError(f"expected at most {MOST_ADDED:,} added tokens, got more")


def _check_tokenizer(content: bytes, tokens: int) -> None:
    from tokenizers import Tokenizer

    check_values(content, _MOST_FEW + _VALUES_OF_TOKEN * tokens)
    try:
        values = parse_json(content)
    except ValueError as error:
        raise ValueError(f"not a tokenizer ({error})") from error
    _check_parts(values)
    del values
    with panics_as_errors():
        try:
            tokenizer = Tokenizer.from_str(content.decode())
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer ({error!s:.200})") from error
        if not tokenizer.get_vocab_size():
            raise ValueError("expected a vocabulary, got none")
        if (around := tokenizer.num_special_tokens_to_add(is_pair=False)) > _MOST_AROUND:
            raise ValueError(
                f"post_processor: expected at most {_MOST_AROUND:,} tokens around a text, got "
                f"{around:,}"
            )
        tokenizer.no_padding()  # which may be to any length
        tokenizer.encode("a")


def _check_parts(values: Any) -> None:
    """Check how much is beside the vocabulary: the library takes up to 160 times its memory."""
    if not isinstance(values, dict):
        raise ValueError(f"not a tokenizer (expected an object, got {type(values).__name__})")
    added = values.pop("added_tokens", None) or []
    values.pop("model", None)
    if not isinstance(added, list) or len(added) > MOST_ADDED:
        raise ValueError(f"added_tokens: expected a list of at most {MOST_ADDED:,}, got others")
    texts = (token.get("content") for token in added if isinstance(token, dict))
    if sum(len(text) for text in texts if isinstance(text, str)) > _MOST_TEXT_OF_ADDED:
        raise ValueError(f"added_tokens: expected at most {_MOST_TEXT_OF_ADDED:,} characters")
    for name, part in values.items():
        written = orjson.dumps(part)
        if len(written) > _MOST_OF_PARTS:
            raise ValueError(f"{name!r:.40}: expected at most {_MOST_OF_PARTS:,} bytes, got more")
        check_values(written, _MOST_FEW)


def _check_sentencepiece(content: bytes, _: int) -> None:
    from sentencepiece import SentencePieceProcessor

    _check_fields(content)
    try:
        pieces = SentencePieceProcessor(model_proto=content).get_piece_size()
    except Exception as error:  # the library raises what it meets
        raise ValueError("not a model of SentencePiece") from error
    if not pieces:
        raise ValueError("expected the tokens of a model of SentencePiece, got none")


def _check_fields(content: bytes) -> None:
    """Count the fields of a message of protobuf, of which each token is one of some length."""
    place = count = 0
    while place < len(content) and content[place] & 7 == _WITH_LENGTH:
        place, length, shift = place + 1, 0, 0
        while place < len(content):
            byte = content[place]
            length, shift, place = length | (byte & 127) << shift, shift + 7, place + 1
            if byte < 128 or shift > 63:
                break
        place, count = place + length, count + 1
        if count > _MOST_LINES:
            raise ValueError(f"expected at most {_MOST_LINES:,} tokens, got more")


def _check_lines(content: bytes, _: int) -> None:
    _check_merges(content, _)
    lines = lines_of(content)
    if not lines:
        raise ValueError("expected a token in each line, got no line")
    if len({*lines}) < len(lines):
        raise ValueError("expected a token in each line, got some twice")


def _check_merges(content: bytes, _: int) -> None:
    if content.count(b"\n") + content.count(b"\r") > _MOST_LINES:
        raise ValueError(f"expected at most {_MOST_LINES:,} lines, got more")


_CHECKS: dict[str, Callable[[bytes, int], None]] = {
    "tokenizer_config.json": _check_settings,
    "special_tokens_map.json": _check_settings,
    "added_tokens.json": _check_added,
    "vocab.json": _check_ids,
    "target_vocab.json": _check_ids,
    "merges.txt": _check_merges,
    "vocab.txt": _check_lines,
    "tokenizer.json": _check_tokenizer,
    "source.spm": _check_sentencepiece,
    "target.spm": _check_sentencepiece,
    "spiece.model": _check_sentencepiece,
    "sentencepiece.bpe.model": _check_sentencepiece,
}
"""Every file of which a tokenizer of the families that are opened is read."""


def check_tokenizer_files(folder: Path, tokens: int) -> None:
    """Check the files that are there, for a model of some tokens; a CheckpointError names one."""
    check_files(folder)
    for name in ("config.json", "generation_config.json"):  # the first says which tokenizer it is
        path = folder / name
        if path.is_file():
            read_settings(path)
    for name, check in _CHECKS.items():
        path = folder / name
        if not path.is_file():
            continue
        content = read_bytes(path, most=MOST_BYTES_OF[name])
        try:
            check(content, tokens)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; restore the file") from error


def read_files(folder: Path) -> str:
    """Name the files of a tokenizer that are there, for a message."""
    return ", ".join(name for name in _CHECKS if (folder / name).is_file()) or "no file"


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a ValueError where the native library gives up, as on patterns of too many ways."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = str(error).splitlines()[0][:120]
        raise ValueError(f"the tokenizer gave up on this text ({reason})") from error
