"""What a head writes, on the page Heads: its dictionary, its score, and both for other tokens."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Head
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.written import HeadDictionary, head_dictionary
from headwise.viz_app.heads.dictionary.scores import mean_values
from tests.viz_app.measures import SENTENCES
from tests.viz_app.pages.driver import STEPS, Calls, Page, Start, array, table

PAGE = "heads"
LAST = STEPS[-1]
HEAD = {"kind": "cross", "layer": "1", "head": "2"}


@pytest.fixture
def start(start_page: Start, own_root: Path, measured: object) -> Start:
    """Open the page Heads on a run whose checkpoints have been measured."""
    return partial(start_page, "heads", own_root, heads="writes", **HEAD)


def dictionary(run: TrainedRun, head: Head) -> HeadDictionary:
    """Of all tokens of the example sentences."""
    model = load_weights(run, LAST).model
    pairs = [(each.source, each.reference) for each in SENTENCES]
    sentences = Sentences.of(run.tokenizers, pairs, max_length=31)
    return head_dictionary(model, run.tokenizers, head, mean_values(model, sentences, head.kind))


def first_named(row: list[str]) -> tuple[float, float]:
    """By how much the first named tokens of a row are raised and lowered, as it says."""
    return tuple(float(cell.split("  ")[0].rsplit(" ", 1)[1]) for cell in row[2:])  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["cross", "decoder_self"])
def test_the_dictionary_has_the_tokens_of_the_example_sentences(
    start: Start, run: TrainedRun, lists: Calls, kind: str
) -> None:
    app = start(kind=kind)
    rows = table(lists, "dictionary_table")
    expected = dictionary(run, Head(kind, 0, 1))  # type: ignore[arg-type]
    side = run.tokenizers.source if kind == "cross" else run.tokenizers.target
    text = [place for place, id in enumerate(expected.ids) if id not in side.control_ids]
    assert len(rows) == min(len(text), 40)
    found = sorted(first_named(row) for row in rows)
    known = zip(expected.raised_by[text, 0], expected.lowered_by[text, 0], strict=True)
    rounded = [(round(float(up), 1), round(float(down), 1)) for up, down in known]
    assert {*found} <= {*rounded}
    assert "It is what the head writes where it looks" in app.said


def test_a_head_of_the_encoder_has_no_dictionary(start: Start, lists: Calls) -> None:
    assert "A head of the encoder writes no target tokens" in start(kind="encoder_self").said
    assert "dictionary_table" not in lists


def test_tokens_here_and_typed_have_values(start: Start, run: TrainedRun, lists: Calls) -> None:
    start(q="The dog", dictionary_of="sentence")
    rows = table(lists, "dictionary_table")
    ids = run.tokenizers.encode_source("The dog")
    assert [row[1] for row in rows] == ["here"] * len(ids)
    for kind, known, words in (("cross", "dog", "dog zebra"), ("decoder_self", "perro", "perro å")):
        start(kind=kind, dictionary_of="typed", dictionary_words=words)
        seen = {row[0]: row[1] for row in table(lists, "dictionary_table")}
        assert seen[known] == "2 places"
        assert "alone" in seen.values()


def test_scores_are_drawn_for_every_checkpoint_and_can_be_stopped(start: Start) -> None:
    app: Page = start(kind="decoder_self", dictionary_training="true")
    lines = {trace["name"]: array(trace["y"]) for trace in app.charts["dictionary_lines"]["data"]}
    assert {*lines} == {"this head", "by chance", "largest of the other heads"}
    for values in lines.values():
        assert values.shape == (len(STEPS),)
        assert ((values >= 0) & (values <= 1)).all()
    [line] = [each.value for each in app.markdown if "the very token that it reads" in each.value]
    assert f"{lines['this head'][-1]:.2f} is raised less" in line
    assert np.isfinite(lines["by chance"]).all()
