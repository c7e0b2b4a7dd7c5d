"""The address holds all choices; what it has that cannot be used is named; links and citations."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise import __version__
from headwise.model.checkpoint import TrainedRun
from headwise.model.interface import KINDS, Head
from headwise.model.turned import PinnedRow, TurnedHead
from headwise.viz_app.served import MODELS
from headwise.viz_app.session.choices import INNER_SCOPE
from headwise.viz_app.session.download import bibtex, citation
from headwise.viz_app.session.state import (
    CHOICES,
    View,
    change,
    chosen,
    decode,
    encode,
    with_choices,
)
from tests.viz_app.pages.driver import CATS, DOG, Start, traced, unescaped

TEXTS = st.lists(st.text(min_size=1), max_size=5).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
HEADS = st.builds(Head, st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99))
PINS = st.builds(PinnedRow, HEADS, st.integers(0, 99), st.none() | st.integers(0, 99)).filter(
    lambda pin: pin.head.kind != "decoder_self" or pin.last_key <= pin.row
)
NARROWER = {
    **dict.fromkeys(("lines_of", "heads_together"), st.lists(HEADS, max_size=5).map(tuple)),
    "strengths": st.dictionaries(HEADS, st.floats(-1, 3), max_size=5).map(
        lambda strengths: tuple(itertools.starmap(TurnedHead, strengths.items()))
    ),
    "pinned": st.lists(PINS, max_size=5, unique_by=lambda pin: pin[:2]).map(tuple),
    **dict.fromkeys(("searched", "beside", "lessons"), TEXTS),
    **dict.fromkeys(
        ("factor", "found_least", "temperature", "top_p", "smoothing", "smallest", "smallest_line"),
        NUMBERS,
    ),
    "pair_tokens": st.none() | TEXTS,
    "heads_least": st.none() | NUMBERS,
}
"""Fields with values that their type alone does not say."""
VIEWS = st.fixed_dictionaries(
    {name: NARROWER.get(name, st.from_type(each.kind)) for name, each in CHOICES.items()}
).map(lambda choices: with_choices(View(), **choices))


# Choices


def test_a_choice_is_declared_by_one_record_and_of_what_there_is() -> None:
    records = [each for each in vars(View()).values() if dataclasses.is_dataclass(each)]
    own = [field.name for record in records for field in dataclasses.fields(record)]
    assert len(CHOICES) == len(own) + len(dataclasses.fields(View)) - len(records)
    things = {*CHOICES, *INNER_SCOPE, *INNER_SCOPE.values()}
    for name, each in CHOICES.items():
        assert {*each.of, each.sets or name} <= things, name
        assert each.where.keys() <= CHOICES.keys(), name


@pytest.mark.parametrize(
    ("off", "strengths"),
    [
        (
            ["cross.2.4:1.5", "encoder_self.1.1"],
            [(Head("cross", 1, 3), 1.5), (Head("encoder_self", 0, 0), 0)],
        ),
        (["cross.2.4:3.1"], None),
        (["cross.2.4:nan"], None),
        (["cross.2.4:"], None),
        (["cross.2.4", "cross.2.4:2"], None),
    ],
)
def test_heads_that_are_off_are_read_as_ever_and_strengths_within_their_range(
    off: list[str], strengths: list[tuple[Head, float]] | None
) -> None:
    view, unreadable = decode({"off": off, "below": ["off"]})
    assert view.strengths == tuple(strengths or ())
    assert unreadable == ({} if strengths else {"strengths": off})


@given(VIEWS)
def test_the_address_of_a_view_gives_the_view(view: View) -> None:
    written = urlencode(encode(view), doseq=True)
    assert decode(parse_qs(written, keep_blank_values=True)) == (view, {})


@given(st.dictionaries(st.sampled_from(sorted(CHOICES)), st.lists(st.text())))
def test_any_address_is_read_and_what_cannot_be_is_named(asked: dict[str, list[str]]) -> None:
    view, unreadable = decode(asked)
    assert unreadable.keys() <= asked.keys()
    assert decode(encode(view)) == (view, {})


BEFORE = with_choices(
    View(),
    **{"run": "one", "step": 1, "sentence": "A", "target": "T", "fork": "f", "hypothesis": 3},
    **{"at": 1, "column": 6, "query": 4, "key": 5, "token": "id:6", "layer": 2, "head": 3},
    **{"second": 0, "units": "words", "strengths": (TurnedHead(Head("cross", 0, 0)),)},
    pinned=(PinnedRow(Head("cross", 0, 0), 1, 2),),
)


@pytest.mark.parametrize(
    ("changes", "dropped", "kept"),
    [
        (
            {"sentence": "B"},
            "target fork hypothesis at column query key token pinned",
            "step layer head strengths units",
        ),
        ({"run": "other"}, "step sentence target strengths pinned second", "layer units"),
        ({"step": 2}, "hypothesis fork", "sentence target at key"),
        ({"at": 2}, "fork", "target at column"),
        ({"source_language": "de"}, "column key", "target"),
        ({"head": 2}, "key", "query target"),
        ({"kind": "encoder_self"}, "query key", "at"),
        ({"kind": "decoder_self"}, "key", "query"),
        ({"target": "C"}, "at fork key", "step strengths pinned"),
        ({"sentence": "A"}, "", "target fork at"),
        ({"sentence": "B", "target": "U", "at": 3}, "fork", "target at"),  # chosen together
    ],
)
def test_a_choice_drops_the_meaningless(changes: dict[str, Any], dropped: str, kept: str) -> None:
    after = change(BEFORE, **changes)
    for name in dropped.split():
        assert chosen(after, name) == CHOICES[name].default, name
    for name in kept.split():
        assert chosen(after, name) == changes.get(name, chosen(BEFORE, name)), name


@pytest.mark.parametrize(
    ("page", "own"),
    [
        ("translate", {"at": ["2"]}),
        ("model", {"unfold": ["layers"], "section": ["diagram"]}),
        ("training", {"training": ["heads"], "at": ["2"]}),
        ("learn", {}),
    ],
)
def test_a_link_leaves_out_what_its_page_hides(page: str, own: dict[str, list[str]]) -> None:
    there = {"at": 2, "query": 1, "unfold": "layers", "training": "heads"}
    view = with_choices(View(), sentence="A", units="words", **there)
    assert encode(view, page) == {"q": ["A"], "units": ["words"]} | own
    in_lesson = replace(view, lesson="rows")
    assert encode(in_lesson, page) == encode(in_lesson)


# What an address asks for


@pytest.mark.parametrize(
    ("page", "asked", "named"),
    [
        ("translate", {"column": "999"}, ["column=999| Marked token: nothing."]),
        ("translate", {"column": "2", "moving_frame": "0"}, []),
        (
            "translate",
            {"below": "steps", "sampling": "true", "temperature": "-1", "top_p": "nan"},
            ["temperature=-1.0| Temperature: 1.", "top_p=nan| Top-p: 1."],
        ),
        ("translate", {"lesson": "rows", "lesson_step": "9"}, ["lesson_step=9"]),
        (
            "model",
            {"section": "positions", "positions": ["1", "999", "2", "3"]},
            ["positions=999 and positions=3"],
        ),
    ],
)
def test_what_cannot_be_used_is_named_and_does_no_harm(
    start_page: Start, page: str, asked: dict[str, str], named: list[str]
) -> None:
    app = start_page(page, **({"q": CATS} | asked))
    notes = [line for warning in app.warnings for line in warning.splitlines()]
    assert len(notes) == len(named)
    for each in named:
        what, _, instead = each.partition("|")
        told = f"- The address has {what}, which cannot be used here.{instead}"
        assert [note for note in notes if note.startswith(told)], told
    if page == "translate":
        assert app.choose(head=2).warnings == []
    else:
        assert app.widget("positions").value == [1, 2]


def test_a_step_that_the_run_does_not_have_is_no_choice(start_page: Start) -> None:
    """A browser sends that of the run before with what is typed right after another is chosen."""
    app = start_page("translate", q=CATS, step="20")
    app.widget("step").set_value(16_000)
    app.choose(sentence="Where?")
    assert (app.widget("sentence").value, app.widget("step").value) == ("Where?", 20)


# Which run it is: another folder never opens another model without a word


def test_address_link_and_citation_name_a_run_not_chosen(start_page: Start, own_root: Path) -> None:
    for sentence in ("", CATS):
        app = start_page("translate", own_root, q=sentence)
        assert app.address["run"] == "tiny"
    link, cited, entry = (code.value for code in app.code)
    assert parse_qs(urlsplit(link).query)["run"] == ["tiny"]
    for text in cited, entry:
        assert "run: tiny; " in text
    assert "view: run=tiny&" in cited
    assert r"view: run=tiny\&" in entry

    asked = app.address
    (own_root / "tiny").rename(own_root / "another")
    app = start_page("translate", own_root, **asked)
    (note,) = app.warnings
    assert "The address has run=tiny, which cannot be used here. Run: another." in note
    (own_root / "another" / "run.json").write_text("{")
    app = start_page("translate", own_root)
    assert (app.address["run"], len(app.errors)) == ("another", 1)


def test_two_runs_of_one_name_are_told_apart(
    start_page: Start, own_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one" / "tiny", tmp_path / "two" / "tiny"
    for folder in (one, two):
        shutil.copytree(own_root / "tiny", folder)
    (two / "step-0000060.safetensors").unlink()
    monkeypatch.setenv(MODELS, f"tiny\t{one}\ntwo/tiny\t{two}")
    app = start_page("translate", tmp_path / "none")
    assert (app.address["run"], app.address["step"]) == ("tiny", "60")
    app.choose(run="two/tiny")
    assert (app.address["run"], app.address["step"]) == ("two/tiny", "20")
    assert app.run().widget("run").value == "two/tiny"
    app = start_page("heads", tmp_path / "none", run="two/tiny")
    assert app.address["run"] == "two/tiny"


def test_a_citation_says_what_was_forced_and_switched_off(run: TrainedRun) -> None:
    strengths = TurnedHead(Head("cross", 1, 0)), TurnedHead(Head("cross", 0, 1), 1.5)
    view = with_choices(View(), at=2, fork="perro", strengths=strengths)
    said = citation(traced(run), view, page="translate")
    for fact in (
        "token forced at position 3: perro",
        "heads switched off: Cross 2.1",
        "heads turned: Cross 1.2 × 1.5",
    ):
        assert f"; beside it, {fact}" in said
    assert "; heads switched off: none;" in said
    assert "beside it" not in citation(traced(run), View(), page="translate")
    assert "beside it" not in citation(traced(run), view, page="inside")


def test_an_entry_for_bibtex_has_what_the_citation_says(run: TrainedRun) -> None:
    """Its braces are balanced, and what TeX would obey is text, whatever was typed."""
    typed = traced(run, r"100% of {cats} & \dogs_ ~ ^ # $5")
    trace = replace(typed, run="tiny", step=60, sha256="0123456789abcdef" * 4)
    entry = bibtex(trace, View(layer=2), page="translate")
    assert entry.startswith(
        f"@misc{{headwise-{trace.sha256[:12]}-60,\n  title = {{{{Headwise {__version__}: "
    )
    assert r"“100\% of \{cats\} \& \textbackslash{}dogs\_ \textasciitilde{}" in entry
    assert f"year = {{{{{date.today().year}}}}}" in entry
    for fact in ("run: tiny", "checkpoint: 60", f"sha256: {trace.sha256}", "view: layer=2"):
        assert fact in entry
    unescaped = entry.replace(r"\{", "").replace(r"\}", "")
    assert unescaped.count("{") == unescaped.count("}")
    assert entry.endswith("}},\n}")


def test_a_target_does_not_outlive_the_sentence_it_was_typed_for(start_page: Start) -> None:
    """A busy server is told of both fields at once."""
    app = start_page("translate", q=CATS).choose(sentence=DOG, target="El gato.")
    assert app.widget("target").value == ""
    assert "target" not in app.address
    assert app.widget("sentence").value == DOG


def test_what_was_forced_is_said_to_be_dropped(start_page: Start) -> None:
    app = start_page("translate", q=CATS, at="1", target="un perro")
    token = app.widget("fork").options[1]
    for choices, dropped in (
        ({"fork": token}, None),
        ({"layer": 1}, None),
        ({"at": 0}, f"The forced token “{token}”"),
        ({"target": "un gato"}, None),
        ({"sentence": DOG}, "The forced translation “un gato”"),
    ):
        said = [unescaped(toast.value) for toast in app.choose(**choices).toast]
        assert said == ([f"{dropped} was dropped: it was for another choice."] if dropped else [])
