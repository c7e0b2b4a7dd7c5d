"""Labels and words follow from what tokens spell, however a tokenizer writes them."""

from __future__ import annotations

import functools
import json
import threading
import unicodedata
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertweetTokenizer,
    BlenderbotSmallTokenizer,
    ByT5Tokenizer,
    CLIPTokenizer,
    OpenAIGPTTokenizer,
    PreTrainedTokenizerFast,
)

from headwise.model.pretrained.tokenizers import PretrainedVocabulary, load_tokenizer
from headwise.model.spelling import BYTES, token_of
from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.trace.sentence import to_tokens
from tests.model.pretrained.tiny import MakeFolder

_TEXTS = ["the cats ran to the cafés , and the old café hunted them .", "it is 3.5 % of it"] * 9
_LETTERS = [*"abcdefghijklmnopqrstuvwxyzéABCDEF.,!?'%()0123456789"]
_QUIET = {"vocab_size": 140, "show_progress": False}
_MERGES = [("c", "a"), ("ca", "t"), ("t", "h"), ("ca", "f")]


def _trained(inner: Tokenizer, trainer: Any) -> dict[str, Any]:
    inner.train_from_iterator([*_TEXTS, *_LETTERS], trainer)
    trained = json.loads(inner.to_str())["model"]
    return {"vocab": trained["vocab"], "merges": list(map(tuple, trained.get("merges", ())))}


def _byte_fallback(_: Path) -> Any:
    """SentencePiece's byte-pair encoding, as Gemma's and Llama's."""
    before = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner = Tokenizer(models.BPE())
    inner.normalizer = before
    inner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    learned = _trained(
        inner,
        trainers.BpeTrainer(vocab_size=90, special_tokens=["<unk>", *BYTES], show_progress=False),
    )
    bpe = models.BPE(**learned, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    inner = Tokenizer(bpe)
    inner.normalizer = before
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _gpt(_: Path) -> Any:
    inner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings = _QUIET | {"end_of_word_suffix": "</w>", "special_tokens": ["<unk>"]}
    return OpenAIGPTTokenizer(**_trained(inner, trainers.BpeTrainer(**settings)))


def _clip(_: Path) -> Any:
    """Bytes and ends of words at once."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [*_MERGES, ("cat", "s</w>"), ("th", "e</w>")]
    special = ["<|startoftext|>", "<|endoftext|>"]
    merged = [first + second for first, second in merges]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *merged, *special]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=merges)


def _continued(special: list[str]) -> list[str]:
    whole = [*_LETTERS, "the", "cat", "cats"]
    return [*special, *whole, *(f"{letter}@@" for letter in (*_LETTERS, "ca", "cat", "caf", "th"))]


def _blenderbot(folder: Path) -> Any:
    tokens = _continued(["__start__", "__end__", "__unk__", "__null__"])
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    merges = "\n".join(map(" ".join, _MERGES))
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    return BlenderbotSmallTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def _bertweet(folder: Path) -> Any:
    (folder / "vocab.txt").write_text("".join(f"{token} 1\n" for token in _continued([])))
    merges = "".join(f"{first} {second} 1\n" for first, second in _MERGES)
    (folder / "bpe.codes").write_text(merges)
    return BertweetTokenizer(str(folder / "vocab.txt"), str(folder / "bpe.codes"))


def _subword_nmt(_: Path) -> Any:
    """Texts that subword-nmt has divided already, with a vocabulary of their parts."""
    vocabulary = {token: id for id, token in enumerate(_continued(["<unk>"]))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _prefixed(_: Path) -> Any:
    """A byte-pair encoding that marks what goes on with a word, without a decoder."""
    inner = Tokenizer(models.BPE(continuing_subword_prefix="##"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings = _QUIET | {"continuing_subword_prefix": "##", "special_tokens": ["<unk>"]}
    bpe = _trained(inner, trainers.BpeTrainer(**settings))
    inner = Tokenizer(models.BPE(**bpe, unk_token="<unk>", continuing_subword_prefix="##"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _words(_: Path) -> Any:
    inner = Tokenizer(models.WordLevel(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False)
    inner.train_from_iterator(_TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


KINDS: dict[str, Callable[[Path], Any]] = {
    "byte_fallback": _byte_fallback,
    "byt5": lambda _: ByT5Tokenizer(),
    "gpt": _gpt,
    "clip": _clip,
    "blenderbot_small": _blenderbot,
    "bertweet": _bertweet,
    "subword_nmt": _subword_nmt,
    "prefixed": _prefixed,
    "words": _words,
}
"""Functions that make a tokenizer; some write its files into a folder."""

OF_FOLDERS = ("t5", "marian", "bart", "bert2bert", "mbart", "m2m_100", "nllb")
_MARKS = {
    "prefixed": " ##",
    **dict.fromkeys(("blenderbot_small", "bertweet", "subword_nmt"), "@@ "),
}
"""What joins tokens of tokenizers that leave it in decoded texts, or some of it."""
texts = st.text(
    st.sampled_from(
        "  \t\n\u00a0\u3000abcthesné" + "e\u0301ñßжиシ日本हि\u094dع👍\u200d🏽.,!?'’-—%$()<>#/"
    )
)


@pytest.fixture(scope="session")
def make_vocabulary(make_folder: MakeFolder, tmp_path_factory: pytest.TempPathFactory) -> Any:
    def make(name: str) -> PretrainedVocabulary:
        if name in KINDS:
            tokenizer = KINDS[name](tmp_path_factory.mktemp(name))
        else:
            tokenizer = load_tokenizer(make_folder(name), 1_000)
        size = len(tokenizer)
        return PretrainedVocabulary(
            tokenizer, threading.Lock(), languages={}, is_target=False, size=size
        )

    return functools.cache(make)


def written_words(vocabulary: PretrainedVocabulary, ids: list[int]) -> list[str]:
    return [word.text for word in to_tokens(vocabulary, ids).words]


@pytest.mark.parametrize(
    ("name", "text", "labels", "words"),
    [
        ("byt5", "a café.", "a ␣ ·c ·a ·f ·é[1/2] ·é[2/2] .", "a café ."),
        ("byt5", "日", "日[1/3] ·日[2/3] ·日[3/3]", "日"),
        (
            "byte_fallback",
            "t ñ。x",
            "␣ ·t ␣ ·ñ[1/2] ·ñ[2/2] 。[1/3] ·。[2/3] ·。[3/3] x",
            "t ñ 。 x",
        ),
        ("bart", "the 日", "t ·he ␣ ·日[1/3] ·日[2/3] ·日[3/3]", "the 日"),
        ("gpt", "the cats ran", "the cats ran", "the cats ran"),
        ("gpt", "thee,cats", "th ·e ·e , cats", "thee , cats"),
        ("clip", "The cats ñ!", "the cats ñ[1/2] ·ñ[2/2] !", "the cats ñ !"),
        ("blenderbot_small", "the cafe, x", "th ·e caf ·e , x", "the cafe , x"),
        ("bertweet", "the cafe x", "th ·e caf ·e x", "the cafe x"),
        ("subword_nmt", "the ca@@ f@@ é !", "the ca ·f ·é !", "the café !"),
        ("prefixed", "thee cats", "the ·e cats", "thee cats"),
        ("words", "the cats.", "the cats .", "the cats ."),
    ],
)
def test_labels_and_words_of_a_text(
    make_vocabulary: Any, name: str, text: str, labels: str, words: str
) -> None:
    vocabulary = make_vocabulary(name)
    tokens = to_tokens(vocabulary, vocabulary.encode(text))
    assert " ".join(token_labels(tokens)) == labels
    assert " ".join(word.text for word in tokens.words) == words


@pytest.mark.parametrize("name", [*KINDS, *OF_FOLDERS])
@given(text=texts)
def test_words_begin_where_the_decoded_text_has_spaces_or_marks(
    make_vocabulary: Any, name: str, text: str
) -> None:
    vocabulary = make_vocabulary(name)
    ids = vocabulary.encode(text)
    spans = vocabulary.words(ids)
    covered = [place for span in spans for place in range(span.start, span.stop)]
    assert covered == list(range(len(ids)))

    def decoded(some: list[int]) -> list[str]:
        if mark := _MARKS.get(name):
            tokens = vocabulary._tokenizer.convert_ids_to_tokens(some)
            return f" {' '.join(tokens)} ".replace(mark, "").split()
        return str(vocabulary._tokenizer.decode(some, skip_special_tokens=False)).split()

    words = ["".join(decoded(ids[span.start : span.stop])) for span in spans]
    between = decoded(ids)
    joined = "".join(words)
    assert joined == "".join(between)
    starts = {0, *accumulate(map(len, words))}
    apart = {0, *accumulate(map(len, between))}
    assert apart <= starts
    for place in starts - apart:
        assert {unicodedata.category(c)[0] for c in joined[place - 1 : place + 1]} & {*"PS"}


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("byt5", {"é": ["<0xC3>", "<0xA9>"], "a": ["a"], " ": [" "]}),
        ("bart", {" 日": [" ", "<0xE6>", "<0x97>", "<0xA5>"]}),
        ("byte_fallback", {"ñ": [" ", "<0xC3>", "<0xB1>"]}),
        ("gpt", {"thee": [" th·", " e·", " e"]}),
        ("subword_nmt", {"caf@@ é": [" caf·", " é"]}),
        ("prefixed", {"thee": [" the", "e"]}),
    ],
)
def test_tokens_by_themselves_are_told_apart(
    make_vocabulary: Any, name: str, tokens: dict[str, list[str]]
) -> None:
    """A list of likely tokens has no neighbours that would complete a character or a word."""
    vocabulary = make_vocabulary(name)
    assert {text: vocabulary.tokens(vocabulary.encode(text)) for text in tokens} == tokens
    every = vocabulary.tokens(range(vocabulary.vocab_size))
    assert len({*every}) == len(every)
    labels = [next_token_label(token, spaced=True) for token in every]
    assert all("\ufffd" not in label and "@@" not in label for label in labels)


def test_a_broken_character_and_a_token_without_a_text_are_shown(make_vocabulary: Any) -> None:
    byt5 = make_vocabulary("byt5")
    first, second = byt5.encode("é")
    end = byt5._tokenizer.eos_token_id
    assert byt5.texts([first, end, second]) == ["<0xC3>", "</s>", "<0xA9>"]
    assert written_words(byt5, [first, end, second]) == ["<0xC3>", "</s>", "<0xA9>"]
    gpt = make_vocabulary("gpt")
    assert gpt.texts([*gpt.encode("the"), 0, *gpt.encode("e")]) == ["the", "<unk>", " e"]


def test_an_added_token_is_its_text(tmp_path: Path) -> None:
    for name, text in (("gpt", "the жи cats"), ("byt5", "жи"), ("prefixed", "the жи")):
        tokenizer = KINDS[name](tmp_path)
        tokenizer.add_tokens(["жи"])
        lock, size = threading.Lock(), len(tokenizer)
        vocabulary = PretrainedVocabulary(tokenizer, lock, languages={}, is_target=False, size=size)
        assert written_words(vocabulary, vocabulary.encode(text)) == text.split()


def test_a_token_is_found_by_how_pages_write_it(make_vocabulary: Any) -> None:
    gpt, prefixed = make_vocabulary("gpt"), make_vocabulary("prefixed")
    for each, label, token in ((gpt, "th·", " th·"), (gpt, "the", " the"), (prefixed, "·f", "f")):
        id = token_of(each, label)
        assert id is not None
        assert each.tokens([id]) == [token]
