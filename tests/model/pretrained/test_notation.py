"""Labels and words follow from what tokens spell, however a tokenizer writes them."""

from __future__ import annotations

import functools
import threading
import unicodedata
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.pretrained.tokenizers import PretrainedVocabulary, load_tokenizer
from headwise.model.spelling import token_of
from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.trace.sentence import to_tokens
from tests.model.pretrained.kinds import KINDS
from tests.model.pretrained.tiny import MakeFolder

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
