"""Rows that a search finds are those that the maps of each sentence, traced by itself, have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import KINDS, Head
from headwise.model.runs import open_run
from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.core import computed as core
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.rows.query import RowQuery
from headwise.viz_app.heads.rows.search import FoundRows, find_rows
from headwise.viz_app.measuring.batches import batches_by_length
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near
from tests.imports import ROOT

QUERIES: list[RowQuery] = [
    *(RowQuery(kind, on, 0.15) for kind, on in product(KINDS, ("special", "punctuation"))),
    *(RowQuery(kind, "same", 0.15) for kind in KINDS),
    *(RowQuery(kind, "distance", 0.15, distance=1 if kind == "cross" else -1) for kind in KINDS),
    RowQuery("cross", "token", 0.15, token="dog"),
    RowQuery("cross", "special", 0.15, head=Head("cross", 1, 2)),
    RowQuery("cross", "alone", 0.3),
    RowQuery("cross", "alone", 0.3, head=Head("cross", 1, 2)),
]


def is_wanted(trace: Trace, query: RowQuery, head: Head, row: int, key: int) -> bool:
    """Whether a key of a row is one that is looked for, read from the texts of a trace."""
    keys = trace.keys_of(head.kind)
    text, special = keys.texts[key].strip(), keys.ids[key] in keys.special_ids
    match query.on:
        case "special":
            return special
        case "punctuation":
            return not special and not any(map(str.isalnum, text))
        case "token":
            return text == query.token
        case "distance":
            return key == row + query.distance
        case "same":
            if head.kind == "cross":
                return not special and text == trace.predicted.texts[row].strip()
            return not special and key != row and text == keys.texts[row].strip()
    maps = trace.attention["cross"]
    others = max(
        maps[layer, number, :, key].max()
        for layer, number in np.ndindex(*maps.shape[:2])
        if (layer, number) != (head.layer, head.head)
    )
    content = not special and any(map(str.isalnum, text))
    return content and others < query.least <= maps[head.layer, head.head, row, key]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.kind}-{query.on}")
def test_rows_are_those_of_each_sentence_by_itself(
    run: TrainedRun, tokenizers: TokenizerPair, sentences: Sentences, query: RowQuery
) -> None:
    model = load_weights(run, 60).model
    found = find_rows(model, sentences, query, most=10_000)
    expected: dict[tuple[int, Head, int], tuple[tuple[int, ...], float]] = {}
    of = 0
    for sentence in sentences.pairs:
        trace = run_trace(model, tokenizers, sentence.pair.source, tuple(sentence.target))
        maps = trace.attention[query.kind]
        for layer, number, row in np.ndindex(*maps.shape[:3]):
            head = Head(query.kind, layer, number)
            n_keys = row + 1 if query.kind == "decoder_self" else maps.shape[-1]
            if query.head not in (None, head) or n_keys < 2:
                continue
            of += 1
            wanted = (k for k in range(n_keys) if is_wanted(trace, query, head, row, k))
            keys = tuple(wanted)
            weight = float(maps[layer, number, row, list(keys)].sum())
            if weight >= query.least:
                expected[sentence.number, head, row] = keys, weight
    assert expected, "nothing is looked for"
    rows = {(each.sentence, each.head, each.query): each for each in found.rows}
    assert rows.keys() == expected.keys()
    for place, each in rows.items():
        assert each.keys == expected[place][0]
        assert each.weight == near(expected[place][1], dtype=np.float32, size=1)
    assert (found.count, found.of) == (len(expected), of)
    weights = [round(each.weight, 5) for each in found.rows]
    assert weights == sorted(weights, reverse=True)
    if (query.kind, query.on) == ("encoder_self", "special"):  # of even rows; one </s> in each
        lengths = [len(each.source) for each in sentences.pairs]
        rows_by_chance = sum(n for n in lengths if 1 / n >= query.least)
        layers, heads = model.description.shapes["encoder_self"]
        assert found.by_chance == rows_by_chance * layers * heads


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.kind}-{query.on}")
def test_a_search_does_not_depend_on_who_shares_a_batch(
    run: TrainedRun, many_sentences: Sentences, monkeypatch: pytest.MonkeyPatch, query: RowQuery
) -> None:
    """In float64; sentences of several lengths are padded, and equal ones tie."""
    model = load_weights(run, 60, torch.float64).model
    found = []
    for size, most in product((1, 32), (1, 10_000)):
        by_size = partial(batches_by_length, size=size)
        monkeypatch.setattr(core, "batches_by_length", by_size)
        rows = find_rows(model, many_sentences, query, most=most)
        assert len(rows.rows) == min(most, rows.count) > 0
        places = [(row.sentence, row.head, row.query, row.keys) for row in rows.rows]
        found.append(
            ([rows.count, rows.of, rows.by_chance, *places], [r.weight for r in rows.rows])
        )
    for alone, together in zip(found[:2], found[2:], strict=True):
        assert together[0] == alone[0]
        np.testing.assert_allclose(together[1], alone[1], rtol=0, atol=1e-9)


def test_a_search_goes_on_where_it_stopped(run: TrainedRun, many_sentences: Sentences) -> None:
    model, query = load_weights(run, 60).model, RowQuery("cross", "special", 0.1)
    whole, seen = (find_rows(model, many_sentences, query), list[tuple[int, int]]())

    def put_aside(done: int, of: int) -> None:
        seen.append((done, of))
        if len(seen) == 1:
            raise InterruptedError

    known: dict[int, FoundRows] = {}
    again = replace(many_sentences, note_done=put_aside, known=known)
    with pytest.raises(InterruptedError):
        find_rows(model, again, query)
    assert len(known) == 1
    assert find_rows(model, again, query) == whole
    assert seen[-1] == (32, 32)


def test_what_cannot_be_asked_or_is_not_there_is_refused(
    run: TrainedRun, sentences: Sentences
) -> None:
    for asked, message in (
        ({"kind": "cross", "on": "token"}, "expected a word to look for"),
        ({"kind": "cross", "on": "special", "least": 0.0}, "above 0, up to 1"),
        ({"kind": "encoder_self", "on": "alone"}, "is asked of cross-attention"),
        (
            {"kind": "cross", "on": "special", "head": Head("decoder_self", 0, 0)},
            "expected one of cross",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            RowQuery(**asked)  # type: ignore[arg-type]
    model, copy = load_weights(run, 60).model, open_run("copy", root=ROOT / "checkpoints")
    with pytest.raises(ValueError, match="no head cross"):
        find_rows(model, sentences, RowQuery("cross", "special", head=Head("cross", 9, 0)))
    of_copy = replace(sentences, tokenizers=copy.tokenizers)
    with pytest.raises(ValueError, match="does not know 'zebra'"):
        find_rows(model, of_copy, RowQuery("cross", "token", token="zebra"))
