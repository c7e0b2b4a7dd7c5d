from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.training import replacement

LANGUAGES = ("en", "es")

PLACES: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    ("I saw Anna.", "Vi a Anna.", [("name", "Anna", "Anna")]),
    ("Anna saw Anna.", "Anna vio a Anna.", [("name", "Anna Anna", "Anna Anna")]),
    ("Anna's cat", "el gato de Anna", [("name", "Anna", "Anna")]),
    ("It is 1,500.", "Son 1.500.", [("number", "1,500", "1.500")]),
    ("It is 1,500.", "Son 1500.", [("number", "1,500", "1500")]),
    ("It is 3.5.", "Son 3,5.", [("number", "3.5", "3,5")]),
    ("I have three dogs.", "Tengo tres perros.", [("number", "three", "tres")]),
    ("I have 3 dogs.", "Tengo tres perros.", [("number", "3", "tres")]),
    ("It was in 1987.", "Fue en 1987.", [("year", "1987", "1987")]),
    ("It is 7:30.", "Son las 7:30.", [("time", "7:30", "7:30")]),
    ("It costs $20.", "Cuesta 20 dólares.", [("price", "20", "20")]),
    ("It costs two euros.", "Cuesta dos euros.", [("price", "two", "dos")]),
    ("Anna is 12.", "Anna tiene 12.", [("name", "Anna", "Anna"), ("number", "12", "12")]),
    # What is in one sentence only, ordinary words, and parts of something else.
    ("I saw Anna.", "La vi.", []),
    ("USA", "USA", []),
    ("No, thanks.", "No, gracias.", []),
    ("It is 1,500.", "Son 1,500.", []),
    ("the 7th day", "el 7th", []),
    ("H2O", "H2O", []),
    ("version 1.2.3", "versión 1.2.3", []),
    ("twenty-two", "veinte dos", []),
    ("", "", []),
]


def is_no(word: str) -> bool:
    return word == "No"


@pytest.mark.parametrize(("source", "target", "expected"), PLACES)
def test_names_and_numbers_of_both_sentences_are_found(
    source: str, target: str, expected: list[tuple[str, str, str]]
) -> None:
    found = replacement.places(source, target, languages=LANGUAGES, is_common=is_no)
    assert expected == [
        (
            place.kind,
            " ".join(source[span.start : span.stop] for span in place.source),
            " ".join(target[span.start : span.stop] for span in place.target),
        )
        for place in found
    ]


@pytest.mark.parametrize(
    ("source", "target", "language", "kinds"),
    [
        ("It is 15.", "Se on 15.", "fi", ["number"]),
        ("It is 1,500.", "Se on 1.500.", "fi", []),  # of an unknown notation
        ("three", "kolme", "fi", []),
        ("Ten men", "Ten hombres", "en", ["number"]),  # a number word is never a name
    ],
)
def test_languages_decide_what_is_a_number(
    source: str, target: str, language: str, kinds: list[str]
) -> None:
    found = replacement.places(source, target, languages=("en", language), is_common=is_no)
    assert [place.kind for place in found] == kinds


def test_a_word_is_common_if_it_also_occurs_in_lower_case() -> None:
    is_common = replacement.common_words(["China y la china", "Tom", "tom", *["Tom"] * 30, "Anna"])
    assert [is_common(word) for word in ("China", "Tom", "Anna")] == [True, False, False]


SENTENCES = [
    ("{name} has {number} dogs in {name}.", "{name} tiene {number} perros en {name}."),
    ("At {time}, {name} paid {price} dollars.", "{name} pagó {price} dólares a las {time}."),
    ("In {year} it was {number}, not {name}.", "No fue {name} en {year} sino {number}."),
]


@given(st.sampled_from(SENTENCES), st.integers(0, 2**32))
def test_both_sentences_get_the_same_replacements(sentences: tuple[str, str], seed: int) -> None:
    """Names and numbers are the same in both, in the notation of each language."""
    old = {"name": "Anna", "number": "12", "time": "7:30", "price": "20", "year": "1987"}
    pair = sentences[0].format(**old), sentences[1].format(**old)
    found = replacement.places(*pair, languages=LANGUAGES, is_common=is_no)
    new = replacement.replaced(*pair, found, languages=LANGUAGES, generator=random.Random(seed))

    values: list[dict[str, set[str]]] = []
    for text, sentence, notation in zip(
        new, sentences, replacement.notations_of(LANGUAGES) or (), strict=True
    ):
        names = re.findall(r"{(\w+)}", sentence)
        pattern = re.sub(r"\\{(\w+)\\}", lambda _: "(.+?)", re.escape(sentence))
        match = re.fullmatch(pattern, text)
        assert match, text
        read: dict[str, set[str]] = {}
        for kind, value in zip(names, match.groups(), strict=True):
            if kind in ("number", "price"):
                value = value.replace(notation.group, "").replace(notation.decimal, ".")
            read.setdefault(kind, set()).add(value)
        values.append(read)
    assert values[0] == values[1]
    assert all(len(value) == 1 for value in values[0].values())


@pytest.mark.parametrize(
    ("pair", "after"),
    [
        (("Where are you?", "¿Dónde estás?"), ("where are you?", "¿dónde estás?")),
        (("I am here.", "Aquí estoy."), ("I am here.", "aquí estoy.")),
        (("Boston is far.", "Boston está lejos."), ("Boston is far.", "Boston está lejos.")),
        (("12!", "¡12!"), ("12!", "¡12!")),
    ],
)
def test_somebody_is_addressed_first(pair: tuple[str, str], after: tuple[str, str]) -> None:
    ordinary = replacement.common_words(["where dónde aquí is am"])
    changed = replacement.addressed(*pair, is_common=ordinary, generator=random.Random(0))
    name = replacement.draw_name(random.Random(0))
    assert changed == (f"{name}, {after[0]}", f"{name}, {after[1]}")


def test_replacements_depend_only_on_the_generator() -> None:
    pair = "Anna is 12.", "Anna tiene 12."
    found = replacement.places(*pair, languages=LANGUAGES, is_common=is_no)

    def drawn(seed: int) -> list[tuple[str, str]]:
        generator = random.Random(seed)
        return [
            replacement.replaced(*pair, found, languages=LANGUAGES, generator=generator)
            for _ in range(20)
        ]

    assert drawn(7) == drawn(7) != drawn(8)
    assert len(set(drawn(7))) > 15


PATTERNS = {
    "number": r"\d{1,6}|\d{1,3},\d{3}",
    "price": r"(\d{1,6}|\d{1,3},\d{3})(\.\d\d)?",
    "year": r"1\d{3}|20\d\d",
    "time": r"1?\d:[0-5]\d|2[0-3]:[0-5]\d",
}


@pytest.mark.parametrize("kind", PATTERNS)
def test_numbers_are_written_as_each_language_does(kind: replacement.PlaceKind) -> None:
    generator = random.Random(7)
    drawn = [
        replacement.draw_number(kind, generator, replacement.notations_of(LANGUAGES))
        for _ in range(300)
    ]
    swap = str.maketrans(",.", ".,")
    for english, spanish in drawn:
        assert re.fullmatch(PATTERNS[kind], english)
        assert spanish == english.translate(swap)
    assert len(set(drawn)) > 150


def test_numbers_of_unknown_notations_have_one_to_six_digits_alike_often() -> None:
    generator = random.Random(7)
    drawn = [replacement.draw_number("number", generator, None) for _ in range(600)]
    assert all(source == target and source.isdecimal() for source, target in drawn)
    lengths = [len(source) for source, _ in drawn]
    assert all(60 < lengths.count(digits) < 140 for digits in range(1, 7))


def test_names_are_known_or_made_up_of_letters() -> None:
    generator = random.Random(7)
    words = [word for _ in range(300) for word in replacement.draw_name(generator).split(" ")]
    assert all(word.isalpha() and word[0].isupper() for word in words)
    known = sum(word in replacement.known_names() for word in words)
    assert 0.25 < known / len(words) < 0.42
    assert len({replacement.made_up_name(generator) for _ in range(300)}) > 290
    assert len(set(replacement.known_names())) == len(replacement.known_names()) > 500
    assert all(name.isalpha() and name[0].isupper() for name in replacement.known_names())


def test_every_number_word_has_a_value() -> None:
    for notation in replacement.NOTATIONS.values():
        assert list(notation.values.values()) == list(replacement.SPELLED)
