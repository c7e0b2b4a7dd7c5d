"""All measures of a tiny model: of a batch as of its sentences, and some found in another way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, edit
from headwise.model.interface import KINDS, Kind
from headwise.model.interventions import batch_head_importance, head_costs
from headwise.model.training.processes import ALONE
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.heads.compared import resampled_errors
from headwise.viz_app.measuring.alignments import Alignments, Links
from headwise.viz_app.measuring.checkpoint_measures import (
    OF_CORPUS,
    largest_by_chance,
    largest_numbers,
    largest_ratios,
)
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.files import read_measures, write_measures
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES, RESAMPLED, Measure
from headwise.viz_app.measuring.head_words import describe_value
from headwise.viz_app.measuring.heads import HeadSum, entropy, rows_with_several_keys, sum_rows
from headwise.viz_app.measuring.inputs import MeasuredBatch, Rows, RunInputs
from headwise.viz_app.measuring.sums import Bootstrap, MeanSums, MeasureSums, even_head
from headwise.viz_app.measuring.words import links_from_file
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near, near
from tests.viz_app.measures import made_up_measures
from tests.viz_app.measuring.conftest import PAIRS, float64_by_default

CPU = torch.device("cpu")
LINKS = {
    0: Links(9, 8, frozenset({(0, 0), (3, 2), (4, 3), (5, 4), (6, 5), (7, 7)})),
    2: Links(2, 6, frozenset({(0, 0), (1, 1)})),
}
Values = dict[str, dict[Kind, Floats]]


@pytest.fixture(scope="module")
def model(run: TrainedRun) -> Transformer:
    """Step 20, in float64."""
    return load_weights(run, 20, torch.float64).model


def measured(
    run: TrainedRun, step: int, batches: list[list[EncodedPair]], previous: int | None = 0
) -> MeasureSums:
    """Measure a step in float64; the first checkpoint is 0, the newest 60."""
    models = {one: load_weights(run, one, torch.float64).model for one in {step, 0, 60}}
    model = models[step]
    others = {"distance": models[60], "from_first": models[0]}
    if previous is not None:
        others["velocity"] = models[previous]
    links_of = links_from_file(Alignments("a", "5ha", "by hand", LINKS))
    inputs = RunInputs(run.tokenizers, run.counts, CPU, links_of)
    sums = MeasureSums(model.description, CPU)
    for batch in batches:
        with float64_by_default():
            sums.measure(MeasuredBatch(inputs, model, batch, others))
    sums.all_reduce(ALONE)
    return sums


@pytest.fixture(scope="module")
def sums(run: TrainedRun, sentences: list[EncodedPair]) -> MeasureSums:
    """Of step 20, all sentences in one batch."""
    return measured(run, 20, [sentences])


@pytest.fixture(scope="module")
def values(sums: MeasureSums) -> Values:
    return sums.values()


@pytest.fixture(scope="module")
def of_batches(run: TrainedRun, sentences: list[EncodedPair]) -> list[MeasureSums]:
    """Step 20 on 32 sentences: in one batch, and each in a batch of its own."""
    many = [replace(sentences[n % len(sentences)], number=n) for n in range(32)]
    return [measured(run, 20, batches) for batches in ([many], [[each] for each in many])]


def test_batches_of_1_and_of_32_give_the_same(of_batches: list[MeasureSums]) -> None:
    """So padding does not count. And values are in the range that is declared."""
    together, alone = of_batches
    figures = [(each.values(), each.errors()) for each in of_batches]
    for name, measure in MEASURES.items():
        for kind in KINDS:
            for of_one, of_other in zip(*figures, strict=True):
                assert_near(of_one[name][kind], of_other[name][kind], operations=1)
            values = figures[0][0][name][kind]
            known = values[np.isfinite(values)]
            assert measure.range == "signed" or (known >= 0).all()
            assert measure.range != "share" or (known <= 1).all()
    assert alone.alignment() == together.alignment()
    for of_one, of_other in (
        (together.of_model(), alone.of_model()),
        (together.errors_of_model(), alone.errors_of_model()),
    ):
        assert {*of_one} == {*OF_CORPUS}
        assert of_one == near(of_other, dtype=np.float32, operations=1)


def test_a_declaration_is_all_that_a_measure_needs(
    run: TrainedRun, sentences: list[EncodedPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of docs/add-a-measure.md: it is summed, has a chance level, is in files and in words."""

    def reach(rows: Rows) -> HeadSum:
        queries, keys = torch.arange(rows.allowed.shape[1]), torch.arange(rows.keys.shape[1])
        values = (rows.weights * (keys - queries[:, None]).abs()).sum(dim=-1)
        return sum_rows(values, rows_with_several_keys(rows.allowed))

    measure = Measure(name="reach", note="How far.", range="amount", of_rows=reach)
    for registry in (DESCRIBED, MEASURES):
        monkeypatch.setitem(registry, "reach", measure)  # type: ignore[arg-type]
    found = measured(run, 20, [sentences[2:]]).values()["reach"]["cross"]
    maps = run_trace(load_weights(run, 20, torch.float64).model, run.tokenizers, *PAIRS[2])
    rows, columns = np.indices(maps.attention["cross"].shape[-2:])
    expected = (maps.attention["cross"] * np.abs(rows - columns)).sum(axis=-1).mean(axis=-1)
    assert_near(found, expected, size=float(columns.max()))
    assert even_head(run.tokenizers, run.counts, sentences[2:])["reach"]["cross"] == near(
        np.abs(rows - columns).mean()
    )
    written = made_up_measures()
    write_measures(tmp_path, written)
    read = read_measures(tmp_path, 20).values["reach"]["cross"]
    assert_near(read, written.values["reach"]["cross"], dtype=np.float16, size=1)
    assert describe_value("reach", "cross", 1.5) == "reach: 1.50"


def test_undefined_measures_are_nan(values: Values) -> None:
    nan = {(n, k) for n in MEASURES for k in KINDS if np.isnan(values[n][k]).any()}
    assert nan == {
        ("next", "decoder_self"),
        ("begin", "encoder_self"),
        ("begin", "cross"),
        ("end", "decoder_self"),
        *((name, k) for name in ("qk_norm", "qk_rank", "ov_rank") for k in KINDS),  # no sums
        *(("mean_ablation", k) for k in KINDS),  # without the means
        *((f"aer_{way}", k) for way in ("predicted", "consumed") for k in KINDS if k != "cross"),
    }


def test_weights_on_offsets_and_tokens_match_a_trace(
    run: TrainedRun, model: Transformer, sentences: list[EncodedPair]
) -> None:
    """Row 0 of the decoder's self-attention has no choice, and does not count."""
    trace = run_trace(model, run.tokenizers, *PAIRS[2])
    cross, own = trace.attention["cross"], trace.attention["decoder_self"]  # (L, H, T, S or T)
    steps = cross.shape[2]
    marks = [i for i, token in enumerate(trace.consumed.texts) if token.strip() in ",.?¿"]
    found = measured(run, 20, [sentences[2:]]).values()
    for name, kind, expected in (
        *(
            (name, "cross", cross.diagonal(offset, 2, 3).sum(axis=-1) / steps)
            for name, offset in (("previous", -1), ("same", 0), ("next", 1))
        ),
        ("end", "cross", cross[..., -1].mean(axis=-1)),
        ("confidence", "cross", cross.max(axis=-1).mean(axis=-1)),
        ("begin", "decoder_self", own[:, :, 1:, 0].mean(axis=-1)),
        ("punctuation", "decoder_self", own[:, :, 1:, marks].sum(axis=-1).mean(axis=-1)),
    ):
        assert_near(found[name][kind], expected)


def test_costs_and_gradients_are_in_nats_a_token(
    model: Transformer, sentences: list[EncodedPair], values: Values
) -> None:
    tokens = sum(len(e.target) - 1 for e in sentences)
    costs = [head_costs(model, e.source, e.target) for e in sentences]
    gradients = [
        batch_head_importance(model, torch.tensor([e.source]), torch.tensor([e.target]))
        for e in sentences
    ]
    for kind in KINDS:
        assert_near(values["cost"][kind], sum(c[kind] for c in costs) / tokens, operations=1)
        # The gradient of each sentence is rounded to float32, and so is their mean.
        expected = sum(found[kind][0] for found in gradients) / tokens
        assert_near(values["gradient"][kind], expected, operations=len(sentences) + 1)


def test_contributions_are_means_over_predictions(
    model: Transformer, sentences: list[EncodedPair], sums: MeasureSums
) -> None:
    with float64_by_default():
        alone = [contributions(model, PaddedIds.of_pairs([e], model)) for e in sentences]
    found = sums.of_model()
    for name in ("source_contribution", "source_entropy", "prefix_entropy"):
        values = torch.cat([getattr(each, name).flatten() for each in alone])
        assert found[name] == near(float(values.double().nanmean()), dtype=values.dtype, size=1)


def test_alignment_error_rates_use_hard_alignments(values: Values) -> None:
    """14 links of words and 8 of references: 1 − 2 hits / 22."""
    for way in ("predicted", "consumed"):
        hits = (1 - values[f"aer_{way}"]["cross"]) * 22 / 2
        assert_near(hits, hits.round(), size=22)
        assert (hits <= 8).all()
    assert (values["aer_predicted"]["cross"] != values["aer_consumed"]["cross"]).any()


def test_distance_to_itself_is_0(
    run: TrainedRun, sentences: list[EncodedPair], values: Values
) -> None:
    newest = measured(run, 60, [sentences]).values()
    first = measured(run, 0, [sentences], previous=None).values()
    for kind in KINDS:
        assert (newest["distance"][kind] == 0).all()
        assert (first["from_first"][kind] == 0).all()
        assert np.isnan(first["velocity"][kind]).all()
        np.testing.assert_array_equal(values["velocity"][kind], values["from_first"][kind])
        assert_near(first["distance"][kind], newest["from_first"][kind], operations=1)
        assert (values["distance"][kind] > 0.01).all()
        assert (values["distance"][kind] < 1).all()


def test_baselines_of_alignment_by_hand(sums: MeasureSums) -> None:
    """Of 8 links all are of other target words; (0, 0), (7, 7), (0, 0) and (1, 1) are diagonal."""
    found = sums.alignment()
    assert found is not None
    assert found.lowest == near(1 - 2 * 8 / 22)
    assert found.diagonal == near(1 - 2 * 4 / 22)


def test_all_heads_have_the_same_resamples(run: TrainedRun, sentences: list[EncodedPair]) -> None:
    """Entropies on each, and of what two heads differ, from the rows of each sentence by hand."""
    many = [replace(sentences[n % len(sentences)], number=n) for n in range(40)]
    table = measured(run, 20, [many]).resamples()["cross"][RESAMPLED.index("entropy")]
    assert table.shape == (200, 2, 3)
    model, rows = load_weights(run, 20).model, []
    for each in many:
        ids = PaddedIds.of_pairs([each], model)
        weights = attention_maps(model, ids)[0]["cross"]
        found = entropy(weights, ids.allowed("cross"))
        rows.append((found.total[0].double().numpy(), float(found.count[0])))
    totals, counts = (np.array(column) for column in zip(*rows, strict=True))
    times = np.array([np.random.default_rng((0, n)).poisson(1, 200) for n in range(40)]).T
    means = (times @ totals) / (times @ counts)[:, None]
    flat = table.reshape(200, 6).astype(np.float64)
    assert_near(flat, means - means.mean(axis=0), dtype=np.float16, size=0.1)
    differ = (means[:, 0] - means[:, 4]).std(ddof=1)
    assert resampled_errors(flat)[0, 4] == pytest.approx(differ, rel=1e-2)


def test_means_are_over_the_positions_of_all_sentences_and_no_padding(
    run: TrainedRun, sentences: list[EncodedPair]
) -> None:
    """Against weights times values of each sentence alone, as its trace has them."""
    model = load_weights(run, 20).model
    assert len({len(pair.source) for pair in sentences}) > 1
    sums = MeanSums(model.description, CPU)
    for batch in (sentences[:2], sentences[2:]):
        sums.add(model, PaddedIds.of_pairs(batch, model))
    sums.all_reduce(ALONE)
    traces = [run_trace(model, run.tokenizers, p.pair.source, p.target) for p in sentences]
    for kind, found in sums.means().items():
        outputs = [each.attention[kind].astype(np.float64) @ each.values[kind] for each in traces]
        expected = np.concatenate(outputs, axis=2).mean(axis=2)
        assert_near(found, expected, dtype=np.float32, size=np.abs(expected).max(), operations=PASS)
    layer = run_layer_trace(model, traces[0], "cross", 1)
    assert found[1].shape == (layer.attention.n_heads, layer.attention.heads.shape[-1])


# Standard errors


def filled(figures: torch.Tensor, tokens: torch.Tensor, size: int) -> Bootstrap:
    """Add the sentences in batches of some size, the last one first."""
    bootstrap = Bootstrap(figures.shape[1], CPU)
    for places in reversed(torch.arange(len(figures)).split(size)):
        bootstrap.add(places.tolist(), figures[places], tokens[places])
    bootstrap.all_reduce(ALONE)
    return bootstrap


def test_the_error_of_a_mean_is_the_one_of_theory() -> None:
    """Of n values it is their deviation divided by √n; 200 resamples know it within 20%."""
    figures = torch.randn(400, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [1.0, 2.0, 0.0]
    ) + torch.tensor([5.0, 0.0, 3.0])
    found = filled(figures, torch.ones(400), 32).standard_errors()
    expected = figures.std(dim=0) / math.sqrt(400)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=0.2, abs=1e-9)


# The largest numbers of streams


def test_a_planted_number_is_found() -> None:
    stream = np.ones((3, 4, 5), dtype=np.float32)
    stream[1, 2, 3] = -50
    found = largest_numbers(stream)
    assert found.ratios.tolist() == [[1] * 4, [1, 1, 50, 1], [1] * 4]
    assert found.dimensions[1, 2] == 3


def test_chance_is_what_normal_numbers_have() -> None:
    drawn = np.abs(np.random.default_rng(0).normal(size=(2_000, 400)))
    ratios = drawn.max(axis=1) / np.median(drawn, axis=1)
    assert np.median(ratios) == pytest.approx(largest_by_chance(400), rel=0.02)
    assert largest_by_chance(1) == near(1)


def test_largest_numbers_of_each_sentence(run: TrainedRun, sentences: list[EncodedPair]) -> None:
    """Also where sentences are padded, and one number of one layer has been made large."""
    model = load_weights(run, 20).model
    point, *later = [f"decoder.layers.{layer}.output" for layer in range(len(model.decoder.layers))]

    def enlarge(stream: torch.Tensor) -> torch.Tensor:
        stream = stream.clone()
        stream[:, 0, 1] = 1_000
        return stream

    with edit(model, {point: enlarge}):
        found = largest_ratios(model, PaddedIds.of_pairs(sentences, model))
        for row, sentence in enumerate(sentences):
            ids = PaddedIds.of_pairs([sentence], model)
            with capture(model, [point, *later]) as seen, torch.inference_mode():
                forced_stream(model, ids.source, ids.target[:, :-1])
            layers = [seen[name][0].abs().flatten() for name in (point, *later)]
            expected = max(float(sizes.max() / np.median(sizes)) for sizes in layers)
            largest = found["largest_decoder"][row]
            assert largest == near(expected, dtype=torch.float32, operations=9)
            assert largest > 100 > found["largest_encoder"][row] > 1


def test_a_stream_of_zeros_has_none() -> None:
    assert math.isnan(float(largest_numbers(np.zeros((1, 2, 2), np.float32)).ratios[0, 0]))
