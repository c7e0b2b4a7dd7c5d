"""Tokenizers that are trained here, behind our interface: the same ids, texts and words."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from headwise.model.decoding.greedy import greedy
from headwise.model.interface import Languages
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.pretrained.tokenizers import PretrainedTokenizers, load_tokenizer
from tests.model.pretrained.tiny import MakeFolder, change_json, save_model

NAMES = (
    *("marian", "marian_separate", "t5", "nllb", "mbart", "m2m_100", "bart", "bert2bert"),
    "camembert2xlm-roberta",
)
ENGLISH = "The dog runs, and the cat sleeps."
SPANISH = "El perro corre y el gato no duerme."


def _open(folder: Path, **languages: str) -> PretrainedTokenizers:
    return PretrainedRun(folder, "tiny", Languages(**languages)).tokenizers


@pytest.fixture(params=NAMES)
def folder(request: pytest.FixtureRequest, make_folder: MakeFolder) -> Path:
    return make_folder(request.param)


@pytest.fixture
def theirs(folder: Path) -> Any:
    tokenizer = load_tokenizer(folder, 1_000)
    if getattr(tokenizer, "tgt_lang", "") is None:
        tokenizer.tgt_lang = tokenizer.src_lang  # M2M100 wants to know it
    return tokenizer


@pytest.fixture
def tokenizers(folder: Path) -> PretrainedTokenizers:
    return _open(folder)


def test_ids_are_those_of_the_tokenizer(tokenizers: PretrainedTokenizers, theirs: Any) -> None:
    assert tokenizers.encode_source(ENGLISH) == theirs(ENGLISH)["input_ids"]
    bare = theirs(text_target=SPANISH, add_special_tokens=False)["input_ids"]
    assert tokenizers.target.encode(SPANISH) == bare
    assert tokenizers.encode_target(SPANISH)[len(tokenizers.prefix) : -1] == bare


def test_text_comes_back_and_is_that_of_the_tokens(tokenizers: PretrainedTokenizers) -> None:
    source, target = tokenizers.source, tokenizers.target
    assert source.decode(source.encode(ENGLISH)) == ENGLISH
    assert target.decode(tokenizers.encode_target(SPANISH)) == SPANISH  # without special tokens
    assert source.decode([]) == ""
    for vocabulary, text in ((tokenizers.source, ENGLISH), (tokenizers.target, SPANISH)):
        ids = vocabulary.encode(text)
        tokens = vocabulary.tokens(ids)
        # WordPiece does not say where there is no space before punctuation.
        assert re.sub(r" (?=[,.])", "", "".join(tokens)).strip() == text
        assert len(tokens) == len(ids)
        assert sum(token.startswith(" ") for token in tokens) >= len(text.split()) - 1


def test_special_tokens_are_words_by_name(tokenizers: PretrainedTokenizers, theirs: Any) -> None:
    ids = tokenizers.encode_target(SPANISH)
    tokens, spans = tokenizers.target.tokens(ids), tokenizers.target.words(ids)
    assert tokens[-1] == (theirs.eos_token or theirs.sep_token)
    assert (spans[-1].start, spans[-1].stop) == (len(ids) - 1, len(ids))
    assert tokens[0] == theirs.convert_ids_to_tokens(ids[0])
    assert (spans[0].start, spans[0].stop) == (0, 1)


def test_unknown_characters_are_reported(folder: Path, tokenizers: PretrainedTokenizers) -> None:
    text = "The 日本 dog 語"
    unknown = tokenizers.source.unknown(text)
    if "bart" in folder.name and "mbart" not in folder.name:
        assert unknown == []  # it encodes bytes
        assert tokenizers.source.decode(tokenizers.source.encode(text)) == text
    else:
        # BERT splits such characters.
        assert unknown == (["日", "本", "語"] if "bert2bert" in folder.name else ["日本", "語"])
    assert tokenizers.source.unknown(ENGLISH) == []
    assert tokenizers.target.unknown(SPANISH) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The \udc9f dog", "character 5 of the text is half a character"),
        ("a" * 20_001, "the text has 20,001 characters, at most 20,000 are read"),
    ],
)
def test_texts_that_cannot_be_tokenised_are_refused(
    tokenizers: PretrainedTokenizers, text: str, message: str
) -> None:
    for encode in (
        tokenizers.source.encode,
        tokenizers.target.encode,
        tokenizers.encode_source,
        tokenizers.encode_target,
    ):
        with pytest.raises(ValueError, match=message):
            encode(text)


def test_an_id_without_a_token_is_unused_and_bytes_make_one_word(make_folder: MakeFolder) -> None:
    target = _open(make_folder("t5")).target
    last = target.vocab_size - 1
    assert target.tokens([last]) == [f"<unused {last}>"]
    assert len(target.words([5, last])) == 2
    source = _open(make_folder("bart")).source
    ids = source.encode("dog 語")
    assert len(ids) > len(source.words(ids)) == 2


@pytest.mark.parametrize("name", ["marian", "marian_separate"])
def test_marian_has_a_model_for_each_side(name: str, make_folder: MakeFolder) -> None:
    tokenizers, theirs = _open(make_folder(name)), load_tokenizer(make_folder(name), 1_000)
    assert tokenizers.encode_target(SPANISH)[1:] == theirs(text_target=SPANISH)["input_ids"]
    assert tokenizers.source.encode(SPANISH) != tokenizers.target.encode(SPANISH)
    ids = list(range(3, 100))
    last = tokenizers.target.vocab_size - 1  # beyond the source's vocabulary, if that is its own
    shown = [side.tokens([*ids, last]) for side in (tokenizers.source, tokenizers.target)]
    assert (shown[0] != shown[1]) == (name == "marian_separate")
    assert not shown[1][-1].startswith("<unused")
    assert shown[0][-1].startswith("<unused") == (name == "marian_separate")


@pytest.mark.parametrize(
    ("name", "language", "tokens"),
    [
        ("marian", None, ["<pad>"]),
        ("t5", None, ["<pad>"]),
        ("bart", None, ["</s>"]),
        ("mbart", None, ["es_XX"]),
        ("mbart", "fr_XX", ["fr_XX"]),
        ("nllb", "spa_Latn", ["</s>", "spa_Latn"]),
        ("nllb", "fra_Latn", ["</s>", "fra_Latn"]),
        ("m2m_100", "es", ["</s>", "__es__"]),
    ],
)
def test_targets_begin_as_the_model_begins_them(
    make_folder: MakeFolder, name: str, language: str | None, tokens: list[str]
) -> None:
    tokenizers = _open(make_folder(name), **({"target": language} if language else {}))
    assert tokenizers.target.tokens(tokenizers.prefix) == tokens
    ids = tokenizers.encode_target(SPANISH)
    assert tuple(ids[: len(tokens)]) == tokenizers.prefix
    assert tokenizers.target.tokens(ids[-1:]) == ["</s>"]


@pytest.mark.parametrize(
    ("name", "language", "start", "end"),
    [
        ("nllb", "fra_Latn", ["fra_Latn"], ["</s>"]),
        ("mbart", "fr_XX", [], ["</s>", "fr_XX"]),
        ("m2m_100", "fr", ["__fr__"], ["</s>"]),
    ],
)
def test_source_language_is_put_where_the_model_expects_it(
    make_folder: MakeFolder, name: str, language: str, start: list[str], end: list[str]
) -> None:
    tokenizers = _open(make_folder(name), source=language)
    ids = tokenizers.encode_source(ENGLISH)
    tokens = tokenizers.source.tokens(ids)
    assert tokens[: len(start)] == start
    assert tokens[-len(end) :] == end
    theirs = load_tokenizer(make_folder(name), 1_000)
    theirs.src_lang = language
    assert ids == theirs(ENGLISH)["input_ids"]


def test_choices_are_those_of_tokenizer_and_configuration(make_folder: MakeFolder) -> None:
    def choices(name: str) -> Any:
        return PretrainedRun(make_folder(name), name).choices

    assert choices("marian").prefixes == (">>spa<< ", ">>cat<< ")
    assert choices("t5").prefixes == ("translate English to Spanish: ",)
    nllb = choices("nllb")
    assert nllb.sources == nllb.targets == ("eng_Latn", "fra_Latn", "spa_Latn")
    assert {"en_XX", "es_XX", "fr_XX"} < set(choices("mbart").targets)
    assert {"en", "es", "zh"} < set(choices("m2m_100").sources)
    for name in ("marian_separate", "bart"):
        found = choices(name)
        assert (found.sources, found.targets, found.prefixes) == ((), (), ())
    assert choices("marian").sources == choices("t5").targets == choices("nllb").prefixes == ()


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        ({"prefix": "summarize: "}, ["summarize: ", "translate English to Spanish: "]),
        ({"prefix": "summarize: ", "task_specific_params": None}, ["summarize: "]),
        ({"prefix": "translate English to Spanish: "}, ["translate English to Spanish: "]),
        ({"prefix": 7, "task_specific_params": {"a": {"prefix": [8]}}}, []),
    ],
)
def test_the_prefix_of_a_configuration_is_offered_beside_those_of_tasks(
    make_folder: MakeFolder, tmp_path: Path, settings: dict[str, Any], offered: list[str]
) -> None:
    folder = shutil.copytree(make_folder("t5"), tmp_path / "t5")
    change_json(folder / "config.json", **settings)
    assert [*PretrainedRun(folder, "t5").choices.prefixes] == offered


def test_a_chosen_prefix_is_put_before_the_source(make_folder: MakeFolder) -> None:
    marian = _open(make_folder("marian"), prefix=">>cat<< ")
    ids = marian.encode_source(ENGLISH)
    assert ids == load_tokenizer(make_folder("marian"), 1_000)(f">>cat<< {ENGLISH}")["input_ids"]
    assert marian.source.tokens(ids)[0] == ">>cat<<"
    assert (marian.source.words(ids)[0].start, marian.source.words(ids)[0].stop) == (0, 1)
    prefix = "translate English to Spanish: "
    t5 = _open(make_folder("t5"), prefix=prefix)
    assert t5.source.decode(t5.encode_source(ENGLISH)) == prefix + ENGLISH


def test_a_language_that_the_model_lacks_is_refused(make_folder: MakeFolder) -> None:
    with pytest.raises(ValueError, match="language 'deu_Latn': expected one of 'eng_Latn', 'fra_"):
        _ = _open(make_folder("nllb"), target="deu_Latn")
    with pytest.raises(ValueError, match="'>>xx<< ': expected one of '>>spa<< ', '>>cat<< '"):
        _ = _open(make_folder("marian"), prefix=">>xx<< ")


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_threads")
def test_threads_that_share_a_tokenizer_keep_sides_apart(make_folder: MakeFolder) -> None:
    tokenizers, text = _open(make_folder("marian_separate")), " ".join([SPANISH] * 30)
    expected = (tokenizers.source.encode(text), tokenizers.target.encode(text))
    barrier = threading.Barrier(2)

    def repeat(vocabulary: Any) -> list[list[int]]:
        barrier.wait()
        return [vocabulary.encode(text) for _ in range(50)]

    with ThreadPoolExecutor(2) as threads:
        found = threads.map(repeat, (tokenizers.source, tokenizers.target))
    assert list(found) == [[ids] * 50 for ids in expected]


def test_code_in_the_folder_is_never_run(make_folder: MakeFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(make_folder("bart"), tmp_path / "model")
    mine = {"AutoTokenizer": ["mine.Mine", None], "AutoConfig": "mine.Mine"}
    for name in ("tokenizer_config.json", "config.json"):
        change_json(folder / name, auto_map=mine)
    (folder / "mine.py").write_text("raise SystemExit('this must not run')")
    expected = _open(make_folder("bart")).encode_source(ENGLISH)
    assert _open(folder).encode_source(ENGLISH) == expected


# Languages that were added to a tokenizer

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
