"""Replace names and numbers of a sentence pair by others, the same on both sides.

A model that sees "Boston" in a thousand pairs learns the word; one that sees another name in each
learns to copy. What both sentences contain is replaced: a capitalised word that is spelled alike,
or a number of the same value, each in the notation of its language.
"""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from headwise.model.training.data import Pair


@dataclass(frozen=True)
class Notation:
    """Describes how a language writes numbers."""

    group: str
    """Separator of groups of three digits."""
    decimal: str
    """Decimal separator."""
    words: str
    """Words for the numbers of ``SPELLED``, in that order, separated by spaces."""

    @cached_property
    def values(self) -> dict[str, int]:
        """Return the number of each number word."""
        return dict(zip(self.words.split(), SPELLED, strict=True))


SPELLED = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 20, 30, 40, 50, 60)
"""Numbers that are also recognised as words."""

NOTATIONS = {
    "en": Notation(
        *(",", "."),
        "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty "
        "fifty sixty",
    ),
    "es": Notation(
        *(".", ","),
        "dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta "
        "cuarenta cincuenta sesenta",
    ),
    "de": Notation(
        *(".", ","),
        "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig "
        "vierzig fünfzig sechzig",
    ),
}
"""Notation of each language; for other languages only plain digits are recognised."""


def notations_of(languages: tuple[str, str]) -> tuple[Notation, Notation] | None:
    """Return the notations of source and target language; None if one of them is unknown."""
    source, target = (NOTATIONS.get(language) for language in languages)
    return (source, target) if source and target else None


_WORD = re.compile(r"[^\W\d_]+")
# A number by itself: not within "7th", "H2O" or "1.2.3".
_NUMBER = re.compile(
    r"(?<![\w.,:])\d{1,2}:\d\d(?![\w:])|(?<![\w.,:])\d+(?:[.,]\d+)*(?![\w:]|[.,]\d)"
)
_NUMBER_WORD = re.compile(r"(?<![\w-])[^\W\d_]+(?![\w-])")  # not "two" in "twenty-two"
_MONEY = re.compile(r"[$€£¥]|\b(?:dollars?|euros?|pounds?|yen|pesos?)\b", re.IGNORECASE)


PlaceKind = Literal["name", "number", "year", "time", "price"]


class TextSpan(NamedTuple):
    """A part of a text, from ``start`` to ``stop`` (exclusive)."""

    start: int
    stop: int


@dataclass(frozen=True)
class Place:
    """A name or number of a pair, with all its occurrences in source and target."""

    kind: PlaceKind
    source: tuple[TextSpan, ...]
    target: tuple[TextSpan, ...]


def common_words(texts: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that says whether a capitalised word is also an ordinary word.

    Examples are "No", and "China" beside Spanish "china". A word is ordinary if the texts have it
    in lower case more than once for every twenty times that they have it capitalised.
    """
    counts = Counter(word for text in texts for word in _WORD.findall(text))
    return lambda word: counts[word.lower()] * 20 > counts[word]


def places(
    source: str, target: str, *, languages: tuple[str, str], is_common: Callable[[str], bool]
) -> list[Place]:
    """Find the names and numbers that occur equally often in both sentences of a pair.

    A name is a capitalised word of two letters or more, spelled alike in both. Numbers are alike by
    value: "1,500" in English and "1.500" in Spanish, "three" and "tres".
    """
    notations = notations_of(languages)
    spelled = set().union(*(notation.values for notation in notations or ()))
    names = [_names(text) for text in (source, target)]
    numbers = list(map(_numbers, (source, target), notations or (None, None)))
    found: list[Place] = []
    for word, spans in names[0].items():
        ordinary = word.lower() in spelled or is_common(word)
        if len(spans) == len(names[1].get(word, ())) and not ordinary:
            found.append(Place("name", tuple(spans), tuple(names[1][word])))
    for value, spans in numbers[0].items():
        if len(spans) == len(numbers[1].get(value, ())):
            kind = _kind(source[slice(*spans[0])], source)
            found.append(Place(kind, tuple(spans), tuple(numbers[1][value])))
    return found


def _names(text: str) -> dict[str, list[TextSpan]]:
    spans: dict[str, list[TextSpan]] = {}
    for match in _WORD.finditer(text):
        if len(match[0]) > 1 and match[0].istitle():
            spans.setdefault(match[0], []).append(TextSpan(*match.span()))
    return spans


def _numbers(text: str, notation: Notation | None) -> dict[str, list[TextSpan]]:
    """Find the numbers of a text and group them by value; times by their digits."""
    spans: dict[str, list[TextSpan]] = {}
    for match in _NUMBER.finditer(text):
        value = match[0]
        if notation:
            value = value.replace(notation.group, "").replace(notation.decimal, ".")
        spans.setdefault(value, []).append(TextSpan(*match.span()))
    words = notation.values if notation else {}
    for match in _NUMBER_WORD.finditer(text):
        if (word := match[0].lower()) in words:
            spans.setdefault(str(words[word]), []).append(TextSpan(*match.span()))
    return spans


def _kind(number: str, source: str) -> PlaceKind:
    if ":" in number:
        return "time"
    if _MONEY.search(source):
        return "price"
    return "year" if re.fullmatch(r"1\d\d\d|20\d\d", number) else "number"


@cache
def known_names() -> tuple[str, ...]:
    """Load the names of people and places in ``names.txt``, from many languages."""
    return tuple(Path(__file__).with_name("names.txt").read_text(encoding="utf-8").split())


_ONSETS = (
    "b c d f g h j k l m n p r s t v w y z br ch cz dj fr gr hr kh kr kw ll mb nd ng ny ph pr qu "
    "rh sh sk st sz th tr ts vl wr zh ç ñ ł š ž č"
)
_VOWELS = "a a a e e e i i i o o u u y aa ai au ea ee ei ia ie io oo ou ui á é í ó ú ä ö ü å ø ã ê"
_CODAS = "n r s l m k t d b nn rt nd ck ng rz sch ff x"


def made_up_name(generator: random.Random) -> str:
    """Make up a name that no list has.

    Half are the beginning of one known name and the end of another, which look like names and are
    not; three in ten have one to four syllables, one in five random letters.
    """
    drawn = generator.random()
    if drawn < 0.5:
        first, second = (generator.choice(known_names()) for _ in range(2))
        name = first[: generator.randint(2, len(first))] + second[generator.randint(1, 3) :]
    elif drawn < 0.8:
        name = ""
        for _ in range(generator.randint(1, 4)):
            parts = (generator.choice(part.split()) for part in (_ONSETS, _VOWELS, _CODAS))
            onset, vowel, coda = parts
            name += onset + vowel + (coda if generator.random() < 0.8 else "")
    else:
        name = "".join(generator.choices(string.ascii_lowercase, k=generator.randint(3, 9)))
    return name[0].upper() + name[1:]


def draw_name(generator: random.Random) -> str:
    """Draw one or two names, each known (one in three) or made up."""
    return " ".join(
        generator.choice(known_names()) if generator.random() < 1 / 3 else made_up_name(generator)
        for _ in range(generator.choice((1, 1, 2)))
    )


def draw_number(
    kind: PlaceKind, generator: random.Random, notations: tuple[Notation, Notation] | None
) -> tuple[str, str]:
    """Draw a number and write it in both languages.

    Years are from 1000 to 2099, times from 0:00 to 23:59; others have 1 to 6 digits. If the
    notations are known, half of the prices have two decimals, and half of the numbers separate
    groups of three digits.
    """
    if kind == "time":
        time = f"{generator.randint(0, 23)}:{generator.randint(0, 59):02d}"
        return time, time
    if kind == "year":
        year = str(generator.randint(1000, 2099))
        return year, year
    digits = generator.randint(1, 6)
    number = generator.randint(10 ** (digits - 1), 10**digits - 1)
    cents = generator.randint(0, 99) if kind == "price" and generator.random() < 0.5 else None
    grouped = generator.random() < 0.5
    if notations is None:
        return str(number), str(number)
    source, target = (_written(number, cents, n, grouped=grouped) for n in notations)
    return source, target


def _written(number: int, cents: int | None, notation: Notation, *, grouped: bool) -> str:
    text = f"{number:,}".replace(",", notation.group) if grouped else str(number)
    return text if cents is None else f"{text}{notation.decimal}{cents:02d}"


def replaced(
    source: str,
    target: str,
    found: Sequence[Place],
    *,
    languages: tuple[str, str],
    generator: random.Random,
) -> Pair:
    """Replace each place of a pair by another name or number, the same in both sentences."""
    notations = notations_of(languages)
    of_source: list[tuple[TextSpan, str]] = []
    of_target: list[tuple[TextSpan, str]] = []
    for place in found:
        if place.kind == "name":
            here = there = draw_name(generator)
        else:
            here, there = draw_number(place.kind, generator, notations)
        of_source += ((span, here) for span in place.source)
        of_target += ((span, there) for span in place.target)
    return Pair(with_changes(source, of_source), with_changes(target, of_target))


def addressed(
    source: str, target: str, *, is_common: Callable[[str], bool], generator: random.Random
) -> Pair:
    """Let a pair begin by addressing somebody, and go on in lower case: "Okafor, where are …?"."""
    name = draw_name(generator)

    def after_name(text: str) -> str:
        first = _WORD.search(text)
        if first and is_common(first[0]):
            start = first.start()
            text = text[:start] + text[start].lower() + text[start + 1 :]
        return f"{name}, {text}"

    return Pair(after_name(source), after_name(target))


def with_changes(text: str, changes: Iterable[tuple[TextSpan, str]]) -> str:
    """Replace spans of a text, which must not overlap."""
    for span, new in sorted(changes, reverse=True):  # from the end: earlier spans do not move
        text = text[: span.start] + new + text[span.stop :]
    return text
