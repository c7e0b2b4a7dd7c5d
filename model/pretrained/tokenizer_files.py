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

from pydantic import Field

from headwise.model.files import CheckpointError, lines_of, read_bytes, read_json
from headwise.model.pretrained.folders import check_files
from headwise.model.validation import validate_json

_Token = str | dict[str, Any] | None
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
    additional_special_tokens: list[str | dict[str, Any]] | None = None
    extra_special_tokens: list[str | dict[str, Any]] | dict[str, _Token] | None = None
    added_tokens_decoder: dict[Annotated[str, Field(pattern=r"^\d{1,9}$")], dict[str, Any]] = field(
        default_factory=dict
    )
    source_lang: str | None = None
    target_lang: str | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None
    language_codes: str | None = None
    separate_vocabs: bool = False
    sp_model_kwargs: dict[str, Any] | None = None
    extra_ids: Annotated[int, Field(ge=0, lt=100_000)] | None = None
    num_madeup_words: Annotated[int, Field(ge=0, lt=100_000)] | None = None


def _check_settings(content: bytes) -> None:
    validate_json(_Settings, content, extra="ignore")


def _check_ids(content: bytes) -> None:
    ids = validate_json(_Ids, content)
    if not ids:
        raise ValueError("expected tokens and their ids, got none")
    if len(set(ids.values())) < len(ids):
        raise ValueError("expected an id of its own for each token, got some twice")


def _check_added(content: bytes) -> None:
    validate_json(_Ids, content)


def _check_tokenizer(content: bytes) -> None:
    from tokenizers import Tokenizer

    with panics_as_errors():
        try:
            tokenizer = Tokenizer.from_str(content.decode())
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer ({error!s:.200})") from error
        if not tokenizer.get_vocab_size():
            raise ValueError("expected a vocabulary, got none")
        tokenizer.encode("a")


def _check_sentencepiece(content: bytes) -> None:
    from sentencepiece import SentencePieceProcessor

    try:
        pieces = SentencePieceProcessor(model_proto=content).get_piece_size()
    except Exception as error:  # the library raises what it meets
        raise ValueError("not a model of SentencePiece") from error
    if not pieces:
        raise ValueError("expected the tokens of a model of SentencePiece, got none")


def _check_lines(content: bytes) -> None:
    lines = lines_of(content)
    if not lines:
        raise ValueError("expected a token in each line, got no line")
    if len({*lines}) < len(lines):
        raise ValueError("expected a token in each line, got some twice")


_CHECKS: dict[str, Callable[[bytes], None]] = {
    "tokenizer_config.json": _check_settings,
    "special_tokens_map.json": _check_settings,
    "added_tokens.json": _check_added,
    "vocab.json": _check_ids,
    "target_vocab.json": _check_ids,
    "vocab.txt": _check_lines,
    "tokenizer.json": _check_tokenizer,
    "source.spm": _check_sentencepiece,
    "target.spm": _check_sentencepiece,
    "spiece.model": _check_sentencepiece,
    "sentencepiece.bpe.model": _check_sentencepiece,
}
"""Every file of which a tokenizer of the families that are opened is read."""


def check_tokenizer_files(folder: Path) -> None:
    """Check the files of a tokenizer that are there.

    Raises:
        CheckpointError: naming the file that is broken, and what is wrong with it.
    """
    check_files(folder)
    for name in ("config.json", "generation_config.json"):  # the first says which tokenizer it is
        path = folder / name
        if path.is_file() and not isinstance(values := read_json(path), dict):
            raise CheckpointError(f"{path}: expected an object, got {type(values).__name__}")
    for name, check in _CHECKS.items():
        path = folder / name
        if not path.is_file():
            continue
        content = read_bytes(path)
        try:
            check(content)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; restore the file") from error


def read_files(folder: Path) -> str:
    """Name the files of a tokenizer that are there, for a message."""
    return ", ".join(name for name in _CHECKS if (folder / name).is_file()) or "no file"


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a ValueError where the native library gives up, which is no ``Exception`` by itself.

    So it does where a pattern, by which a tokenizer divides texts, must be tried in too many ways.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = str(error).splitlines()[0][:120]
        raise ValueError(f"the tokenizer gave up on this text ({reason})") from error
