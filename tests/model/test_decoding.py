from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from model.beam import beam_search
from model.checkpoint import Run, load_weights
from model.config import BOS, EOS
from model.decoding import Decoding, greedy, nucleus, sample, translate
from model.generation import longest_target
from model.hooks import capture
from model.transformer import Transformer

MakeModel = Callable[..., Transformer]
MakeIds = Callable[..., Tensor]

LENGTHS = [7, 2, 5, 1, 11, 3]


@pytest.fixture(scope="module")
def model(make_model: MakeModel) -> Transformer:
    """Bias on ``</s>`` such that some targets end early and others reach their limit."""
    model = make_model(output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.bias[EOS] += 1
    return model


@pytest.fixture(scope="module")
def sources(make_ids: MakeIds) -> list[list[int]]:
    return [[*row[row != 0].tolist(), EOS] for row in make_ids(LENGTHS, 37)]


def uncached(model: Transformer, source: list[int]) -> tuple[list[int], Tensor]:
    """Argmax after argmax, each from a whole forward pass; the target, and all steps' logits."""
    target, steps = [BOS], []
    while len(target) <= longest_target(len(source), model.config.max_length):
        logits = model(torch.tensor([source]), torch.tensor([target]))[0, -1]  # (V,)
        steps.append(logits)
        target.append(int(logits.argmax()))
        if target[-1] == EOS:
            break
    return target, torch.stack(steps)


def test_greedy_is_one_argmax_after_another(model: Transformer, sources: list[list[int]]) -> None:
    targets = [uncached(model, source)[0] for source in sources]
    ended = [target[-1] == EOS for target in targets]
    assert any(ended)
    assert not all(ended)
    assert [greedy(model, [source])[0] for source in sources] == targets


def test_a_batch_decodes_like_its_rows_one_by_one(
    model: Transformer, sources: list[list[int]]
) -> None:
    assert greedy(model, sources) == [greedy(model, [source])[0] for source in sources]


def test_cached_logits_equal_uncached_ones(model: Transformer, sources: list[list[int]]) -> None:
    for source in sources:
        with capture(model, ["logits"]) as seen:
            greedy(model, [source])
        logits = torch.cat(seen["logits"])  # (steps, V)
        torch.testing.assert_close(logits, uncached(model, source)[1], rtol=0, atol=1e-5)


# Sampling

TABLE = [0.02, 0.03, 0.05, 0.1, 0.4, 0.25, 0.15]
"""Probabilities of the seven pieces of ``memoryless``."""


@pytest.fixture(scope="module")
def memoryless(make_model: MakeModel) -> Transformer:
    """Its pieces have the same probabilities whatever came before."""
    model = make_model(target_vocab_size=len(TABLE), output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.copy_(torch.tensor(TABLE).log())
    return model


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1, 1, [0.5, 0.25, 0.15, 0.1]),
        (1, 0.95, [0.5, 0.25, 0.15, 0.1]),
        (1, 0.8, [5 / 9, 2.5 / 9, 1.5 / 9, 0]),
        (1, 0.7, [2 / 3, 1 / 3, 0, 0]),
        (1, 0.4, [1, 0, 0, 0]),
        (1, 1e-9, [1, 0, 0, 0]),
        (0.5, 1, [0.25 / 0.345, 0.0625 / 0.345, 0.0225 / 0.345, 0.01 / 0.345]),
        (0.5, 0.9, [0.8, 0.2, 0, 0]),  # the temperature comes first: 0.725 + 0.181 are enough
        (0.02, 1, [1, 0, 0, 0]),
    ],
)
def test_the_nucleus(temperature: float, top_p: float, expected: list[float]) -> None:
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.25, 0.15, 0.1, 0.5]]).log() + 3
    ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
    assert ids.tolist() == [[1, 3, 2, 0], [3, 0, 1, 2]]
    for row in probability.tolist():
        assert row == pytest.approx(expected, abs=1e-6)
        assert [value == 0 for value in row] == [value == 0 for value in expected] or top_p == 1


@pytest.mark.parametrize(("top_p", "kept"), [(0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (1, 4)])
def test_equals_share_a_nucleus_of_the_fewest_that_are_enough(top_p: float, kept: int) -> None:
    ids, probability = nucleus(torch.zeros(1, 4), temperature=1, top_p=top_p)
    assert sorted(ids[0].tolist()) == [0, 1, 2, 3]
    assert probability[0].tolist() == pytest.approx([1 / kept] * kept + [0] * (4 - kept))


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1, 1, TABLE),
        (0.5, 1, [value**2 / 0.2588 for value in TABLE]),
        (2, 1, [value**0.5 / sum(p**0.5 for p in TABLE) for value in TABLE]),
        (1, 0.75, [0, 0, 0, 0, 0.5, 0.3125, 0.1875]),  # 0.4 + 0.25 are too few
    ],
)
def test_pieces_are_drawn_as_often_as_they_are_likely(
    memoryless: Transformer, temperature: float, top_p: float, expected: list[float]
) -> None:
    seeds = range(500)
    targets = sample(memoryless, [[EOS]] * 500, seeds=seeds, temperature=temperature, top_p=top_p)
    counts = Counter(id for target in targets for id in target[1:])
    total = sum(counts.values())
    assert total > 2000
    assert sum(expected) == pytest.approx(1)
    assert set(counts) == {id for id, value in enumerate(expected) if value}
    chi_square = sum(
        (counts[id] - total * value) ** 2 / (total * value)
        for id, value in enumerate(expected)
        if value
    )
    assert chi_square < 22.5  # 99.9 % of all draws, for six degrees of freedom


@pytest.mark.parametrize(
    ("drawn", "top_p", "expected"),
    [
        (0.0, 1, 4),
        (0.39, 1, 4),
        (0.41, 1, 5),
        (0.66, 1, 6),
        (1 - 2**-53, 1, 0),
        (0.49, 0.75, 4),
        (0.51, 0.75, 5),
        (1 - 2**-53, 0.75, 6),
    ],
)
def test_a_draw_falls_on_one_of_the_pieces_side_by_side(
    memoryless: Transformer,
    monkeypatch: pytest.MonkeyPatch,
    drawn: float,
    top_p: float,
    expected: int,
) -> None:
    """The likeliest first: 4 up to 0.4, 5 up to 0.65, 6, …, 0; also at the very ends."""
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([drawn], dtype=torch.float64))
    [target] = sample(memoryless, [[EOS]], seeds=[0], top_p=top_p)
    assert target[1] == expected


def test_samples_follow_from_their_seeds(model: Transformer, sources: list[list[int]]) -> None:
    """And not from the rest of the batch."""
    seeds = list(range(5, 5 + len(sources)))
    targets = sample(model, sources, seeds=seeds)
    assert sample(model, sources, seeds=seeds) == targets
    for source, seed, target in zip(sources, seeds, targets, strict=True):
        assert sample(model, [source], seeds=[seed]) == [target]
    others = sample(model, sources, seeds=[seed + 100 for seed in seeds])
    assert all(other != target for other, target in zip(others, targets, strict=True))
    twice = sample(model, [sources[0]] * 3, seeds=[8, 9, 8])
    assert twice[0] == twice[2] != twice[1]


def test_sampling_does_not_touch_the_generator_of_others(
    model: Transformer, sources: list[list[int]]
) -> None:
    before = torch.get_rng_state()
    sample(model, sources, seeds=range(len(sources)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("temperature", "top_p"), [(1e-4, 1), (1e-4, 0.9), (1, 1e-9), (3, 1e-9)])
def test_little_temperature_or_a_tiny_nucleus_is_greedy_decoding(
    model: Transformer, sources: list[list[int]], temperature: float, top_p: float
) -> None:
    seeds = range(len(sources))
    targets = sample(model, sources, seeds=seeds, temperature=temperature, top_p=top_p)
    assert targets == greedy(model, sources)


def test_each_source_needs_a_seed(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected 2 seeds, one a source, got 1"):
        sample(model, [[EOS], [5, EOS]], seeds=[3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam: expected at least 1, got 0"),
        ({"length_penalty": -0.1}, "length_penalty: expected 0 to 10, got -0.1"),
        ({"length_penalty": 1e9}, "length_penalty: expected 0 to 10, got 1000000000.0"),
        ({"seed": -1, "temperature": 1.0}, "seed: expected 0 to 4294967295, got -1"),
        ({"seed": 2**32, "temperature": 1.0}, "seed: expected 0 to 4294967295, got 4294967296"),
        ({"length_penalty": math.nan}, "length_penalty: expected 0 to 10, got nan"),
        ({"temperature": 0.0}, "temperature: expected more than 0, got 0.0"),
        ({"temperature": -1.0}, "temperature: expected more than 0, got -1.0"),
        ({"temperature": math.nan}, "temperature: expected more than 0, got nan"),
        ({"temperature": math.inf}, "temperature: expected more than 0, got inf"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p: expected 0 < p <= 1, got 0.0"),
        ({"temperature": 1.0, "top_p": 1.1}, "top_p: expected 0 < p <= 1, got 1.1"),
        ({"beam": 2, "temperature": 1.0}, "expected a beam or a temperature, got both; leave one"),
        ({"top_p": 0.9}, "top_p belongs to sampling; give a temperature too, 1 for none"),
    ],
)
def test_a_way_of_decoding_says_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


# Texts


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_translations_keep_the_order_of_their_sources(trained_run: Run, batch_size: int) -> None:
    model = load_weights(trained_run, 0).model
    texts = ["The book is on the table.", "Hi", "Where is the key?", "", "Hi", "We want water."]
    alone = []
    for text in texts:
        [target] = greedy(model, [trained_run.tokenizers.encode_source(text)])
        alone.append(trained_run.tokenizers.target.decode(target))
    assert len(set(alone)) > 3
    assert translate(model, trained_run.tokenizers, texts, batch_size=batch_size) == alone


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(beam=3),
        Decoding(beam=3, length_penalty=2.0),
        Decoding(temperature=1.0, seed=7),
        Decoding(temperature=0.5, top_p=0.9),
    ],
)
def test_other_ways_of_decoding_keep_the_order_too(
    trained_run: Run, decoding: Decoding, batch_size: int
) -> None:
    """A text's seed follows from its place, so that the same text is drawn anew."""
    model, tokenizers = load_weights(trained_run, 0).model, trained_run.tokenizers
    texts = ["Hi", "The book is on the table.", "Where is the key?", "", "Hi", "We want water."]
    alone = []
    for place, text in enumerate(texts):
        source = tokenizers.encode_source(text)
        if decoding.temperature is None:
            [beam] = beam_search(model, [source], size=3, alpha=decoding.length_penalty)
            target = beam.hypotheses[0].target
        else:
            temperature, top_p = decoding.temperature, decoding.top_p
            seeds = [(decoding.seed + 0x9E3779B1 * place) % 2**32]
            [target] = sample(model, [source], seeds=seeds, temperature=temperature, top_p=top_p)
        alone.append(tokenizers.target.decode(target))
    assert len(set(alone)) > 1
    assert (alone[0] == alone[4]) == (decoding.temperature is None)
    found = translate(model, tokenizers, texts, batch_size=batch_size, decoding=decoding)
    assert found == alone


def test_no_texts_have_no_translations(trained_run: Run) -> None:
    assert translate(load_weights(trained_run, 0).model, trained_run.tokenizers, []) == []


def test_a_prefix_is_kept_and_gone_on_with(model: Transformer, sources: list[list[int]]) -> None:
    """What greedy decoding would have said anyway it says again; another piece changes the rest."""
    for source in sources:
        [target] = greedy(model, [source])
        for length in range(1, len(target)):
            assert greedy(model, [source], target[:length]) == [target]
    prefix = [BOS, 9, 7]
    for source, target in zip(sources, greedy(model, sources, prefix), strict=True):
        assert target[:3] == prefix
        logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        assert logits.argmax(dim=-1)[2:].tolist() == target[3:]


@pytest.mark.parametrize("prefix", [[], [5], [EOS, BOS]])
def test_a_prefix_begins_with_the_first_piece(model: Transformer, prefix: list[int]) -> None:
    with pytest.raises(ValueError, match=r"prefix: expected <s> \(2\) first, got"):
        greedy(model, [[5, EOS]], prefix)
