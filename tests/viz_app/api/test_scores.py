"""Evaluation with heads off, and the loss as heads are pruned, beside hooks and NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu
import torch

import headwise
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.hooks import edit
from headwise.model.interface import KINDS, Head, attention_path, head_name, parse_head
from headwise.model.interventions import head_costs
from headwise.model.transformer import Transformer
from tests.floats import near
from tests.viz_app.conftest import ENGLISH, SPANISH

PAIRS = list(zip(ENGLISH, SPANISH, strict=True))


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
