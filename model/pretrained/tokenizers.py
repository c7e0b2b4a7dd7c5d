"""Tokenizers of ``transformers``, and their languages and tasks, behind the interface of ours.

A tokenizer of two languages, or of many, has modes that its methods switch; a lock keeps threads
that share it apart.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from transformers import AutoTokenizer

from headwise.model.files import CheckpointError
from headwise.model.interface import Choices, Ids, Languages, SpecialIds, WordSpan
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.notation import Notation, notation_of, spaces_before
from headwise.model.pretrained.tokenizer_files import (
    check_tokenizer_files,
    panics_as_errors,
    read_files,
)
from headwise.model.spelling import texts_of, word_spans
from headwise.model.validation import check_text

TARGET_TOKENIZER = "target_tokenizer"
"""Name of the folder, beside the model, of a tokenizer that is only for the target."""
_CODE = re.compile(r"_*[a-z]{2,3}(_[A-Za-z]+)+")
"""How an added token looks that can only be the code of a language, such as ``tyv_Cyrl``."""
_FIRST_IN_TARGETS = ("decoder_start_token_id", "forced_bos_token_id")
"""Settings with an id that begins targets, which may be that of a language."""


class PretrainedVocabulary:
    """The tokens of one language of a tokenizer; ``Vocabulary`` describes what it has."""

    def __init__(
        self,
        tokenizer: Any,
        lock: threading.Lock,
        *,
        is_target: bool,
        size: int,
        languages: Mapping[str, int],
    ) -> None:
        self._tokenizer, self._lock = tokenizer, lock
        self._is_target, self._languages = is_target, languages
        self.vocab_size = size
        """The rows of the embedding; a tokenizer may use fewer."""

    @property
    def kind(self) -> Literal["bpe", "word"]:
        return "word" if self._notation.whole_words else "bpe"

    @cached_property
    def _notation(self) -> Notation:
        tokens = {t for id, t in self._raw_tokens.items() if id not in self._special}
        with self._lock:
            return notation_of(self._tokenizer, tokens)

    @cached_property
    def _raw_tokens(self) -> dict[int, str]:
        """Map ids to tokens as the tokenizer writes them."""
        if getattr(self._tokenizer, "separate_vocabs", False):
            of_side = "target_encoder" if self._is_target else "encoder"
            return {id: token for token, id in getattr(self._tokenizer, of_side).items()}
        # M2M100 does not count its languages; a vocabulary may have ids without a token.
        known = {*self._tokenizer.get_vocab().values(), *self._languages.values()}
        ids = sorted({*range(len(self._tokenizer)), *known})
        tokens = zip(ids, self._tokenizer.convert_ids_to_tokens(ids), strict=True)
        return {id: token for id, token in tokens if token is not None}

    @cached_property
    def _special(self) -> set[int]:
        tokenizer = self._tokenizer
        # Marian's, such as >>cat<<, say into which language a source is translated.
        codes = tokenizer.convert_tokens_to_ids(getattr(tokenizer, "supported_language_codes", []))
        return {*tokenizer.all_special_ids, *self._languages.values(), *codes}

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self._tokenizer.added_tokens_decoder)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(self._special - {self._tokenizer.unk_token_id})

    def _encoded(self, text: str, **settings: Any) -> Any:
        check_text(text)
        given = {"text_target" if self._is_target else "text": text}
        with self._lock, panics_as_errors():
            return self._tokenizer(**given, add_special_tokens=False, **settings)

    def encode(self, text: str) -> list[int]:
        return list(self._encoded(text)["input_ids"])

    def unknown(self, text: str) -> list[str]:
        unknown = self._tokenizer.unk_token_id
        if unknown is None or unknown not in (ids := self.encode(text)):
            return []
        if self._tokenizer.is_fast:
            offsets = self._encoded(text, return_offsets_mapping=True)["offset_mapping"]
            spans = zip(ids, offsets, strict=True)
            return [text[start:stop] for id, (start, stop) in spans if id == unknown]
        # These tokenizers do not say where a token was.
        return [word for word in text.split() if unknown in self.encode(word)]

    def decode(self, ids: Ids) -> str:
        shown = [id for id in ids if id not in self._special]
        of_source = getattr(self._tokenizer, "separate_vocabs", False) and not self._is_target
        if of_source or self._notation.decodes_with_marks:
            return b"".join(self._bytes(shown)).decode(errors="replace").strip()
        with self._lock:
            return str(self._tokenizer.decode(shown)).strip()

    def tokens(self, ids: Ids) -> list[str]:
        return [
            self._name(id) or self._notation.name(self._raw_tokens[id], added=id in self._added)
            for id in ids
        ]

    def texts(self, ids: Ids) -> list[str]:
        return texts_of(self._bytes(ids))

    def words(self, ids: Ids) -> list[WordSpan]:
        if self.kind == "word":
            return [WordSpan(index, index + 1) for index in range(len(ids))]
        return word_spans(self._bytes(ids), [self._name(id) is not None for id in ids])

    def _name(self, id: int) -> str | None:
        """Return the name of a token that is special or of an id without a token."""
        token = self._raw_tokens.get(id, f"<unused {id}>")
        return token if id in self._special or id not in self._raw_tokens else None

    def _bytes(self, ids: Ids) -> list[bytes]:
        names = [self._name(id) for id in ids]
        tokens = [
            self._notation.to_bytes(self._raw_tokens[id], added=id in self._added)
            if name is None
            else name.encode()
            for id, name in zip(ids, names, strict=True)
        ]
        if self._notation.marks_ends:
            return spaces_before(tokens, [name is not None for name in names])
        return tokens


class PretrainedTokenizers:
    """The ``Tokenizers`` of a model, for one choice of languages."""

    def __init__(
        self,
        tokenizer: Any,
        special: SpecialIds,
        *,
        config: Any,
        generation: Any,
        sizes: tuple[int, int],
        languages: Languages,
        own_target: Any = None,
        place: str,
    ) -> None:
        """Set a tokenizer, which is changed, up for a model and a choice of languages.

        ``sizes`` are the rows of both embeddings; ``own_target`` is only for the target; errors
        begin with ``place``. A tokenizer with more tokens than the model is a CheckpointError, an
        unknown language or prefix a ValueError.
        """
        choices = choices_of(tokenizer, config, generation)
        for what, chosen, expected in (
            ("source language", languages.source, choices.sources),
            ("target language", languages.target, choices.targets),
            ("prefix", languages.prefix, choices.prefixes),
        ):
            if chosen and chosen not in expected:
                one = f"one of {', '.join(map(repr, expected))}" if expected else "none"
                raise ValueError(f"{what} {chosen!r:.60}: expected {one}")
        known = language_ids(tokenizer, config, generation)
        if languages.source:
            set_source_language(tokenizer, languages.source, known[languages.source])
        if known and tokenizer.tgt_lang is None:  # M2M100 encodes no target without one
            tokenizer.tgt_lang = tokenizer.src_lang
        if len(tokenizer) > max(sizes):
            raise CheckpointError(
                f"{place}: the tokenizer has {len(tokenizer):,} tokens, the model embeds "
                f"{max(sizes):,}; is it the tokenizer of this model?"
            )
        self._lock = threading.Lock()
        self._tokenizer, self._end = tokenizer, special.end
        self._before = languages.prefix or ""
        self.source, self.target = (
            PretrainedVocabulary(
                of_side, self._lock, is_target=is_target, size=size, languages=known
            )
            for of_side, is_target, size in zip(
                (tokenizer, own_target or tokenizer), (False, True), sizes, strict=True
            )
        )
        self.prefix = target_prefix(
            special, known, generation.forced_bos_token_id, languages.target
        )

    def encode_source(self, text: str) -> list[int]:
        check_text(text)
        with self._lock, panics_as_errors():
            return list(self._tokenizer(self._before + text)["input_ids"])

    def encode_target(self, text: str) -> list[int]:
        return [*self.prefix, *self.target.encode(text), self._end]


def choices_of(tokenizer: Any, config: Any, generation: Any) -> Choices:
    """Find what can be chosen, from tokenizer, configuration and settings of generation."""
    if getattr(tokenizer, "supported_language_codes", None):  # Marian: a code before the source
        return Choices(prefixes=tuple(f"{code} " for code in tokenizer.supported_language_codes))
    codes = tuple(sorted(language_ids(tokenizer, config, generation)))
    if codes:
        return Choices(sources=codes, targets=codes)
    tasks = getattr(config, "task_specific_params", None) or {}
    prefixes = [getattr(config, "prefix", None)]
    if isinstance(tasks, dict):
        prefixes += [task.get("prefix") for task in tasks.values() if isinstance(task, dict)]
    given = (prefix for prefix in prefixes if isinstance(prefix, str) and prefix)
    return Choices(prefixes=tuple(dict.fromkeys(given)))


def language_ids(tokenizer: Any, config: Any, generation: Any) -> dict[str, int]:
    """Map the codes of languages to ids; empty where the tokenizer has none.

    Those are the languages of the tokenizer's own table, and the tokens of others: special tokens
    that were added, other added tokens that look like a code, and what settings name as one.
    """
    if not hasattr(tokenizer, "src_lang"):
        return {}
    table = getattr(tokenizer, "lang_code_to_id", None) or {}
    added = {str(token): token.special for token in tokenizer.added_tokens_decoder.values()}
    added |= dict.fromkeys(tokenizer.all_special_tokens, True)
    codes = {
        token
        for token, is_special in added.items()
        if _CODE.fullmatch(token) or (is_special and token[0] not in "<[")
    }
    ids: list[Any] = []
    for settings in (config, generation):
        ids += [getattr(settings, name, None) for name in _FIRST_IN_TARGETS]
        by_code = getattr(settings, "lang_to_id", None)
        ids += by_code.values() if isinstance(by_code, dict) else ()
    usable = [id for id in ids if type(id) is int and 0 <= id < len(tokenizer)]
    codes |= {*tokenizer.convert_ids_to_tokens(usable), tokenizer.src_lang, tokenizer.tgt_lang}
    codes -= {None, *table, *getattr(tokenizer, "lang_code_to_token", {}).values()}
    codes -= {token for token in tokenizer.special_tokens_map.values() if isinstance(token, str)}
    found = table | {code: tokenizer.convert_tokens_to_ids(code) for code in codes}
    return {code: id for code, id in found.items() if id != tokenizer.unk_token_id}


def set_source_language(tokenizer: Any, code: str, id: int) -> None:
    """Let a tokenizer, perhaps of a table without it, put this language's token to sources."""
    values = {"lang_code_to_id": id, "lang_code_to_token": code, "lang_token_to_id": id}
    if code not in getattr(tokenizer, "lang_code_to_id", {code: id}):
        for table, value in values.items():
            getattr(tokenizer, table, {})[code] = value
    tokenizer.src_lang = code


def target_prefix(
    special: SpecialIds, known: dict[str, int], forced: int | None, target: str | None
) -> tuple[int, ...]:
    """Return the ids with which a target begins.

    NLLB, M2M100 and mBART-50 have a start and then the language; mBART starts with the language.
    """
    if target is None:
        return (special.start,) if forced is None else (special.start, forced)
    language = known[target]
    return (language,) if special.start in known.values() else (special.start, language)


def load_tokenizer(folder: Path, tokens: int) -> Any:
    """Load a tokenizer for a model of some tokens; a CheckpointError names what is broken."""
    check_tokenizer_files(folder, tokens)
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # its loaders raise whatever they meet
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise CheckpointError(
            f"{folder / 'tokenizer_config.json'}: no tokenizer can be made of it and of what is "
            f"beside it: {read_files(folder)} ({reason}); copy all files of the tokenizer into "
            "this folder"
        ) from error
