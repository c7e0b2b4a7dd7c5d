"""Each choice, made in its widget, is in the link and the citation: who opens it sees the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.session.state import CHOICES, parameter_of
from tests.browser.driver import cited_view
from tests.imports import ROOT
from tests.robustness.tiny_run import STEP, make_run
from tests.viz_app.measures import made_up_measures
from tests.viz_app.pages.driver import Page, Start, drawn

SENTENCE = "We saw black cats."
SHARED: list[tuple[str, dict[str, str], str]] = [
    ("translate", {}, "run step sentence"),
    ("translate", {}, "kind layer head units"),
    ("translate", {}, "target"),
    ("translate", {"below": "beam"}, "decoding beam hypothesis"),
    ("translate", {"below": "off"}, "strengths"),
    ("why", {}, "instead"),
    ("inside", {}, "pictures paper printed"),
    ("model", {"section": "input"}, "side"),
    ("training", {"training": "heads"}, "measure"),
    ("errors", {"errors": "pairs"}, "steps_axis"),
]
"""Page, what the address has at first, and shared choices that are then made, in their order."""
ELSEWHERE = {
    *("source_language", "target_language", "task"),  # of models of others
    "pairs_among",  # of models without counts of tokens
    *("at", "column", "pinned", "edge", "tree_from", "neuron", "earlier"),  # by clicks
    *("parting", "changed_word", "patch", "first_word", "second_word"),  # in test_two_sentences.py
    *("encoder_feed_forward", "encoder_neuron"),  # in test_why.py
    *("alike_in", "found_on"),  # by a button; in test_heads.py
    "all_pairs",  # by a button; in test_embeddings.py
    *("first_row", "first_column"),  # of long maps; in test_translate.py
    "smallest_line",  # of a component; tests/browser/test_lines.py
    *("lesson", "lesson_step", "lesson_answer", "lessons", "factor"),  # in test_lessons.py
}


def places() -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield the same for all choices, those of a page as it declares them.

    What shows other choices, such as a section, comes last: it hides those made before.
    """
    yield from SHARED
    choices = [each for each in CHOICES.values() if each.page and each.name not in ELSEWHERE]
    shows = {name for each in choices for name in each.where}
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for each in sorted(choices, key=lambda each: each.name in shows):
        groups.setdefault((each.page, tuple(each.where.items())), []).append(each.name)
    for (page, where), names in groups.items():
        # Only another run has other heads.
        other_run = {"other_run": "other"} if "unpaired" in dict(where) else {}
        yield page, {**dict(where), **other_run}, " ".join(names)


PLACES = list(places())


def test_every_choice_is_made() -> None:
    made = {choice for _, _, choices in PLACES for choice in choices.split()}
    assert made | ELSEWHERE == CHOICES.keys()


def another(widget: Any) -> Any:
    """Return another value for a widget, whatever its kind; of options, their labels."""
    match widget.type:
        case "multiselect":
            return [*widget.values[:-1]] or widget.options[:1]
        case "toggle":
            return not widget.value
        case "number_input":
            return 0.5 if widget.value != 0.5 else 0.25
        case "text_area" | "text_input":
            return "El gato."
        case "slider":
            return widget.min if widget.value != widget.min else widget.min + widget.step
    chosen = None if widget.value is None else widget.format_func(widget.value)
    return [label for label in widget.options if label != chosen][-1]


UNSEEN = re.compile(
    r"Toast|_id$|_path$|_content$|component_name$|\.(id|url|default|raw_values?|value)$"
)
"""Where names of parts, files and scripts are, values of widgets, and what is said once."""


def shown(app: Page) -> list[tuple[str, str]]:
    """Return all texts of a page in their order, those of charts and components too."""
    seen = (each for each in drawn(app._tree) if not UNSEEN.search(each[0]))
    return [each for each in seen if "scrollIntoView" not in each[1]]  # once, after a choice


def query(app: Page) -> dict[str, list[str]]:
    """Return the parameters of the address."""
    asked: dict[str, str | list[str]] = dict(app.query_params)
    return {name: [each] if isinstance(each, str) else each for name, each in asked.items()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three checkpoints, with a file of every kind."""
    root = tmp_path_factory.mktemp("checkpoints")
    folder = make_run(root, "bpe")
    model = load_weights(open_trained_run("bpe", root=root), STEP).model
    for step in (5, 10):
        sha256 = save_weights(folder, model, run="bpe", step=step)
        write_measures(folder, made_up_measures(step, run="bpe", sha256=sha256))
    shutil.copytree(folder, root / "other")
    return root


@pytest.mark.parametrize(
    ("page", "at_first", "choices"), PLACES, ids=[choices for _, _, choices in PLACES]
)
def test_who_opens_the_link_sees_the_same(
    start_page: Start, root: Path, page: str, at_first: dict[str, str], choices: str
) -> None:
    """Whatever part of the page the choices have drawn again."""

    def drawn_again(partly: list[str]) -> list[tuple[str, str]]:
        before, seen = shown(app), shown(app.run())
        assert not partly or before == seen, f"one of {partly} leaves a part"
        return seen

    # Only a vocabulary that both languages share has tokens of either.
    folder = ROOT / "checkpoints" if {"among", "colour"} & {*choices.split()} else root
    app = start_page(page, folder, q=SENTENCE, **at_first)
    partly: list[str] = []
    for name in choices.split():
        before, panel = query(app).get(parameter_of(name)), app.panel_of(name)
        if partly and not panel:  # all is drawn again, and with it what was left as it was
            drawn_again(partly)
        partly = [*partly, name] if panel else []
        app.use(name, another(app.widget(name)))
        assert query(app).get(parameter_of(name)) != before, f"{name} is not in the address"
    seen, asked = drawn_again(partly), query(app)
    link, *cited = (each.value for each in app.code if " --run " not in each.value)  # no command
    in_link = parse_qs(urlsplit(link).query, keep_blank_values=True)
    again = start_page(page, folder, **in_link)
    if shown(again) != seen:  # it began with a picture of the maps, or a beam is asked for at rest
        again.run()
    assert (query(again), again.view) == (asked, app.view)
    assert shown(again) == seen
    assert [cited_view(each) for each in cited[:1]] == [asked] * bool(cited)
