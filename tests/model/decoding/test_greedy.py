"""Greedy decoding, and the batch that grows by steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.config import BOS, EOS
from headwise.model.decoding.beam import Beam, Hypothesis, beam_search
from headwise.model.decoding.decoder_lens import decoder_lens
from headwise.model.decoding.greedy import Generation, greedy, longest_target
from headwise.model.decoding.translation import Decoding, nucleus, sample, sorted_batches, translate
from headwise.model.hooks import capture
from headwise.model.pretrained.families import families_of
from headwise.model.pretrained.parts import find
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near, near
from tests.model.pretrained.tiny import FAMILY_NAMES, build, stack_of
from tests.tiny import tiny_model


def uncached(model: Transformer, source: list[int]) -> tuple[list[int], Tensor]:
    """Decode by one whole forward pass a token; return the target and the logits of all steps."""
    target, steps = [BOS], []
    while len(target) <= longest_target(len(source), model.config.max_length):
        logits = model(torch.tensor([source]), torch.tensor([target]))[0, -1]  # (V,)
        steps.append(logits)
        target.append(int(logits.argmax()))
        if target[-1] == EOS:
            break
    return target, torch.stack(steps)


def test_greedy_is_one_argmax_after_another(model: Transformer, sources: list[list[int]]) -> None:
    """Also in a batch, and with the logits that are computed without a cache."""
    targets = []
    for source in sources:
        target, logits = uncached(model, source)
        with capture(model, ["logits"]) as seen:
            assert greedy(model, [source]) == [target]
        assert_near(torch.cat(seen["logits"]), logits, operations=PASS)
        targets.append(target)
    ended = [target[-1] == EOS for target in targets]
    assert any(ended)
    assert not all(ended)
    assert greedy(model, sources) == targets


def test_kept_rows_belong_to_their_sources(model: Transformer, sources: list[list[int]]) -> None:
    """Row b of every step is source b; until its target ends, the logits are those of it alone."""
    with capture(model, ["logits"]) as seen:
        targets = greedy(model, sources, keep_rows=True)
    assert targets == greedy(model, sources)
    steps = torch.stack(seen["logits"], dim=1)  # (B, steps, V)
    assert steps.shape[:2] == (len(sources), max(map(len, targets)) - 1)
    for row, source in enumerate(sources):
        target, alone = uncached(model, source)
        assert_near(steps[row, : len(target) - 1], alone, operations=PASS)


def test_decoding_continues_a_prefix(model: Transformer, sources: list[list[int]]) -> None:
    """A prefix of the greedy target gives that target; another token changes the rest."""
    for source in sources[1:4]:
        [target] = greedy(model, [source])
        for length in range(1, len(target), 3):
            assert greedy(model, [source], target[:length]) == [target]
    prefix = [BOS, 9, 7]
    for source, target in zip(sources, greedy(model, sources, prefix), strict=True):
        assert target[:3] == prefix
        logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        assert logits.argmax(dim=-1)[2:].tolist() == target[3:]


@pytest.mark.parametrize("bits", [(0, 0), (0, 1), (1, 0)])
def test_of_tokens_that_differ_by_a_last_bit_the_lower_id_is_chosen(bits: tuple[int, int]) -> None:
    model = tiny_model(output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.fill_(-3)
        model.unembedding.bias[[7, 9]] = 1 + torch.tensor(bits) * torch.finfo(torch.float32).eps
    [target] = greedy(model, [[5, EOS]])
    assert set(target[1:]) == {7}


def test_each_row_has_its_own_limit_of_which_a_prefix_is_a_part(model: Transformer) -> None:
    """Twice as many tokens as the source has, and 10; at most as many as the model allows."""
    sources = [[EOS], [5, 6, EOS], [5] * 30]
    assert Generation(model, sources).most_generated == [12, 16, 31]
    assert Generation(model, sources, [BOS, 7]).most_generated == [11, 15, 30]
    assert Generation(model, sources, [BOS] * 20).most_generated == [1, 1, 12]


@pytest.mark.parametrize(
    ("sources", "prefix", "message"),
    [
        ([], None, "expected at least one source, got an empty batch"),
        ([[]], None, "allows no key: expected at least one token in each row"),
        ([[5, EOS], []], None, "allows no key: expected at least one token in each row"),
        ([[5] * 32], None, "expected at most 31 tokens, got 32"),
        ([[5, EOS]], [], "prefix: expected the start token"),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    model: Transformer, sources: list[list[int]], prefix: list[int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        greedy(model, sources, prefix)


SOURCES = [[5, 17, 9, 30, 8, EOS], [6, 11, EOS]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_layer_gives_the_models_own_and_inner_ones_shallower_models(norm: str) -> None:
    """The memory of an inner layer is that of a model without the layers above it."""
    model = tiny_model(norm=norm, final_norm=norm == "pre", n_encoder_layers=3).double()
    found = [decoder_lens(model, SOURCES, layer) for layer in range(4)]
    assert found[-1] == greedy(model, SOURCES)
    layers = model.encoder.layers
    for depth in range(3):
        model.encoder.layers = layers[:depth]
        assert found[depth] == greedy(model, SOURCES)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_layer_gives_what_transformers_generates_from_it(family: str) -> None:
    from transformers.modeling_outputs import BaseModelOutput

    twins = build(family, dtype=torch.float64)
    eager: Any = twins.eager
    source = torch.tensor([[7, 17, twins.ours.special_ids.end]])
    mask = torch.ones_like(source)
    with torch.no_grad():
        outputs = eager.get_encoder()(source, attention_mask=mask, output_hidden_states=True)
    family, _ = families_of(eager.config.to_dict(), "")
    norm = find(stack_of(eager, "encoder"), family.final_norm)
    streams: list[Tensor] = list(outputs.hidden_states)
    language = eager.generation_config.forced_bos_token_id  # which m2m_100 begins with
    prefix = None if language is None else [twins.ours.special_ids.start, language]
    for depth, memory in enumerate(streams):
        ids = decoder_lens(twins.ours, source.tolist(), depth, prefix)
        if norm is not None and depth < len(streams) - 1:
            with torch.no_grad():
                memory = norm(memory)
        if depth == len(streams) - 1:
            memory = outputs.last_hidden_state
        expected = eager.generate(
            encoder_outputs=BaseModelOutput(memory),
            attention_mask=mask,
            max_new_tokens=len(ids[0]) - 1,
            do_sample=False,
            num_beams=1,
            use_cache=False,
            encoder_no_repeat_ngram_size=0,  # which Blenderbot has, and we do not
        )
        assert ids[0] == expected[0].tolist()


# Sampling, and texts that are translated in any way of decoding

TABLE = [0.02, 0.03, 0.05, 0.1, 0.4, 0.25, 0.15]
"""Probabilities of the seven tokens of ``memoryless``."""


@pytest.fixture(scope="module")
def memoryless() -> Transformer:
    """Make a model in float64 whose probabilities do not depend on earlier tokens."""
    model = tiny_model(target_vocab_size=len(TABLE), output_bias=True, tied="none").double()
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.copy_(torch.tensor(TABLE, dtype=torch.float64).log())
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
def test_nucleus_has_the_fewest_tokens_with_enough_probability(
    temperature: float, top_p: float, expected: list[float]
) -> None:
    rows = [[0.1, 0.5, 0.15, 0.25], [0.25, 0.15, 0.1, 0.5]]
    logits = torch.tensor(rows, dtype=torch.float64).log() + 3
    ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
    assert ids.tolist() == [[1, 3, 2, 0], [3, 0, 1, 2]]
    for row in probability.tolist():  # the roundings of logits are divided by the temperature
        assert row == near(expected, size=1 / temperature)
        assert [value == 0 for value in row] == [value == 0 for value in expected] or top_p == 1


@pytest.mark.parametrize(("top_p", "kept"), [(0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (1, 4)])
def test_nucleus_of_equally_likely_tokens(top_p: float, kept: int) -> None:
    ids, probability = nucleus(torch.zeros(1, 4), temperature=1, top_p=top_p)
    assert sorted(ids[0].tolist()) == [0, 1, 2, 3]
    assert probability[0].tolist() == near([1 / kept] * kept + [0] * (4 - kept))


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
def test_a_random_number_selects_a_token_by_cumulative_probability(
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


def test_samples_depend_only_on_their_seeds(model: Transformer, sources: list[list[int]]) -> None:
    """The rest of the batch makes no difference, nor does torch's own generator."""
    before = torch.get_rng_state()
    seeds = list(range(5, 5 + len(sources)))
    targets = sample(model, sources, seeds=seeds)
    assert sample(model, sources, seeds=seeds) == targets
    for source, seed, target in zip(sources, seeds, targets, strict=True):
        assert sample(model, [source], seeds=[seed]) == [target]
    others = sample(model, sources, seeds=[seed + 100 for seed in seeds])
    assert all(other != target for other, target in zip(others, targets, strict=True))
    twice = sample(model, [sources[0]] * 3, seeds=[8, 9, 8])
    assert twice[0] == twice[2] != twice[1]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("temperature", "top_p"), [(1e-4, 1), (1e-4, 0.9), (1, 1e-9), (3, 1e-9)])
def test_low_temperature_or_a_tiny_nucleus_is_greedy_decoding(
    model: Transformer, sources: list[list[int]], temperature: float, top_p: float
) -> None:
    seeds = range(len(sources))
    targets = sample(model, sources, seeds=seeds, temperature=temperature, top_p=top_p)
    assert targets == greedy(model, sources)


def test_each_source_needs_a_seed(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected 2 seeds, one a source, got 1"):
        sample(model, [[EOS], [5, EOS]], seeds=[3])


# Translation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam: expected at least 1, got 0"),
        ({"length_penalty": -0.1}, "length_penalty: expected 0 to 10, got -0.1"),
        ({"length_penalty": math.nan}, "length_penalty: expected 0 to 10, got nan"),
        ({"length_penalty": 1e9}, "length_penalty: expected 0 to 10, got 1000000000.0"),
        ({"seed": -1, "temperature": 1.0}, "seed: expected 0 to 4294967295, got -1"),
        ({"seed": 2**32, "temperature": 1.0}, "seed: expected 0 to 4294967295, got 4294967296"),
        ({"temperature": 0.0}, "temperature: expected more than 0, got 0.0"),
        ({"temperature": math.nan}, "temperature: expected more than 0, got nan"),
        ({"temperature": math.inf}, "temperature: expected more than 0, got inf"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p: expected 0 < p <= 1, got 0.0"),
        ({"temperature": 1.0, "top_p": 1.1}, "top_p: expected 0 < p <= 1, got 1.1"),
        ({"beam": 2, "temperature": 1.0}, "expected a beam or a temperature, got both; leave one"),
        ({"top_p": 0.9}, "top_p belongs to sampling; give a temperature too, 1 for none"),
    ],
)
def test_decoding_refuses_bad_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(),
        Decoding(beam=3, length_penalty=2.0),
        Decoding(temperature=1.0, seed=7),
        Decoding(temperature=0.5, top_p=0.9),
    ],
)
def test_translations_have_the_order_of_texts(trained_run: TrainedRun, decoding: Decoding) -> None:
    """The seed depends on the index of a text, so that equal texts get different samples."""
    # In float64 the likeliest tokens are those of a text by itself, however near others are.
    model, tokenizers = load_weights(trained_run, 0, torch.float64).model, trained_run.tokenizers
    texts = ["Hi", "The book is on the table.", "Where is the key?", "", "Hi", "We want water."]
    alone = []
    for place, text in enumerate(texts):
        source = tokenizers.encode_source(text)
        if decoding.temperature is not None:
            temperature, top_p = decoding.temperature, decoding.top_p
            seeds = [(decoding.seed + 0x9E3779B1 * place) % 2**32]
            [target] = sample(model, [source], seeds=seeds, temperature=temperature, top_p=top_p)
        elif decoding.beam > 1:
            [beam] = beam_search(model, [source], size=3, alpha=decoding.length_penalty)
            target = beam.hypotheses[0].target
        else:
            [target] = greedy(model, [source])
        alone.append(tokenizers.target.decode(target))
    assert len(set(alone)) > 1
    assert (alone[0] == alone[4]) == (decoding.temperature is None)
    for batch_size in (3, 64):
        found = translate(model, tokenizers, texts, batch_size=batch_size, decoding=decoding)
        assert found == alone
    assert translate(model, tokenizers, texts[2:], decoding=decoding, start=2) == alone[2:]
    assert translate(model, tokenizers, [], decoding=decoding) == []


def test_a_beam_is_searched_as_asked(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def spy(model: Any, sources: Any, **options: Any) -> list[Beam]:
        asked.append(options)
        return [Beam([Hypothesis([BOS], 0.0, 0.0, 0)], ())] * len(sources)

    monkeypatch.setattr("headwise.model.decoding.translation.beam_search", spy)
    decoding = Decoding(beam=3, length_penalty=2.0, early_stopping=True)
    assert translate(None, trained_run.tokenizers, ["Hi"], decoding=decoding) == [""]
    assert asked == [{"size": 3, "alpha": 2.0, "early_stopping": True, "prefix": (BOS,)}]


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_sorted_batches_are_longest_first(lengths: list[int], size: int) -> None:
    batches = list(sorted_batches([[5] * n for n in lengths], size))
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    assert all(len(batch) == size for batch in batches[:-1])
    assert not batches or 1 <= len(batches[-1]) <= size
