"""What heads do over sentences: which are alike, what they cost together, rows that are found."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.interventions import head_costs
from headwise.model.runs import open_run
from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.core import computed as core
from headwise.viz_app.core.batches import batches_by_length
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.alike.maps import heads_alike
from headwise.viz_app.heads.rows.query import RowQuery
from headwise.viz_app.heads.rows.search import FoundRows, find_rows
from headwise.viz_app.heads.together.cost import JointCost, joint_cost
from headwise.viz_app.heads.together.section import joint_cost_in_words
from headwise.viz_app.measuring.pruning import prune
from headwise.viz_app.measuring.sums import draws
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, near
from tests.imports import ROOT

PAIRS = [
    ("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    ("Where is the old dog?", "¿Dónde está?"),
    ("The cat", "El gato, el perro."),
    ("The dog, the old dog.", "El perro, el perro viejo, el viejo."),
]
"""They differ in length on both sides, and in the last, tokens repeat on both."""


@pytest.fixture(scope="session")
def sentences(tokenizers: TokenizerPair) -> Sentences:
    """``PAIRS``."""
    return Sentences.of(tokenizers, PAIRS, max_length=31)


@pytest.fixture(scope="session")
def many_sentences(sentences: Sentences) -> Sentences:
    """Every resample of them has some of each."""
    pairs = [replace(each, number=place) for place, each in enumerate(sentences.pairs * 8)]
    return replace(sentences, pairs=tuple(pairs))


# Heads alike


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_rows_of_traces(
    run: TrainedRun, tokenizers: TokenizerPair, many_sentences: Sentences, kind: Kind
) -> None:
    """Between two checkpoints, from the head itself at another one, too."""
    model, other = (load_weights(run, step).model for step in (60, 20))
    head, rows, times = Head(kind, 1, 0), [], []
    for sentence in many_sentences.pairs:
        here, there = (
            run_trace(each, tokenizers, sentence.pair.source, tuple(sentence.target))
            for each in (model, other)
        )
        maps, others = here.attention[kind][1, 0], there.attention[kind]
        for row, weights in enumerate(maps.astype(np.float64)):
            n_keys = row + 1 if kind == "decoder_self" else maps.shape[-1]
            if n_keys > 1:
                even = np.where(np.arange(maps.shape[-1]) < n_keys, 1 / n_keys, 0)
                compared = [*others[:, :, row].reshape(-1, maps.shape[-1]), even]
                rows.append([jensenshannon(weights, each, base=2) for each in compared])
                times.append(draws([sentence.number])[0])
    expected = np.mean(rows, axis=0)
    resampled = np.transpose(times) @ rows / np.sum(times, axis=0)[:, None]
    errors = resampled.std(axis=0, ddof=1)
    found = heads_alike(model, many_sentences, head, load_weights(run, 20))
    shape = model.description.shapes[kind]
    for each in found.heads:
        place = np.ravel_multi_index((each.head.layer, each.head.head), shape)
        assert each.distance == near(expected[place], dtype=np.float32, size=1)
        assert each.error == near(errors[place], dtype=np.float32, size=1)
    assert len(found.heads) == np.prod(shape)
    assert found.even == near(expected[-1], dtype=np.float32, size=1)
    distances = [round(each.distance, 6) for each in found.heads]
    assert distances == sorted(distances)


def test_a_planted_copy_is_the_nearest(run: TrainedRun, many_sentences: Sentences) -> None:
    """Head 1 of the layer gets the queries and keys of head 3; the head itself is left out."""
    model = copy.deepcopy(load_weights(run, 60).model)
    attention = model.encoder.layers[0].self_attention
    heads = model.description.heads("encoder_self")
    for projection in (attention.query_projection, attention.key_projection):
        for parameter in projection.parameters():
            of_heads = parameter.data.unflatten(0, (heads, -1))
            of_heads[0] = of_heads[2]
    found = heads_alike(model, many_sentences, Head("encoder_self", 0, 2))
    nearest, second, *_ = found.heads
    assert nearest.head == Head("encoder_self", 0, 0)
    assert nearest.distance == near(0, dtype=np.float16, size=1)
    assert second.distance - 2 * second.error > nearest.distance + 2 * nearest.error
    assert Head("encoder_self", 0, 2) not in [each.head for each in found.heads]
    with pytest.raises(ValueError, match="no head cross"):
        heads_alike(model, many_sentences, Head("cross", 7, 0))


# Off together

NAN = float("nan")
HEADS = [Head("cross", 1, 2), Head("encoder_self", 0, 1), Head("cross", 0, 0)]


def test_heads_are_off_together_and_one_by_one(run: TrainedRun, many_sentences: Sentences) -> None:
    """Against what ``prune`` and the costs of single heads say of the same sentences."""
    model = load_weights(run, 60, torch.float64).model
    found = joint_cost(model, many_sentences, frozenset(HEADS))
    [pruned] = prune(model, many_sentences.pairs, HEADS, [3])
    assert found.together == near(pruned.rise, operations=PASS)
    assert found.together_error == near(pruned.error, operations=PASS)
    tokens = np.array([len(each.target) - 1 for each in many_sentences.pairs])
    alone = np.array(
        [
            [float(head_costs(model, s.source, s.target)[h.kind][h.layer, h.head]) for h in HEADS]
            for s in many_sentences.pairs
        ]
    )
    for head, costs in zip(HEADS, alone.T, strict=True):
        assert found.alone[head] == near(costs.sum() / tokens.sum(), operations=PASS)
    assert len(found.alone) == 3
    assert found.summed == near(alone.sum() / tokens.sum(), operations=PASS)
    assert found.beyond == near(found.together - found.summed)
    times = draws([each.number for each in many_sentences.pairs]).T
    sums = (times @ alone.sum(axis=1)) / (times @ tokens)
    assert found.summed_error == near(np.std(sums, ddof=1), operations=PASS)
    assert found.sentences == 32


def test_one_head_costs_together_as_alone(run: TrainedRun, many_sentences: Sentences) -> None:
    model = load_weights(run, 60, torch.float64).model
    found = joint_cost(model, many_sentences, frozenset(HEADS[:1]))
    assert found.beyond == near(0, size=10, operations=PASS)
    assert found.beyond_error == near(0, size=10, operations=PASS)
    with pytest.raises(ValueError, match="expected heads that are off together"):
        joint_cost(model, many_sentences, frozenset())


def test_costs_without_an_error_are_not_said_to_be_sure() -> None:
    """Sentences that all lose nothing have resamples that are all the same, and one has none."""
    nothing = JointCost(2, 0.0, 0.0, {HEADS[0]: 0.0}, 0.0, 0.0, 0.0, 0.0)
    said = joint_cost_in_words(nothing)
    assert said.count("+0.000 ± < 0.001") == 3
    assert "which may be chance" in said
    unknown = JointCost(1, 0.2, NAN, {HEADS[0]: 0.1}, 0.1, NAN, 0.1, NAN)
    said = joint_cost_in_words(unknown)
    assert "they cost +0.200 nats" in said
    assert "beyond it: +0.100, which may be chance" in said


# Rows that are found

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
