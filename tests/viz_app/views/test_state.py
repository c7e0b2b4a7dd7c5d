from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.interface import KINDS, Head
from headwise.viz_app.views.choices import INSIDE
from headwise.viz_app.views.state import CHOICES, View, change, chosen, decode, encode, with_choices

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
VIEWS = st.fixed_dictionaries(
    {
        name: NARROWER[name] if name in NARROWER else st.from_type(each.kind)
        for name, each in CHOICES.items()
    }
).map(lambda choices: with_choices(View(), **choices))


def test_a_choice_is_declared_by_one_record_and_of_what_there_is() -> None:
    records = [each for each in vars(View()).values() if dataclasses.is_dataclass(each)]
    own = [field.name for record in records for field in dataclasses.fields(record)]
    assert len(CHOICES) == len(own) + len(dataclasses.fields(View)) - len(records)
    things = {*CHOICES, *INSIDE, *INSIDE.values()}
    for name, each in CHOICES.items():
        assert {*each.of, each.sets or name} <= things, name
        assert each.where.keys() <= CHOICES.keys(), name


@given(VIEWS)
def test_the_address_of_a_view_gives_the_view(view: View) -> None:
    written = urlencode(encode(view), doseq=True)
    assert decode(parse_qs(written, keep_blank_values=True)) == (view, {})


NAMES = st.sampled_from(sorted(CHOICES))


@given(st.dictionaries(NAMES, st.lists(st.text())))
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
    before = with_choices(
        View(),
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
        assert chosen(after, name) == CHOICES[name].default, name
    for name in kept:
        assert chosen(after, name) == changes.get(name, chosen(before, name)), name


def test_what_is_chosen_together_stays() -> None:
    after = change(with_choices(View(), sentence="A", target="T", at=3), sentence="B", target="U")
    assert (after.sentence, after.target, after.at) == ("B", "U", 0)


CHOSEN = with_choices(
    View(), sentence="A", units="words", at=2, query=1, unfold="layers", training="heads"
)


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
    assert encode(CHOSEN, page) == {"q": ["A"], "units": ["words"]} | own
    in_lesson = dataclasses.replace(CHOSEN, lesson="rows")
    assert encode(in_lesson, page) == encode(in_lesson)
