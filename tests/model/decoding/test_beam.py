"""Compare beam search with hand-computed tables, and with scoring whole targets uncached."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.model.config import BOS, EOS, TransformerConfig
from headwise.model.decoding.beam import Beam, Hypothesis, Node, beam_search, length_norm
from headwise.model.decoding.greedy import greedy, longest_target
from headwise.model.transformer import Transformer
from tests.floats import PASS, near
from tests.tiny import tiny_model

# By hand

A, B, C = 4, 5, 6
"""All tokens of a table but the special ones."""

Table = dict[tuple[int, ...], dict[int, float]]

GARDEN_PATH: Table = {
    (): {A: 0.5, B: 0.4, EOS: 0.06, C: 0.04},
    (A,): {A: 0.4, B: 0.3, EOS: 0.2, C: 0.1},
    (B,): {EOS: 0.9, A: 0.05, B: 0.03, C: 0.02},
    (A, A): {EOS: 0.6, A: 0.2, B: 0.15, C: 0.05},
    (A, B): {EOS: 0.5, A: 0.3, B: 0.15, C: 0.05},
}
"""The likeliest first token does not begin the likeliest target."""


ENDED_TOO_SOON: Table = {
    (): {A: 0.5, EOS: 0.3, B: 0.15, C: 0.05},
    (A,): {A: 0.6, EOS: 0.35, B: 0.03, C: 0.02},
    (B,): {A: 0.4, B: 0.3, C: 0.2, EOS: 0.1},
    (A, A): {EOS: 0.95, A: 0.03, B: 0.01, C: 0.01},
    (B, A): {A: 0.4, B: 0.3, C: 0.2, EOS: 0.1},
}
"""After two steps ``</s>`` with 0.3 and A ``</s>`` with 0.175 have ended. The likeliest token each
time makes A A ``</s>``: 0.5 · 0.6 · 0.95 = 0.285."""


class TableModel(Transformer):
    """Predicts the next token from a table, by the target so far; others have no probability."""

    def __init__(self, table: Table, max_length: int) -> None:
        sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "n_heads": 1, "d_model": 2}
        super().__init__(TransformerConfig(7, 7, d_ff=2, max_length=max_length, **sizes))
        self.table = table
        self.eval()

    def decode(self, target: Tensor, memory: Any, mask: Any, cache: Any = None) -> Tensor:
        """Store the target so far in the cache of keys, so that its rows move as those do."""
        new = target[:, None, :, None]
        ids, _ = cache.layers[0].self_attention.append(new, new)  # (R, 1, T, 1)
        logits = torch.full((len(target), 1, 7), -1e9, dtype=torch.float64)
        for row, (bos, *tokens) in enumerate(ids[:, 0, :, 0].tolist()):
            assert bos == BOS
            for id, probability in self.table[tuple(tokens)].items():
                logits[row, 0, id] = math.log(probability)
        return logits

    def unembed(self, stream: Tensor) -> Tensor:
        return stream


def search(table: Table, *, size: int, alpha: float = 0.6, limit: int = 5) -> Beam:
    [beam] = beam_search(TableModel(table, limit), [[EOS]], size=size, alpha=alpha)
    return beam


def best(beam: Beam) -> list[tuple[list[int], float]]:
    """Return tokens and probability of each hypothesis."""
    return [(h.target[1:], near(math.exp(h.log_probability), size=1)) for h in beam.hypotheses]


def test_two_hypotheses_find_what_greedy_decoding_misses() -> None:
    """The whole tree: A, B; then B ends, A A, A B; then both of these end, and A B A has no chance.

    At the limit of 5 it has at best ln 0.045 / (10/6)^0.6 = -2.28.
    """
    assert greedy(TableModel(GARDEN_PATH, 5), [[EOS]]) == [[BOS, A, A, EOS]]  # 0.12

    beam = search(GARDEN_PATH, size=2)

    def node(parent: int, id: int, step: int, probability: float, outcome: Any) -> Node:
        norm = {1: 1, 2: (7 / 6) ** 0.6, 3: (8 / 6) ** 0.6}[step]
        log_probability = math.log(probability)
        return Node(parent, id, step, near(log_probability), near(log_probability / norm), outcome)

    assert beam.tree == (
        Node(-1, BOS, 0, 0.0, 0.0, "kept"),
        node(0, A, 1, 0.5, "kept"),
        node(0, B, 1, 0.4, "kept"),
        node(0, EOS, 1, 0.06, "dropped"),  # it ends, but is not among the best two
        node(0, C, 1, 0.04, "dropped"),
        node(2, EOS, 2, 0.36, "ended"),
        node(1, A, 2, 0.20, "kept"),
        node(1, B, 2, 0.15, "kept"),
        node(1, EOS, 2, 0.10, "dropped"),
        node(6, EOS, 3, 0.12, "ended"),
        node(7, EOS, 3, 0.075, "ended"),
        node(7, A, 3, 0.045, "kept"),
        node(6, A, 3, 0.04, "kept"),
    )
    assert beam.hypotheses == [
        Hypothesis([BOS, B, EOS], near(math.log(0.36)), near(math.log(0.36) / (7 / 6) ** 0.6), 5),
        Hypothesis(
            [BOS, A, A, EOS], near(math.log(0.12)), near(math.log(0.12) / (8 / 6) ** 0.6), 9
        ),
    ]


def test_early_stopping_misses_what_greedy_decoding_finds() -> None:
    """Without it the search goes on, and is the same up to there."""
    model = TableModel(ENDED_TOO_SOON, 3)
    assert greedy(model, [[EOS]]) == [[BOS, A, A, EOS]]
    [early] = beam_search(model, [[EOS]], size=2, early_stopping=True)
    assert best(early) == [([EOS], 0.3), ([A, EOS], 0.175)]
    assert max(node.step for node in early.tree) == 2

    [beam] = beam_search(model, [[EOS]], size=2)
    assert best(beam) == [([A, A, EOS], 0.285), ([EOS], 0.3)]
    assert beam.tree[: len(early.tree)] == early.tree


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.5, 0.5 + 2**-25), (0.5 + 2**-25, 0.5)])
def test_of_tokens_a_last_bit_apart_the_lower_id_is_first(size: int, a: float, b: float) -> None:
    beam = search({(): {B: b, A: a}, (A,): {EOS: 1.0}, (B,): {EOS: 1.0}}, size=size)
    found = [hypothesis.target[1:] for hypothesis in beam.hypotheses]
    assert found == [[A, EOS], [B, EOS]][:size]
    assert [node.id for node in beam.tree[1:3]] == [A, B]


# Against whole targets

SOURCES = st.lists(
    st.lists(st.integers(EOS + 1, 36), max_size=5).map(lambda tokens: [*tokens, EOS]),
    min_size=1,
    max_size=3,
)


def path(beam: Beam, place: int) -> list[int]:
    """Return the ids from ``<s>`` to a node."""
    node = beam.tree[place]
    return [*path(beam, node.parent), node.id] if node.parent >= 0 else [node.id]


@torch.inference_mode()
def next_log_probabilities(model: Transformer, source: list[int], target: list[int]) -> Tensor:
    """Compute log-probabilities of the token after each beginning of a target, (T, V), uncached."""
    return model(torch.tensor([source]), torch.tensor([target])).log_softmax(dim=-1)[0]


def log_probability(model: Transformer, source: list[int], target: list[int]) -> float:
    steps = next_log_probabilities(model, source, target[:-1])  # (T, V)
    return float(steps.gather(1, torch.tensor(target[1:])[:, None]).sum())


@pytest.mark.parametrize("prefix", [[BOS], [BOS, 7, 5]])
def test_a_beam_of_one_is_greedy_decoding(model: Transformer, prefix: list[int]) -> None:
    """With a prefix too, which counts where a target is cut off."""
    generator = torch.Generator().manual_seed(3)
    sources = [
        [*torch.randint(EOS + 1, 37, (n % 11,), generator=generator).tolist(), EOS]
        for n in range(60)
    ]
    targets = greedy(model, sources, prefix)
    ended = [target[-1] == EOS for target in targets]
    assert any(ended)
    assert not all(ended)
    beams = beam_search(model, sources, size=1, prefix=prefix)
    assert [[h.target for h in beam.hypotheses] for beam in beams] == [[t] for t in targets]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("source", [[EOS], [7, EOS], [31, 5, EOS]])
def test_a_beam_of_all_targets_finds_the_best_of_them(source: list[int], alpha: float) -> None:
    """Of at most 3 tokens out of 5: 1 + 4 + 16 that end and 64 that reach the limit."""
    model = tiny_model(target_vocab_size=5, max_length=3).double()
    going_on = [id for id in range(5) if id != EOS]
    targets = [
        [BOS, *tokens, *end]
        for length, end in [(0, [EOS]), (1, [EOS]), (2, [EOS]), (3, [])]
        for tokens in itertools.product(going_on, repeat=length)
    ]
    scores = {}
    for target in targets:
        norm = ((5 + len(target) - 1) / 6) ** alpha
        scores[tuple(target)] = log_probability(model, source, target) / norm
    order = sorted(scores, key=lambda target: -scores[target])

    [beam] = beam_search(model, [source], size=len(targets), alpha=alpha)

    assert len(beam.hypotheses) == len(targets) == 85
    assert [tuple(h.target) for h in beam.hypotheses[:5]] == order[:5]
    found = {tuple(h.target): h.score for h in beam.hypotheses}
    assert found == near(scores, operations=PASS)


@settings(max_examples=15)
@given(SOURCES, st.integers(2, 5), st.sampled_from([0.0, 0.6, 1.0, 2.0]))
def test_a_search_goes_on_while_a_live_hypothesis_may_win(
    model: Transformer, sources: list[list[int]], size: int, alpha: float
) -> None:
    """It begins as with early stopping, which therefore never has a better best score."""
    for source in sources:
        limit = longest_target(len(source), model.config.max_length)
        [beam] = beam_search(model, [source], size=size, alpha=alpha)
        [early] = beam_search(model, [source], size=size, alpha=alpha, early_stopping=True)
        assert beam.tree[: len(early.tree)] == early.tree
        assert beam.hypotheses[0].score >= early.hypotheses[0].score
        ended = [node for node in beam.tree if node.outcome == "ended"]
        end = beam.tree[-1].step
        for last in range(early.tree[-1].step, min(end + 1, limit)):
            most = max(node.score for node in ended if node.step <= last)
            live = [n for n in beam.tree if n.step == last and n.outcome == "kept"]
            bound = max(n.log_probability for n in live) / length_norm(limit, alpha)
            assert (bound <= most) == (last == end)


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ([[EOS]], {"size": 0}, "beam: expected at least 1, got 0"),
        ([[EOS]], {"size": 2, "alpha": -0.5}, "length penalty: expected 0 to 10, got -0.5"),
        ([], {"size": 2}, "expected at least one source, got an empty batch"),
    ],
)
def test_beam_search_refuses_bad_arguments(
    model: Transformer, sources: list[list[int]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        beam_search(model, sources, **options)
