"""Languages that were added to a tokenizer: offered, and translated as ``transformers`` does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from headwise.model.decoding.greedy import greedy
from headwise.model.interface import Languages
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.pretrained.tokenizers import load_tokenizer
from tests.model.pretrained.tiny import MakeFolder, change_json, save_model

ENGLISH = "The dog runs, and the cat sleeps."
FIRST = {"nllb": "eng_Latn", "mbart": "en_XX", "m2m_100": "en"}
WAYS: dict[str, Callable[[Any, list[str]], Any]] = {
    "added special": lambda t, codes: t.add_tokens(codes, special_tokens=True),
    "added": lambda t, codes: t.add_tokens(codes),
    "additional": lambda t, codes: t.add_special_tokens({"additional_special_tokens": codes}),
    "settings": lambda t, codes: t.add_tokens(codes),
}
CASES = [
    *(("nllb", way, code) for way, code in (("added", "tzm_Tfng_MA"), ("settings", "xx"))),
    *(("mbart", way, code) for way, code in (("added special", "ca_ES"), ("additional", "xx"))),
    *(("m2m_100", way, "__tzm__") for way in ("added special", "settings")),
]


def _extended(folder: Path, make_folder: MakeFolder, family: str, way: str, code: str) -> Any:
    """Write a model into a folder whose tokenizer has one language more; return the tokenizer."""
    shutil.copytree(make_folder(family), folder, dirs_exist_ok=True)
    with quiet():
        tokenizer = load_tokenizer(folder, 1_000)
        WAYS[way](tokenizer, ["<sep>", "covid", code] if way == "added" else [code])
        tokenizer.save_pretrained(folder)
        changes: dict[str, Any] = {"vocab_size": len(tokenizer) + 120}
        if family == "mbart":
            changes["decoder_start_token_id"] = tokenizer.convert_tokens_to_ids("es_XX")
        save_model(folder, "mbart" if family == "mbart" else "m2m_100", **changes)
    forced = {"forced_bos_token_id": None}
    of_settings = {"lang_to_id": {code: tokenizer.convert_tokens_to_ids(code)}}
    change_json(
        folder / "generation_config.json", **forced, **of_settings if way == "settings" else {}
    )
    return load_tokenizer(folder, 1_000)


@pytest.mark.parametrize(("family", "way", "code"), CASES)
def test_an_added_language_is_offered_and_translated_as_plain_transformers_does(
    make_folder: MakeFolder, tmp_path: Path, family: str, way: str, code: str
) -> None:
    theirs = _extended(tmp_path, make_folder, family, way, code)
    run = PretrainedRun(tmp_path, family)
    assert {code, FIRST[family]} <= {*run.choices.sources} == {*run.choices.targets}
    named = {"covid", *theirs.special_tokens_map.values()}
    assert not {"<sep>", *named} & {*run.choices.targets}
    inner = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    first = "decoder_start_token_id" if family == "mbart" else "forced_bos_token_id"
    for source, target in ((FIRST[family], code), (code, FIRST[family])):
        tokenizers = run.for_languages(Languages(source, target)).tokenizers
        ids = tokenizers.encode_source(ENGLISH)
        tokens = theirs.convert_ids_to_tokens(ids)
        if source != code or family != "m2m_100":  # whose own tokenizer refuses it
            theirs.src_lang = source
            assert ids == theirs(ENGLISH)["input_ids"]
        assert (tokens[-1] if family == "mbart" else tokens[0]).strip("_") == source.strip("_")
        token = f"__{target}__" if target == "en" else target
        with quiet():
            expected = inner.generate(
                torch.tensor([ids]),
                num_beams=1,
                max_new_tokens=12,
                **{first: theirs.convert_tokens_to_ids(token)},
            )[0].tolist()
        [found] = greedy(run.load(0).model, [ids], tokenizers.prefix)
        assert found[: len(expected)] == expected
        assert tokenizers.target.tokens(tokenizers.prefix)[-1] == token
        assert not tokenizers.target.decode(tokenizers.prefix)


def test_without_a_chosen_language_a_target_begins_as_that_of_generate(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    theirs = _extended(tmp_path, make_folder, "mbart", "additional", "ca_ES")
    forced = theirs.convert_tokens_to_ids("ca_ES")
    change_json(tmp_path / "generation_config.json", forced_bos_token_id=forced)
    tokenizers = PretrainedRun(tmp_path, "mbart").tokenizers
    assert tokenizers.target.tokens(tokenizers.prefix) == ["es_XX", "ca_ES"]
