"""Settings of generation that decoding follows: it writes what ``generate`` writes."""

from __future__ import annotations

import pytest
import torch

from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.decoding.sampling import sample
from headwise.model.pretrained.folders import quiet
from tests.model.pretrained.tiny import build


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus"])
def test_decoding_ends_at_each_of_the_ends_of_a_model(family: str) -> None:
    source = [6, 9, 17, 23, 11, 4]
    [long] = greedy(build(family).ours, [source])
    assert len(long) > 6
    second = long[4]  # what it writes becomes an end, beside one that it does not write
    twins = build(family, eos_token_id=[50, second])
    assert 50 not in long
    with quiet():
        expected = twins.eager.generate(
            torch.tensor([source]), num_beams=1, do_sample=False, max_new_tokens=len(long)
        )
    stop = long.index(second) + 1
    assert greedy(twins.ours, [source]) == expected.tolist() == [long[:stop]]
    beam = beam_search(twins.ours, [source], size=3)[0]
    assert {h.target[-1] for h in beam.hypotheses} & {50, second}
    assert all(not {50, second} & {*h.target[1:-1]} for h in beam.hypotheses)
    drawn = sample(twins.ours, [source] * 5, seeds=range(5))
    assert all(not {50, second} & {*target[1:-1]} for target in drawn)
