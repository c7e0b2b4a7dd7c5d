from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.interface import KINDS, Head
from viz_app.views.state import View, change, decode, encode

TEXTS = st.lists(st.text(min_size=1), max_size=5).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
HEADS = st.builds(Head, st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99))
NARROWER = {
    "off": st.lists(HEADS, max_size=5).map(tuple),
    "lines_of": st.lists(HEADS, max_size=5).map(tuple),
    "searched": TEXTS,
    "beside": TEXTS,
    "pair_tokens": st.none() | TEXTS,
    "lessons": TEXTS,
    "smoothing": NUMBERS,
    **dict.fromkeys(("factor", "temperature", "top_p"), NUMBERS),
    "heads_least": st.none() | NUMBERS,
}
"""Fields with values that their type alone does not say."""
VIEWS = st.builds(
    View, **{name: st.from_type(kind) for name, kind in get_type_hints(View).items()} | NARROWER
)


@given(VIEWS)
def test_the_address_of_a_view_gives_the_view(view: View) -> None:
    written = urlencode(encode(view), doseq=True)
    assert decode(parse_qs(written, keep_blank_values=True)) == (view, {})


FIELDS = st.sampled_from([field.name for field in dataclasses.fields(View)])


@given(st.dictionaries(FIELDS, st.lists(st.text())))
def test_any_address_is_read_and_what_cannot_be_is_named(address: dict[str, list[str]]) -> None:
    view, unreadable = decode(address)
    assert unreadable.keys() <= address.keys()
    assert decode(encode(view)) == (view, {})


@pytest.mark.parametrize(
    ("changes", "dropped", "kept"),
    [
        (
            {"sentence": "B"},
            ("target", "fork", "hypothesis", "at", "column", "query", "key", "token"),
            ("step", "layer", "head", "off", "units"),
        ),
        ({"run": "other"}, ("step", "sentence", "target", "off", "second"), ("layer", "units")),
        ({"step": 2}, ("hypothesis", "fork"), ("sentence", "target", "at", "key")),
        ({"at": 2}, ("fork",), ("target", "at", "column")),
        ({"source_language": "de"}, ("column", "key"), ("target",)),
        ({"head": 2}, ("key",), ("query", "target")),
        ({"kind": "encoder_self"}, ("query", "key"), ("at",)),
        ({"kind": "decoder_self"}, ("key",), ("query",)),
        ({"target": "C"}, ("at", "fork", "key"), ("step", "off")),
        ({"sentence": "A"}, (), ("target", "fork", "at")),
    ],
)
def test_a_choice_drops_what_it_makes_meaningless(
    changes: dict[str, Any], dropped: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    before = View(
        run="one",
        step=1,
        sentence="A",
        target="T",
        fork="f",
        hypothesis=3,
        at=1,
        column=6,
        query=4,
        key=5,
        token="id:6",
        layer=2,
        head=3,
        second=0,
        units="words",
        off=(Head("cross", 0, 0),),
    )
    after = change(before, **changes)
    for name in dropped:
        assert getattr(after, name) == getattr(View(), name), name
    for name in kept:
        assert getattr(after, name) == changes.get(name, getattr(before, name)), name


def test_what_is_chosen_together_stays() -> None:
    after = change(View(sentence="A", target="T", at=3), sentence="B", target="U")
    assert (after.sentence, after.target, after.at) == ("B", "U", 0)


CHOICES = View(sentence="A", units="words", at=2, query=1, unfold="layers", training="heads")


@pytest.mark.parametrize(
    ("page", "own"),
    [
        ("translate", {"at": ["2"]}),
        ("inside", {"query": ["1"]}),
        ("architecture", {"unfold": ["layers"]}),
        ("training", {"training": ["heads"]}),
        ("learn", {}),
    ],
)
def test_a_link_leaves_out_what_its_page_does_not_show(
    page: str, own: dict[str, list[str]]
) -> None:
    assert encode(CHOICES, page) == {"q": ["A"], "units": ["words"]} | own
    in_lesson = dataclasses.replace(CHOICES, lesson="rows")
    assert encode(in_lesson, page) == encode(in_lesson)
