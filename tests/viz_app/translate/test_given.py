"""A given translation beside references: which targets are unrelated, and the scores of both."""

from __future__ import annotations

import numpy as np

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate.given import reference_scores, unrelated
from tests.floats import assert_near

TEXTS = (
    ("The dog sleeps.", "El perro duerme."),
    ("Where is the black dog?", "¿Dónde está el perro negro?"),
    ("The cats run.", "Corren."),
)


def pair_of(number: int, *target: int) -> EncodedPair:
    return EncodedPair(number, Pair(f"s{number}", ""), [number, 2], list(target))


def test_a_source_gets_the_next_longer_target_that_is_another() -> None:
    targets = (1, 9, 9, 9, 2), (1, 7, 2), (1, 7, 2), (1, 8, 8, 2)
    pairs = [pair_of(number, *target) for number, target in enumerate(targets)]
    found = {each.number: (each.source, each.target) for each in unrelated(pairs)}
    assert found == {
        1: ([1, 2], [1, 8, 8, 2]),  # that of 2 is its own
        2: ([2, 2], [1, 8, 8, 2]),
        3: ([3, 2], [1, 9, 9, 9, 2]),
        0: ([0, 2], [1, 7, 2]),  # the longest
    }
    assert unrelated(pairs[1:3]) == ()


def test_scores_are_those_of_traces_per_token(run: TrainedRun) -> None:
    model = load_weights(run, run.steps()[-1]).model
    most = model.description.max_length
    found = reference_scores(model, Sentences.of(run.tokenizers, TEXTS, max_length=most))

    def scores(pairs: list[tuple[str, str]]) -> list[float]:
        traces = [run_trace(model, run.tokenizers, *pair) for pair in pairs]
        return sorted(float(each.predictions.log_probability.mean()) for each in traces)

    (a, a_target), (b, b_target), (c, c_target) = TEXTS  # from c the targets are longer
    others = [(c, a_target), (a, b_target), (b, c_target)]
    assert found.longest == len(run.tokenizers.encode_target(b_target)) - 1
    size = max(map(abs, scores(others)))
    assert_near(np.sort(found.references), scores([*TEXTS]), size=size, dtype=np.float32)
    assert_near(np.sort(found.unrelated), scores(others), size=size, dtype=np.float32)
