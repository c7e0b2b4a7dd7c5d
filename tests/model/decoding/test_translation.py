from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.decoding.sampling import sample
from headwise.model.decoding.translation import Decoding, translate


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
def test_decoding_refuses_bad_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


@pytest.mark.parametrize("batch_size", [3, 64])
@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(),
        Decoding(beam=3, length_penalty=2.0),
        Decoding(temperature=1.0, seed=7),
        Decoding(temperature=0.5, top_p=0.9),
    ],
)
def test_translations_keep_the_order_of_their_texts(
    trained_run: TrainedRun, decoding: Decoding, batch_size: int
) -> None:
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
    found = translate(model, tokenizers, texts, batch_size=batch_size, decoding=decoding)
    assert found == alone


def test_no_texts_have_no_translations(trained_run: TrainedRun) -> None:
    assert translate(load_weights(trained_run, 0).model, trained_run.tokenizers, []) == []
