"""Records of families: all that is needed to open one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headwise.model.files import CheckpointError
from headwise.model.hooks import capture
from headwise.model.interface import attention_path
from headwise.model.pretrained.families import FAMILIES, family_of
from tests.model.pretrained.passes import assert_same, inputs, run
from tests.model.pretrained.tiny import build


def test_a_record_is_all_that_another_family_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    record = replace(FAMILIES["mbart"], title="Blenderbot")  # the example of docs/add-a-family.md
    monkeypatch.setitem(FAMILIES, "blenderbot", record)
    twins = build("blenderbot", dtype=torch.float64)
    source, target = inputs(twins, 7, 4)
    theirs = twins.logits(source, target, output_attentions=True)
    names = [f"{attention_path('cross', layer)}.weights" for layer in range(2)]
    with capture(twins.ours, names) as seen:
        logits = run(twins.ours, source, target)
    assert_same(twins, logits, theirs.logits)
    for name, attention in zip(names, theirs.cross_attentions, strict=True):
        assert_same(twins, seen[name][0], attention, size=1)


def test_other_families_are_refused_with_those_that_can_be_opened() -> None:
    with pytest.raises(CheckpointError, match=r"'llama' cannot be opened; expected one of marian,"):
        family_of("llama", "config.json")
