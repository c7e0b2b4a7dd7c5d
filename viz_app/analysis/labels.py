"""Labels of tokens and words without invisible characters, with marks, and names of kinds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import zip_longest

from headwise.model.interface import Head, Kind, parse_head
from headwise.viz_app.records.trace import Tokens

KIND_NAMES: dict[Kind, str] = {
    "encoder_self": "Encoder self",
    "decoder_self": "Decoder self",
    "cross": "Cross",
}
KIND_NOTES: dict[Kind, str] = {
    "encoder_self": "A row is a source token; it shows from which source tokens the head gathered "
    "for it.",
    "decoder_self": "A row is a position of the target; it shows at which of the tokens consumed "
    "so far the head looked. Later ones are masked, in grey.",
    "cross": "A row is a position of the target; it shows at which source tokens the head looked: "
    "at the encoder's output there, which has gathered from other tokens too.",
}
"""How to read a map of each kind."""
ROLES: Mapping[Kind, tuple[str, str]] = {
    "encoder_self": ("query: the word that looks", "key: the word it looks at"),
    "decoder_self": (
        "query: the word just consumed, after which the next is predicted",
        "key: the word it looks at",
    ),
    "cross": ("query: the word to be predicted", "key: the source word it looks at"),
}
"""What the marked query and key words of each kind are, for people."""
HALVES_NOTE = (
    "This decoder reads target and source in one attention, by one softmax. Its two halves are "
    "shown here, whose weights sum to 1 together. What is switched off, turned, pinned or replaced "
    "of a head is in this half alone: the other keeps its weights, and a pinned row the weight "
    "that its half has. Measures over a corpus, rollout and weights × value norms are of a half's "
    "weights as shares of their sum."
)
"""What is to be known of a head of half an attention, wherever one is chosen."""
OFF_NOTE = (
    "A head that is off has its output set to zero before W_O; a bias of W_O, which belongs to all "
    "heads, stays. No training met that zero. A head's mean output in its place ranks the heads of "
    "the runs that ship nearly alike over 512 sentences (rank correlation 0.89 to 0.98); in 1 of "
    "the 4 another head is first."
)
"""What it means that a head is off, wherever a page says so."""
NO_SUM_NOTE = (
    "Costs do not add up: heads can stand in for one another, so that several may cost more "
    "together than one by one, or less."
)
"""What costs of single heads do not tell, wherever a page ranks heads by them."""
ONE_TRAINING_NOTE = (
    "± is over the sentences of this one training: another training of the same model may differ "
    "by more."
)
"""What a standard error over sentences does not tell."""


def three_digits(value: float, sign: str = "") -> str:
    """Write a number with three significant digits: 0.0123, 1.20, 57,300.

    ``sign`` is that of a format, such as ``+``.
    """
    rounded = float(f"{value:.3g}")
    return f"{value:{sign}#.3g}" if abs(rounded) < 100 else f"{rounded:{sign},.0f}"


_MOST_DIGITS = 6  # behind the point, of the ends of an interval


def interval_text(low: float, high: float, form: str = ".2f") -> str:
    """Write the ends of an interval, with more digits than ``form`` has if these are the same.

    "" if it is unknown or has no width, as of resamples that are all the same and say nothing.
    """
    if not high - low >= 10**-_MOST_DIGITS:  # or NaN
        return ""
    sign = form.rstrip("0123456789.f")
    for digits in range(int(form[-2]), _MOST_DIGITS + 1):
        ends = [f"{round(end, digits) + 0.0:{sign}.{digits}f}" for end in (low, high)]
        if ends[0] != ends[1]:
            break
    return " to ".join(ends)


def bound_text(value: float, *, above: bool) -> str:
    """Write a bound with two digits: rounded up if what it bounds is below it, else down."""
    rounding = ROUND_CEILING if above else ROUND_FLOOR
    return str(
        Decimal(f"{value:.6f}").quantize(Decimal("0.01"), rounding)
    )  # 0.3 in float32 is 0.30


_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}
CONTINUATION = "·"  # prefix of the label of a token that does not begin a word
_NO_TEXT = re.compile(r"<(pad|unk|s|/s|unused [0-9]+)>|(<0x[0-9A-F]{2}>)+")


def make_visible(text: str) -> str:
    """Replace control characters, format characters and bare white space by visible symbols."""
    if text.isspace():
        return "".join(_VISIBLE.get(character, "␣") for character in text)
    return "".join(
        _escaped(ord(character)) if unicodedata.category(character) in ("Cc", "Cf") else character
        for character in text
    )


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def token_label(token: str) -> str:
    """Label a token: its visible text, without the space that marks the beginning of a word."""
    return make_visible(token.removeprefix(" ") or token)


def token_labels(tokens: Tokens) -> list[str]:
    """Label each token; ``·`` precedes tokens that do not begin a word."""
    starts = {word.start for word in tokens.words}
    return [
        CONTINUATION * (index not in starts) + token_label(token)
        for index, token in enumerate(tokens.texts)
    ]


def next_token_label(token: str, *, spaced: bool) -> str:
    """Label a token that may come next: ``·`` precedes one that would go on with a word.

    ``spaced`` says whether a token that begins a word has a space before it.
    """
    goes_on = spaced and token[:1].isalnum()
    return CONTINUATION * goes_on + token_label(token)


def vocabulary_labels(
    tokens: Sequence[str], *, spaced: bool, control_ids: Container[int] = ()
) -> tuple[str, ...]:
    """Label each token of a vocabulary; those at ``control_ids`` stand for no text. Where words are
    ``spaced``, ``·`` precedes a token without a space, so that ``the`` and ``·the`` differ.
    """
    return tuple(
        token_label(token)
        if not spaced or token.startswith(" ") or id in control_ids or _NO_TEXT.fullmatch(token)
        else CONTINUATION + token_label(token)
        for id, token in enumerate(tokens)
    )


def part_label(name: str) -> str:
    """Return how people read the name of a part of a stream, layers and heads from 1."""
    group, _, place = name.partition(".")
    title = group.replace("_", "-").capitalize()
    title = next((said for kind, said in KIND_NAMES.items() if kind == group), title)
    return f"{title} {place}".strip()


def head_of(name: str) -> Head | None:
    """Return the head that a part is; None if it is none."""
    return parse_head(name) if name.partition(".")[0] in KIND_NAMES else None


def count_of(number: int, what: str) -> str:
    """Write a number of things whose plural ends in s: ``1 part``, ``2 parts``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def numbered(labels: Sequence[str]) -> list[str]:
    """Put its place before each label, counted from 1 as on all pages."""
    return [f"{place}: {label}" for place, label in enumerate(labels, 1)]


def word_labels(tokens: Tokens) -> list[str]:
    """Label each word by its visible text."""
    return [make_visible(word.text) for word in tokens.words]


@dataclass(frozen=True)
class MarkedWord:
    """A word of a sentence may be marked as query, key or both."""

    before: str  # white space before the word
    text: str
    mark: str  # ``query``, ``key``, ``query key`` or an empty string


def token_marks(
    kind: Kind, query: int, keys: Iterable[int]
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the tokens to mark in the source and in the whole target, as index → mark.

    Row t consumes token t of the target and predicts token t + 1: in cross-attention the predicted
    one is marked, in decoder self-attention, whose keys are consumed, the consumed one.
    """
    source: dict[int, str] = {}
    target: dict[int, str] = {}
    queries = source if kind == "encoder_self" else target
    of_keys = target if kind == "decoder_self" else source
    queries[query + (kind == "cross")] = "query"
    for key in keys:
        of_keys[key] = f"{of_keys.get(key, '')} key".strip()
    return source, target


def marked_words(tokens: Tokens, marks: Mapping[int, str]) -> list[MarkedWord]:
    """Split a sentence into words, each with the marks of its tokens, given by index."""
    spaced = any(token.startswith(" ") for token in tokens.texts)
    words: list[MarkedWord] = []
    for word in tokens.words:
        apart = tokens.texts[word.start].startswith(" ") or not spaced
        special = tokens.ids[word.start] in tokens.special_ids
        found = [marks[at] for at in range(word.start, word.stop) if at in marks]
        roles = dict.fromkeys(role for mark in found for role in mark.split())
        before = " " if words and (apart or special) else ""
        words.append(MarkedWord(before, make_visible(word.text), " ".join(roles)))
    return words


def from_where_they_part(first: str, other: str) -> str:
    """Return a text from the first word on that is not that of another text in the same place.

    All of it, if it is the same or parts at its first word.
    """
    words, others = first.split(), other.split()
    same = next(
        (place for place, pair in enumerate(zip_longest(words, others)) if pair[0] != pair[1]), 0
    )
    # Where the other ends there, its last word shows where it ends.
    start = min(same, len(others) - 1)
    return f"… {' '.join(others[start:])}" if start > 0 else other
