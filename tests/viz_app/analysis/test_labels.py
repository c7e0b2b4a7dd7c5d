"""Labels of tokens and words; the lens, and temperature, top-k and top-p by hand."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.model.decoding.translation import nucleus
from headwise.model.interface import Kind
from headwise.viz_app.analysis.labels import (
    bound_text,
    from_where_they_part,
    interval_text,
    make_visible,
    marked_words,
    next_token_label,
    numbered,
    three_digits,
    token_label,
    token_labels,
    token_marks,
    vocabulary_labels,
    word_labels,
)
from headwise.viz_app.analysis.predictions import (
    agreement,
    close_positions,
    entropy,
    read_lens,
    sampled,
)
from headwise.viz_app.records.trace import Tokens, Trace, Word
from tests.floats import assert_near, near

MakeTokens = Callable[..., Tokens]


def test_invisible_characters_are_replaced() -> None:
    for text in ("niña", "two words", "🍎", ""):
        assert make_visible(text) == text
    space, tag, white = "\u200b", "\U000e0041", "\t\n \u00a0\u3000"
    assert make_visible(f"a\x1bb{space}\u202et\u00ad{tag}") == (
        "a\\u001bb\\u200b\\u202et\\u00ad\\U000e0041"
    )
    assert make_visible(white) == "⇥⏎␣␣␣"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("el gato ve un perro", "el gato ve un perro"),
        ("el gato ve al perro", "… al perro"),
        ("el perro ve un gato", "… perro ve un gato"),
        ("un gato ve un perro", "un gato ve un perro"),
        ("el gato ve un", "… un"),
        ("el gato ve un perro negro", "… negro"),
        ("", ""),
    ],
)
def test_a_hypothesis_is_written_from_where_it_parts(other: str, expected: str) -> None:
    assert from_where_they_part("el gato ve un perro", other) == expected


@settings(max_examples=30)
@given(st.text(min_size=1))
def test_no_control_or_format_character_is_left(text: str) -> None:
    seen = make_visible(text)
    assert seen.strip()
    assert not {"Cc", "Cf"} & {unicodedata.category(character) for character in seen}


def test_continuing_tokens_are_marked(make_tokens: MakeTokens) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" \u202en", "ñ"], [" "], [" ·"], ["</s>"])
    labels = ["<s>", "see", "·s", ",", "\\u202en", "·ñ", "␣", "·", "</s>"]
    assert token_labels(tokens) == labels
    assert [token_label(text) for text in tokens.texts] == [
        *("<s>", "see", "s", ",", "\\u202en", "ñ", "␣", "·", "</s>")
    ]
    assert word_labels(tokens)[:4] == ["<s>", "sees", ",", "\\u202enñ"]
    assert numbered(labels)[:2] == ["1: <s>", "2: see"]


def test_tokens_of_a_vocabulary_that_continue_a_word_are_marked() -> None:
    tokens = ["<s>", "</s>", "<0x0A>", " the", "the", " ", "\n", ".", " .", "<b>"]
    assert vocabulary_labels(tokens, spaced=True) == (
        "<s>", "</s>", "<0x0A>", "the", "·the", "␣", "·⏎", "·.", ".", "·<b>",
    )  # fmt: skip
    assert vocabulary_labels(tokens, spaced=True, control_ids={9})[8:] == (".", "<b>")
    assert vocabulary_labels(["<unk>", "the", "."], spaced=False) == ("<unk>", "the", ".")


def test_a_dot_precedes_what_would_go_on_with_a_word() -> None:
    labels = {" cat": "cat", "s": "·s", "3": "·3", ".": ".", "</s>": "</s>", "": ""}
    assert {token: next_token_label(token, spaced=True) for token in labels} == labels
    assert next_token_label("cat", spaced=False) == "cat"


@pytest.mark.parametrize(
    ("kind", "query", "source", "target"),
    [
        ("encoder_self", 3, {3: "query", 1: "key"}, {}),
        ("encoder_self", 1, {1: "query key"}, {}),
        ("decoder_self", 3, {}, {3: "query", 1: "key"}),  # both consumed
        ("cross", 3, {1: "key"}, {4: "query"}),  # row 3 predicts token 4
    ],
)
def test_marks_of_a_kind(
    kind: Kind, query: int, source: dict[int, str], target: dict[int, str]
) -> None:
    assert token_marks(kind, query, [1]) == (source, target)


def test_words_of_marked_tokens_are_marked(make_tokens: MakeTokens) -> None:
    tokens = make_tokens(["<s>"], [" La"], [" ni", "ña"], [" <b>"], ["."], ["</s>"])
    words = marked_words(tokens, {3: "query", 2: "key", 5: "key"})
    assert [word.mark for word in words] == ["", "", "key query", "", "key", ""]
    assert "".join(word.before + word.text for word in words) == "<s> La niña <b>. </s>"
    ours = make_tokens([" La"], ["."], ["</s>"])
    others = replace(ours, ids=(2, 3, 1), special_ids=frozenset({0, 1}))
    for tokens, text in ((others, "La. </s>"), (make_tokens(["a"], ["b"], ["</s>"]), "a b </s>")):
        assert "".join(word.before + word.text for word in marked_words(tokens, {})) == text


def test_an_interval_has_a_width_or_is_not_written() -> None:
    assert interval_text(0.1, 0.3) == "0.10 to 0.30"
    assert interval_text(-0.001, 0.3, "+.2f") == "+0.00 to +0.30"
    assert interval_text(0.9961, 0.9994) == "0.996 to 0.999"
    assert interval_text(99.99, 100.0, ".1f") == "99.99 to 100.00"
    for ends in ((1.0, 1.0), (100.0, 100.0), (float("nan"), float("nan"))):
        assert interval_text(*ends) == ""


@pytest.mark.parametrize(
    ("value", "above", "written"),
    [
        (0.895, False, "0.89"),
        (0.8951, True, "0.90"),
        (float(np.float32(0.3)), True, "0.30"),
        (0.29, False, "0.29"),  # 0.29 * 100 is less than 29
        (0.0, True, "0.00"),
    ],
)
def test_a_bound_is_rounded_from_what_it_bounds(value: float, above: bool, written: str) -> None:
    assert bound_text(value, above=above) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((0.01234, "+0.0123"), (-1.2, "-1.20"), (9.999, "+10.0"), (99.96, "+100")),
        *((57_322.3, "+57,300"), (0.0, "+0.00")),
    ],
)
def test_numbers_have_three_significant_digits(value: float, written: str) -> None:
    assert three_digits(value, "+") == written


# Predictions


def test_lens_by_hand(trace: Trace) -> None:
    """Two layers, T = 3 steps, k = 2: the actual tokens are 5, 6, 7."""
    ids = np.array([[[9, 5], [6, 1], [1, 2]], [[5, 9], [9, 6], [1, 2]], [[5, 1], [6, 1], [2, 7]]])
    p = np.array([0.5, 0.25], np.float32) * np.arange(1, 4, dtype=np.float32)[:, None, None] / 2
    log_p = np.log(np.broadcast_to(p, ids.shape))
    predictions = replace(trace.predictions, lens_ids=ids, lens_log_probability=log_p)
    tokens = tuple(tuple(tuple(f" p{i}" for i in row) for row in layer) for layer in ids.tolist())
    predicted = Tokens((5, 6, 7), ("a", "b", "c"), tuple(Word("a", i, i + 1) for i in range(3)))
    small = replace(trace, predictions=predictions, lens_tokens=tokens, predicted=predicted)
    lens = read_lens(small)
    assert lens.labels == (("p9", "p5", "p5"), ("p6", "p9", "p6"), ("p1", "p1", "p2"))
    assert lens.actual.tolist() == [[False, True, True], [True, False, True], [False] * 3]
    assert_near(lens.probabilities, [[0.25, 0.5, 0.75]] * 3)
    assert lens.notes[0][1] == "p5  0.500\np9  0.250"
    assert lens.notes[2][2] == "p2  0.750\np7  0.375"


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "expected"),
    [
        (1, 0, 1, [0.125, 0.5, 0.125, 0.25]),
        (0.5, 0, 1, np.array([1, 16, 1, 4]) / 22),
        (1, 2, 1, [0, 2 / 3, 0, 1 / 3]),
        (1, 0, 0.74, [0, 2 / 3, 0, 1 / 3]),
        (1, 0, 0.76, np.array([1, 4, 0, 2]) / 7),
        (1, 2, 0.6, [0, 1, 0, 0]),  # of the two that are kept, the first has 2/3
        (1, 0, 0.1, [0, 1, 0, 0]),
    ],
)
def test_samples_by_hand(
    temperature: float, top_k: int, top_p: float, expected: list[float]
) -> None:
    halves = np.log(np.array([0.125, 0.5, 0.125, 0.25]))
    found = sampled(halves, temperature=temperature, top_k=top_k, top_p=top_p)
    assert_near(found, expected)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 1.0])
def test_without_top_k_it_is_what_decoding_draws_from(temperature: float, top_p: float) -> None:
    logits = torch.randn(1, 37, generator=torch.Generator().manual_seed(0)).double() * 3
    ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
    expected = np.zeros(37)
    expected[ids[0].numpy()] = probability[0].numpy()
    given = logits[0].log_softmax(-1).numpy()
    found = sampled(given, temperature=temperature, top_k=0, top_p=top_p)
    assert_near(found, expected, size=np.abs(given).max() / temperature)


def test_close_positions_have_two_tokens_of_almost_the_same_probability(trace: Trace) -> None:
    top = np.log([[0.5, 0.41, 0.01], [0.5, 0.39, 0.01], [0.9, 0.05, 0.01], [0.3, 0.3, 0.3]])
    predictions = replace(trace.predictions, top_log_probability=top.astype(np.float32))
    assert close_positions(predictions, within=0.1) == [0, 3]


def test_texts_are_near_to_what_the_model_writes_or_to_nothing() -> None:
    assert agreement(["el gato", "la casa"], ["el gato", "la casa"]) == pytest.approx(100)
    assert agreement(["xyz"], ["el gato"]) == 0
    assert agreement(["el gato", ""], ["", ""]) is None


def test_entropy_is_the_logarithm_of_how_many_are_alike() -> None:
    assert entropy(np.array([0.25, 0.25, 0.25, 0.25, 0])) == near(np.log(4))
    assert entropy(np.array([1.0, 0])) == 0
