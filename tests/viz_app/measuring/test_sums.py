"""All measures of a tiny model: of a batch as of its sentences, and some found in another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.checkpoint import TrainedRun, load_weights
from model.config import TransformerConfig
from model.decoding.ablation import head_costs
from model.interface import KINDS, Kind
from model.tokenizer import TokenizerPair
from model.training.data import Pair
from model.training.processes import ALONE
from model.transformer import Transformer
from viz_app.measuring.alignments import Alignments, Links
from viz_app.measuring.batches import EncodedPair, LeftOutCounts, PaddedIds, encode
from viz_app.measuring.heads import HeadSum
from viz_app.measuring.sums import Measurer, MeasureSums, punctuation_ids
from viz_app.measuring.words import align_batch, links_from_file
from viz_app.records.measures import MEASURES
from viz_app.records.trace import Floats
from viz_app.trace.sentence import run_trace

CPU = torch.device("cpu")
PAIRS = [
    Pair("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    Pair("Where is the old dog?", "¿Dónde está?"),
    Pair("The cat", "El gato, el perro."),
]
LINKS = {
    0: Links(9, 8, frozenset({(0, 0), (3, 2), (4, 3), (5, 4), (6, 5), (7, 7)})),
    2: Links(2, 6, frozenset({(0, 0), (1, 1)})),
}
Values = dict[str, dict[Kind, Floats]]


@pytest.fixture(scope="module")
def sentences(tokenizers: TokenizerPair) -> list[EncodedPair]:
    return list(encode(PAIRS, tokenizers, max_length=31, left_out=LeftOutCounts()))


def measured(
    run: TrainedRun, model: Transformer, newest: Transformer, batches: list[list[EncodedPair]]
) -> Values:
    measurer, sums = Measurer(run.tokenizers, newest), MeasureSums(newest.description, CPU)
    links_of = links_from_file(Alignments("a", "5ha", "by hand", LINKS))
    for batch in batches:
        ids = PaddedIds.of([e.source for e in batch], [e.target for e in batch], model)
        measurer.add(sums, model, ids, align_batch(batch, run.tokenizers, links_of, CPU))
    sums.all_reduce(ALONE)
    return sums.values()


@pytest.fixture(scope="module")
def values(run: TrainedRun, trained: Transformer, sentences: list[EncodedPair]) -> Values:
    """Of step 20, all sentences in one batch; the distance is to step 60."""
    return measured(run, load_weights(run, 20).model, trained, [sentences])


def test_padding_does_not_count(
    run: TrainedRun, trained: Transformer, sentences: list[EncodedPair], values: Values
) -> None:
    alone = measured(run, load_weights(run, 20).model, trained, [[e] for e in sentences])
    for name in MEASURES:
        for kind in KINDS:
            np.testing.assert_allclose(values[name][kind], alone[name][kind], atol=1e-5)


def test_undefined_measures_are_nan(values: Values) -> None:
    nan = {(n, k) for n in MEASURES for k in KINDS if np.isnan(values[n][k]).any()}
    assert nan == {
        ("next", "decoder_self"),
        ("begin", "encoder_self"),
        ("begin", "cross"),
        ("end", "decoder_self"),
        *((f"aer_{way}", k) for way in ("predicted", "consumed") for k in KINDS if k != "cross"),
    }


def test_weights_on_offsets_and_tokens_match_traces(run: TrainedRun, values: Values) -> None:
    model = load_weights(run, 20).model
    found: dict[str, list[Floats]] = {"previous": [], "end": [], "comma": []}
    for pair in PAIRS:
        trace = run_trace(model, run.tokenizers, *pair)
        cross = trace.attention["cross"]  # (L, H, T, S)
        found["previous"] += [
            cross[:, :, t, t - 1] for t in range(1, cross.shape[2]) if t <= cross.shape[3]
        ]
        found["end"] += [cross[:, :, t, -1] for t in range(cross.shape[2])]
        own = trace.attention["decoder_self"]
        marks = [i for i, token in enumerate(trace.consumed.texts) if token.strip() in ",.?¿"]
        found["comma"] += [
            own[:, :, t, marks].sum(axis=-1)
            for t in range(own.shape[2])
            if any(mark <= t for mark in marks)
        ]
    for name, kind, rows in (
        ("previous", "cross", found["previous"]),
        ("end", "cross", found["end"]),
        ("punctuation", "decoder_self", found["comma"]),
    ):
        np.testing.assert_allclose(values[name][kind], np.mean(rows, axis=0), atol=1e-5)


def test_cost_is_in_nats_a_token(
    run: TrainedRun, sentences: list[EncodedPair], values: Values
) -> None:
    model = load_weights(run, 20).model
    costs = [head_costs(model, e.source, e.target) for e in sentences]
    tokens = sum(len(e.target) - 1 for e in sentences)
    for kind in KINDS:
        expected = sum(cost[kind] for cost in costs) / tokens
        np.testing.assert_allclose(values["cost"][kind], expected, atol=1e-5)


def test_alignment_error_rates_use_hard_alignments(values: Values) -> None:
    """14 links of words and 8 of references: 1 − 2 hits / 22."""
    for way in ("predicted", "consumed"):
        hits = (1 - values[f"aer_{way}"]["cross"]) * 22 / 2
        np.testing.assert_allclose(hits, hits.round(), atol=1e-5)
        assert (hits <= 8).all()
    assert (values["aer_predicted"]["cross"] != values["aer_consumed"]["cross"]).any()


def test_newest_checkpoint_has_distance_0(
    run: TrainedRun, trained: Transformer, sentences: list[EncodedPair], values: Values
) -> None:
    itself = measured(run, trained, trained, [sentences])["distance"]
    again = measured(run, load_weights(run, 60).model, trained, [sentences])["distance"]
    for kind in KINDS:
        assert (itself[kind] == 0).all()
        assert (again[kind] == 0).all()
        assert (values["distance"][kind] > 0.01).all()
        assert (values["distance"][kind] < 1).all()


def test_mean_divides_by_counted_rows() -> None:
    config = TransformerConfig(
        5, 5, n_encoder_layers=1, n_decoder_layers=1, n_heads=2, d_model=2, d_ff=3
    )
    sums = MeasureSums(config.description, CPU)
    for total, count in ((3.0, 2), (4.0, 5)):
        found = HeadSum(torch.tensor([total, 2 * total], dtype=torch.float64), torch.tensor(count))
        sums.add("same", "cross", found)
        sums.add("aer_consumed", "cross", found)
    values = sums.values()
    np.testing.assert_allclose(values["same"]["cross"], [[1, 2]])
    np.testing.assert_allclose(values["aer_consumed"]["cross"], [[-1, -3]])
    assert np.isnan(values["same"]["encoder_self"]).all()


def test_punctuation_ids(tokenizers: TokenizerPair) -> None:
    tokenizer = tokenizers.target
    marks = punctuation_ids(tokenizer)
    found = tokenizer.tokens(marks.nonzero().flatten().tolist())
    assert {",", ".", "¿", "?", "'"} <= {token.strip() for token in found}
    assert not {"<s>", "</s>", "a", "$", "+", "", "<0x2C>"} & {token.strip() for token in found}
