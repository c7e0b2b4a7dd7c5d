"""Patches of traces; ``test_sentences_passes.py`` has those of single hook points."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headwise.model import budget
from headwise.model.interface import Head
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.patches import (
    run_attribution,
    run_patched_translation,
    run_patching,
)
from headwise.viz_app.why.sentences.patching import Patching
from tests.floats import PASS, near

A, B = "The cats don't see the dog.", "The cats see the dog."
OWN = "Ella lo ve. No te preocupes."
TURNED = Turned.of(
    {Head("cross", 0, 1): 0.0, Head("encoder_self", 1, 0): 2.0},
    [(Head("encoder_self", 0, 2), 1, 0)],
)
BOUND = {"dtype": np.float64, "size": 40.0, "operations": PASS}


def both(
    model: Transformer, tokenizers: TokenizerPair, turned: Turned = AS_IT_IS
) -> tuple[Trace, Trace]:
    a = run_trace(model, tokenizers, A, OWN, turned=turned)
    return a, run_trace(model, tokenizers, B, OWN)


@pytest.mark.parametrize("turned", [Turned(), TURNED])
@pytest.mark.parametrize("compute", [run_patching, run_attribution])
def test_what_is_turned_in_a_is_turned_in_every_pass(
    precise: Transformer,
    tokenizers: TokenizerPair,
    compute: Callable[..., Patching],
    turned: Turned,
) -> None:
    a, b = both(precise, tokenizers, turned)
    words = a.predicted.ids[3], a.predicted.ids[1]
    found = compute(precise, a, b.source, 3, words)
    target = torch.tensor([a.consumed.ids[:4]])
    for trace, odds in ((a, found.odds_a), (b, found.odds_b)):
        with torch.inference_mode(), turn(precise, turned):
            logits = precise(torch.tensor([trace.source.ids]), target)[0, -1]
        assert odds == near(float(logits[words[0]] - logits[words[1]]), **BOUND)
    assert found.odds_a != found.odds_b
    # The last layer's stream at the step that is asked is all that is read of the decoder.
    if compute is run_patching:
        assert found.stream_decoder[-1, -1] == near(found.odds_b, **BOUND)
    others = found.stream_decoder[-1, :-1]
    assert others == near(np.full_like(others, found.odds_a), **BOUND)


def test_a_stretch_of_another_length_is_taken_from_the_end_of_the_encoder_only(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    a, b = both(precise, tokenizers)
    words = a.predicted.ids[3], a.predicted.ids[1]
    told: list[tuple[int, int]] = []
    found = run_patching(precise, a, b.source, 3, words, note_done=lambda *done: told.append(done))
    place = next(n for n, each in enumerate(found.stretches) if not each.fits)
    assert told[-1][0] == told[-1][1] > 40
    assert np.isnan(found.stream_encoder[:-1, place]).all()
    spliced, odds_a = found.stream_encoder[-1, place], found.odds_a
    assert np.isfinite(spliced)
    assert spliced != odds_a
    assert np.isfinite(np.delete(found.stream_encoder, place, axis=1)).all()
    prefix = tokenizers.prefix
    with pytest.raises(ValueError, match="with a counterpart in B"):
        run_patched_translation(precise, a, b.source, 3, f"stream.encoder.0.{place + 1}", prefix)


def test_a_patch_of_the_decoder_keeps_the_shared_target_up_to_the_step(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    a, b = both(precise, tokenizers)
    found = {
        name: run_patched_translation(precise, a, b.source, 3, name, tokenizers.prefix)
        for name in ("cross.1.1", "encoder_self.1.1")
    }
    assert tuple(found["cross.1.1"][:4]) == a.consumed.ids[:4]
    assert tuple(found["encoder_self.1.1"][:4]) != a.consumed.ids[:4]


def test_a_translation_under_a_patch_has_what_is_turned_in_a(
    precise: Transformer, tokenizers: TokenizerPair
) -> None:
    """A patched by itself is A's own translation with what is turned."""
    pinned = Turned.of(
        pinned=[(Head("cross", layer, head), 0, 0) for layer in (0, 1) for head in range(3)]
    )
    turned = Turned(tuple(TURNED.strengths), pinned.pinned)
    own = run_trace(precise, tokenizers, A, turned=turned)
    plain = run_trace(precise, tokenizers, A)
    assert own.target_ids != plain.target_ids
    ids = run_patched_translation(
        precise, own, own.source, 1, "encoder_self.1.1", tokenizers.prefix
    )
    assert ids == own.target_ids


@pytest.mark.parametrize("compute", [run_patching, run_attribution])
def test_patches_for_which_memory_has_no_room_are_refused(
    precise: Transformer,
    tokenizers: TokenizerPair,
    monkeypatch: pytest.MonkeyPatch,
    compute: Callable[..., Patching],
) -> None:
    a, b = both(precise, tokenizers)
    monkeypatch.setattr(budget, "used", lambda: 700 * 2**20)
    monkeypatch.setenv(budget.MEMORY, str(700 * 2**20 + 1_000))
    with pytest.raises(ValueError, match=r"takes some \d+ MiB of memory, and 0 are free"):
        compute(precise, a, b.source, 3, (5, 6))


def test_too_many_passes_are_refused_by_what_they_would_take(
    precise: Transformer, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many passes are named as there are patches, and the seconds grow with the tokens."""
    a, b = both(precise, tokenizers)
    asked = precise, a, b.source
    said = []
    for step in (1, 3):
        monkeypatch.setattr("headwise.viz_app.why.sentences.patches.A_SECOND", 1)
        with pytest.raises(ValueError, match="seconds of a processor, and at most 0") as refused:
            run_patching(*asked, step, (5, 6), most_seconds=0)
        numbers = re.findall(r"[\d,]*\d", str(refused.value))
        said.append([int(each.replace(",", "")) for each in numbers])
        monkeypatch.undo()
        passes = len(list(run_patching(*asked, step, (5, 6)).named()))
        assert said[-1][:3] == [passes, len(a.source), step + 1]
    assert said[0][3] < said[1][3]
