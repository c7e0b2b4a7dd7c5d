"""Measures of heads as a table, one's own too; evaluation with heads off, and pruning."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch
from torch import Tensor

import headwise
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.files import CheckpointError
from headwise.model.hooks import edit
from headwise.model.interface import KINDS, Head, Kind, attention_path, head_name, parse_head
from headwise.model.interventions import head_costs
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.files import measures_path, read_measures, write_measures
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.records.measures import OwnMeasure
from headwise.viz_app.trace.attention import run_attention
from tests.floats import PASS, near
from tests.viz_app.conftest import ENGLISH, SPANISH
from tests.viz_app.measures import made_up_measures

pytestmark = pytest.mark.usefixtures("datasets_cache")

PAIRS = list(zip(ENGLISH, SPANISH, strict=True))


def reach(weights: Tensor, allowed: Tensor) -> Tensor:
    """How many tokens a row looks away from its own place. It is 0 on the diagonal."""
    queries, keys = weights.shape[-2:]
    away = (torch.arange(keys) - torch.arange(queries)[:, None]).abs()
    return (weights * away).sum(dim=-1)


def sums_by_hand(run: TrainedRun, step: int, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Reach of each sentence and head, summed over rows with a choice, and how many these are."""
    model = load_weights(run, step).model
    totals, counts = [], []
    for source, target in PAIRS:
        ids = run.tokenizers.encode_source(source), run.tokenizers.encode_target(target)
        maps = run_attention(model, *ids).attention[kind].astype(np.float64)  # (L, H, Q, M)
        rows, columns = np.indices(maps.shape[-2:])
        first = 1 if kind == "decoder_self" else 0
        values = (maps * np.abs(rows - columns)).sum(axis=-1)[..., first:]
        totals.append(values.sum(axis=-1))
        counts.append(values.shape[-1])
    return np.array(totals), np.array(counts)


def test_a_measure_of_ones_own_at_all_checkpoints(run: TrainedRun) -> None:
    """A mean over the rows of all sentences, and what it varies by over resampled sentences."""
    opened = headwise.open("tiny", root=run.folder.parent)
    table = headwise.measure(opened, PAIRS, measures={"reach": reach})
    assert set(table["measure"]) == {"reach"}
    assert list(table.columns[:5]) == ["run", "step", "measure", "head", "kind"]
    heads = sum(layers * heads for layers, heads in run.description.shapes.values())
    assert len(table) == 3 * heads
    draws = np.array([np.random.default_rng((0, place)).poisson(1, 200) for place in range(6)])
    for step in (0, 20, 60):
        for kind in KINDS:
            part = table[(table["step"] == step) & (table["kind"] == kind)]
            totals, counts = sums_by_hand(run, step, kind)
            means = (totals.sum(axis=0) / counts.sum()).ravel()
            assert part["value"].to_numpy() == near(means, dtype=np.float32, operations=PASS)
            assert part["head"].tolist() == [
                f"{kind}.{layer + 1}.{head + 1}" for layer in range(2) for head in range(3)
            ]
            with np.errstate(invalid="ignore"):
                resampled = np.tensordot(draws.T, totals, 1) / (draws.T @ counts)[:, None, None]
            errors = resampled.std(axis=0, ddof=1).ravel()
            assert part["error"].to_numpy() == near(errors, dtype=np.float32, operations=PASS)


def test_ours_by_name_of_one_checkpoint(run: TrainedRun) -> None:
    checkpoint = headwise.open("tiny", root=run.folder.parent).at(20)
    table = headwise.measure(checkpoint, PAIRS, ours=["cost", "qk_norm", "mean_ablation"])
    assert set(table["step"]) == {20}
    assert set(table["measure"]) == {"cost", "qk_norm", "mean_ablation"}
    tokens, total = 0, 0.0
    for source, target in PAIRS:
        ids = run.tokenizers.encode_source(source), run.tokenizers.encode_target(target)
        total += float(head_costs(checkpoint.model, *ids)["cross"][1, 2])
        tokens += len(ids[1]) - 1
    [row] = table[(table["measure"] == "cost") & (table["head"] == "cross.2.3")].to_dict("records")
    assert row["value"] == pytest.approx(total / tokens, abs=1e-5)
    assert (row["layer"], row["number"]) == (2, 3)
    assert table[table["measure"] == "qk_norm"]["error"].isna().all()
    costs, ablated = (table[table["measure"] == name] for name in ("cost", "mean_ablation"))
    assert len(ablated) == len(costs) == 18
    assert not np.isclose(ablated["value"], costs["value"].to_numpy(), rtol=1e-3, atol=0).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ours": ["entropi"]}, r"ours: expected names among entropy, .*; got entropi"),
        ({"measures": {"cost": reach}}, "measure 'cost': Headwise has one of this name"),
        ({"measures": {"My reach": reach}}, "expected a name of small letters"),
        ({"steps": [7]}, r"steps: expected those of tiny, \[0, 20, 60\]; there is none of \[7\]"),
        ({"measures": {"odd": lambda w, a: w}}, r"measure 'odd': expected a tensor with a value"),
        ({"measures": {"odd": lambda w, a: w[..., 0] / 0}}, "'odd': expected finite values"),
        ({"measures": {"odd": 5}}, "measures: expected functions by name, got none for odd"),
        ({"ours": "entropi"}, "got entropi"),
        ({"save": True}, "a file or a corpus by name with save=True"),
    ],
)
def test_the_unmeasurable_is_refused(
    run: TrainedRun, given: dict[str, object], message: str
) -> None:
    opened = headwise.open("tiny", root=run.folder.parent)
    with pytest.raises(ValueError, match=message):
        headwise.measure(opened, PAIRS, **given)  # type: ignore[arg-type]


# In files


def test_a_file_holds_what_was_measured_and_no_name_is_lost(tmp_path: Path) -> None:
    made = made_up_measures(20)
    values = {**made.values, "reach": made.values["entropy"]}
    with pytest.raises(ValueError, match="got a difference in 'reach'"):
        write_measures(tmp_path, made_up_measures(20, values=values))
    without = {name: made.values[name] for name in MEASURES if name != "cost"}
    with pytest.raises(ValueError, match="got a difference in 'cost'"):
        write_measures(tmp_path, made_up_measures(20, values=without))
    share = {"reach": OwnMeasure("How far a row looks.", "share")}
    beyond = {**values, "reach": {kind: 1 + each for kind, each in values["reach"].items()}}
    with pytest.raises(ValueError, match=r"measure 'reach': expected values of the range 'share'"):
        write_measures(tmp_path, made_up_measures(20, values=beyond, own=share))
    own = {"reach": OwnMeasure("How far a row looks.", "amount")}
    write_measures(tmp_path, made_up_measures(20, values=values, own=own))
    read = read_measures(tmp_path, 20)
    assert dict(read.own) == own
    for kind in KINDS:
        assert read.values["reach"][kind] == pytest.approx(values["reach"][kind], abs=1e-5)
    content = json.loads(measures_path(tmp_path, 20).read_text())
    for change in ({"own": {}}, {"own": {"cost": own["reach"].__dict__}}):
        changed = {**content, **change, "values": {**content["values"]}}
        if change["own"]:
            del changed["values"]["reach"]
            measures_path(tmp_path, 20).write_text(json.dumps(changed))
            with pytest.raises(CheckpointError, match="damaged"):
                read_measures(tmp_path, 20)
    write_measures(tmp_path, made_up_measures(20))
    assert b'"own"' not in measures_path(tmp_path, 20).read_bytes()


def test_what_is_saved_is_in_the_files_with_what_it_is(own_root: Path, tmp_path: Path) -> None:
    data = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"en": source, "es": target}) for source, target in PAIRS]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    opened = headwise.open("tiny", root=own_root)
    table = headwise.measure(opened, data, measures={"reach": reach}, steps=[20, 60], save=True)
    assert set(table["step"]) == {20, 60}
    read = read_measures(opened.folder, 60)
    assert read.own == {"reach": OwnMeasure("How many tokens a row looks away from its own place.")}
    row = table[(table["step"] == 60) & (table["head"] == "cross.1.2")].iloc[0]
    assert read.values["reach"]["cross"][0, 1] == pytest.approx(row["value"], abs=1e-5)
    assert row["error"] > 0
    assert Head("cross", 0, 1) in read.examples


# Evaluation and pruning


@pytest.fixture(scope="module")
def checkpoint(run: TrainedRun) -> headwise.OpenedCheckpoint:
    return headwise.open("tiny", root=run.folder.parent)[-1]


def losses(model: Transformer, run: TrainedRun, off: list[Head]) -> tuple[np.ndarray, np.ndarray]:
    """Loss and tokens of each pair, one by one, the outputs of some heads times zero."""
    keep: dict[str, torch.Tensor] = {}
    for kind in KINDS:
        layers, heads = run.description.shapes[kind]
        for layer in range(layers):
            factor = torch.ones(heads, 1, 1)
            factor[[head.head for head in off if head[:2] == (kind, layer)]] = 0
            keep[f"{attention_path(kind, layer)}.heads"] = factor
    found, tokens = [], []
    for source, target in PAIRS:
        ids = torch.tensor([run.tokenizers.encode_target(target)])
        given = torch.tensor([run.tokenizers.encode_source(source)])
        with torch.no_grad(), edit(model, {n: lambda x, f=f: x * f for n, f in keep.items()}):
            logits = model(given, ids[:, :-1])[0].double().numpy()
        scores = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        found.append(-scores[range(len(scores)), ids[0, 1:]].sum())
        tokens.append(len(scores))
    return np.array(found), np.array(tokens)


def test_evaluation_without_heads(checkpoint: headwise.OpenedCheckpoint, run: TrainedRun) -> None:
    off = [head for head in checkpoint.heads if head.kind == "cross"]
    metrics = ["loss", "perplexity", "chrf", "exact"]
    found = headwise.evaluate(checkpoint, PAIRS, ablated=off, metrics=metrics)
    assert list(found) == metrics
    total, tokens = losses(load_weights(run, 60).model, run, off)
    loss = total.sum() / tokens.sum()
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    with checkpoint.ablate(off):
        texts = checkpoint.translate(list(ENGLISH))
    assert found["chrf"] == near(sacrebleu.CHRF().corpus_score(texts, [list(SPANISH)]).score)
    assert found["exact"] == sum(map(str.__eq__, texts, SPANISH)) / len(SPANISH)
    lengths = {"letters": lambda texts, references: sum(map(len, texts))}
    own = headwise.evaluate(checkpoint, PAIRS, ablated=off, metrics=lengths)
    assert own == {"letters": sum(map(len, texts))}
    assert headwise.evaluate(checkpoint, PAIRS, metrics="exact").keys() == {"exact"}
    for wrong in ("blue", ["blue"]):
        with pytest.raises(ValueError, match=r"metrics: expected loss, .* got blue"):
            headwise.evaluate(checkpoint, PAIRS, metrics=wrong)


def test_the_least_costly_go_first(checkpoint: headwise.OpenedCheckpoint, run: TrainedRun) -> None:
    """Losses are those of passes by hooks; a rise has the error of resampled sentences."""
    model = load_weights(run, 60).model
    table = headwise.prune_curve(checkpoint, PAIRS, points=4, metrics=["exact"])
    heads = checkpoint.heads
    assert table["pruned"].tolist() == [0, 6, 12, 18]
    assert table["share"].tolist() == [0, 1 / 3, 2 / 3, 1]
    costs = np.zeros(len(heads))
    for source, target in PAIRS:
        ids = run.tokenizers.encode_source(source), run.tokenizers.encode_target(target)
        costs += np.concatenate([c.numpy().ravel() for c in head_costs(model, *ids).values()])
    order = [heads[place] for place in np.argsort(costs, kind="stable")]
    whole, tokens = losses(model, run, [])
    draws = np.array([np.random.default_rng((0, place)).poisson(1, 200) for place in range(6)])
    for row in table.to_dict("records"):
        off = order[: row["pruned"]]
        assert row["head"] == (head_name(off[-1]) if off else "")
        total, _ = losses(model, run, off)
        assert row["loss"] == pytest.approx(total.sum() / tokens.sum(), abs=1e-5)
        assert row["rise"] == pytest.approx((total - whole).sum() / tokens.sum(), abs=1e-5)
        with np.errstate(invalid="ignore"):
            resampled = (draws.T @ (total - whole)) / (draws.T @ tokens)
        assert row["error"] == pytest.approx(resampled.std(ddof=1), abs=1e-5, nan_ok=True)
        with checkpoint.ablate(off):
            exact = sum(map(str.__eq__, checkpoint.translate(list(ENGLISH)), SPANISH)) / 6
        assert row["exact"] == exact


def test_other_orders_of_pruning(checkpoint: headwise.OpenedCheckpoint) -> None:
    given = ["cross.2.1", ("encoder_self", 0, 2)]
    table = headwise.prune_curve(checkpoint, PAIRS, order=given)
    assert table["head"].tolist() == ["", "cross.2.1", "encoder_self.1.3"]
    drawn = [
        headwise.prune_curve(checkpoint, PAIRS, order="random", kinds=["cross"], seed=seed)["head"]
        for seed in (1, 1, 2)
    ]
    crossed = {head_name(head) for head in checkpoint.heads if head.kind == "cross"}
    assert set(drawn[0]) == {"", *crossed}
    assert drawn[0].equals(drawn[1])
    assert not drawn[0].equals(drawn[2])
    by_gradient = headwise.prune_curve(checkpoint, PAIRS, order="gradient", points=2)
    assert {parse_head(name) for name in by_gradient["head"] if name} <= {*checkpoint.heads}
    for wrong, message in (
        ({"order": "costs"}, "order: expected cost, gradient, random or heads, got 'costs'"),
        ({"kinds": ["self"]}, "kinds: expected some of encoder_self"),
        ({"metrics": ["blue"]}, "metrics: expected some of loss"),
        ({"order": ["cross.9.1"]}, "no head"),
    ):
        with pytest.raises(ValueError, match=message):
            headwise.prune_curve(checkpoint, PAIRS, **wrong)  # type: ignore[arg-type]
