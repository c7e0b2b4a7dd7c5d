"""The languages and tasks of a tokenizer of ``transformers``, and where the ids of languages go."""

from __future__ import annotations

import re
from typing import Any

from headwise.model.interface import Choices, SpecialIds

_CODE = re.compile(r"_*[a-z]{2,3}(_[A-Za-z]+)+")
"""How an added token looks that can only be the code of a language, such as ``tyv_Cyrl``."""
_FIRST_IN_TARGETS = ("decoder_start_token_id", "forced_bos_token_id")
"""Settings with an id that begins targets, which may be that of a language."""


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
    """Let a tokenizer put this language's token to each source.

    Those of M2M100 and PLBart know only the languages of their own tables.
    """
    values = {"lang_code_to_id": id, "lang_code_to_token": code, "lang_token_to_id": id}
    if code not in getattr(tokenizer, "lang_code_to_id", {code: id}):
        for table, value in values.items():
            getattr(tokenizer, table, {})[code] = value
    tokenizer.src_lang = code


def target_prefix(
    special: SpecialIds, known: dict[str, int], forced: int | None, target: str | None
) -> tuple[int, ...]:
    """The ids with which a target begins.

    NLLB, M2M100 and mBART-50 have a start and then the language; mBART starts with the language.
    """
    if target is None:
        return (special.start,) if forced is None else (special.start, forced)
    language = known[target]
    return (language,) if special.start in known.values() else (special.start, language)
