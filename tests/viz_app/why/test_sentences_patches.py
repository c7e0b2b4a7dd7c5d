"""Which stretches of two sentences correspond, and what patching them restores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from headwise.model import budget
from headwise.model.interface import KINDS, Head, WordSpan
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn
from headwise.viz_app.records.trace import Tokens, Trace, Word
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.correspondence import (
    Stretch,
    corresponding,
    difference_where_corresponding,
    parting,
    places_of,
    stretch_labels,
)
from headwise.viz_app.why.sentences.patches import (
    run_attribution,
    run_patched_translation,
    run_patching,
)
from headwise.viz_app.why.sentences.patching import (
    SUBLAYERS,
    Patching,
    patch_label,
    rank_correlations,
    row_label,
)
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
    pinned = Turned.of(pinned=[(Head("cross", *at), 0, 0) for at in np.ndindex(2, 3)])
    turned = Turned(tuple(TURNED.strengths), pinned.pinned)
    own = run_trace(precise, tokenizers, A, turned=turned)
    plain = run_trace(precise, tokenizers, A)
    assert own.target_ids != plain.target_ids
    asked = own.source, 1, "encoder_self.1.1", tokenizers.prefix
    assert run_patched_translation(precise, own, *asked) == own.target_ids


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


STRETCHES, TOKENS = ("x → z", "y"), ("<s>", "a")


@pytest.mark.parametrize(
    ("name", "long", "short"),
    [
        ("stream.encoder.0.1", "“x → z” (1) as the embedding of the encoder", "encoder 0: x → z"),
        ("stream.decoder.2.1", "“<s>” (1) as layer 2 of the decoder leaves it", "decoder 2: <s>"),
        ("sublayer.decoder.3.cross", "Cross of layer 3 of the decoder", "decoder 3: cross"),
        ("sublayer.encoder.2.feed_forward", "Feed-forward of layer 2", "encoder 2: feed-fwd"),
        ("cross.3.4", "head Cross 3.4", "Cross 3.4"),
    ],
)
def test_a_patch_has_a_long_and_a_short_label(name: str, long: str, short: str) -> None:
    assert patch_label(name, STRETCHES, TOKENS).startswith(long)
    assert row_label(name, STRETCHES, TOKENS) == short


def patching(
    encoder: list[list[float]], decoder: list[list[float]], same: tuple[bool, ...] = (False, True)
) -> Patching:
    """Patches of shares: odds are from 0 in A to 1 in B."""
    spans = [WordSpan(n, n + 1) for n in range(len(same))]
    return Patching(
        step=len(decoder[0]) - 1,
        words=(5, 6),
        odds_a=0.0,
        odds_b=1.0,
        rounding=1e-6,
        exact=True,
        stretches=tuple(map(Stretch, spans, spans, same)),
        stream_encoder=np.array(encoder),
        stream_decoder=np.array(decoder),
        heads={kind: np.zeros((len(encoder) - 1, 1)) for kind in KINDS},
        sublayers={stack: np.zeros((1, len(names))) for stack, names in SUBLAYERS.items()},
    )


def test_the_earliest_place_is_the_first_that_suffices_for_half() -> None:
    for shares, expected in (
        ([[0.2, 0.5], [0.9, 0.1]], (0, 1)),  # half is enough
        ([[0.2, 0.49], [0.9, 0.95]], (1, 1)),
        ([[math.nan, 0.4], [math.nan, 0.7]], (1, 1)),
        ([[0.1, -2.0], [math.nan, 0.4]], None),
    ):
        found = patching(shares, shares)
        assert found.earliest("encoder") == found.earliest("decoder") == expected


def test_what_restores_all_by_construction_is_known() -> None:
    """The embedding of the only token that differs, and the decoder's end at the last step."""
    shares, places = [[0.0, 0.0], [0.0, 0.0]], [(0, 0), (0, 1), (1, 0), (1, 1)]
    for same, stack, expected in (
        *(((True, False), "encoder", [(0, 1)]), ((False, False), "encoder", [])),
        ((True, False), "decoder", [(1, 1)]),
    ):
        found = patching(shares, shares, same)
        assert [each for each in places if found.by_construction(stack, each)] == expected


def test_agreement_is_of_the_patches_that_change_anything_and_are_in_both() -> None:
    exact = patching([[0.0, 0.1], [0.2, 0.3]], [[0.4, 0.5], [0.6, 0.7]])
    near = replace(exact, stream_encoder=np.array([[0.0, 0.0], [0.1, math.nan]]))
    found = rank_correlations(exact, near)
    assert found["streams"].patches == 6  # not the one at A's odds, nor the one without a gradient
    assert found["streams"].value == pytest.approx(1)
    assert str(found["streams"]) == "1.00 (6 patches)"  # all resamples are 1, and say nothing
    assert str(found["heads"]) == "none (too few, or all alike: 0)"


Cut = tuple[str, ...]
IDS: dict[str, int] = {}
"""The same token has the same id in all sentences."""


def tokens(*words: str) -> Tokens:
    """Words cut into tokens at ``+``; each begins with a space."""
    texts: list[str] = []
    spans = []
    for word in words:
        parts = word.split("+")
        spans.append(Word(word.replace("+", ""), len(texts), len(texts) + len(parts)))
        texts += [f" {parts[0]}", *parts[1:]]
    ids = tuple(IDS.setdefault(text, 10 + len(IDS)) for text in texts)
    return Tokens(ids, tuple(texts), tuple(spans))


@pytest.mark.parametrize(
    ("a", "b", "labels", "pairs"),
    [
        # A word for a word of one token.
        ("the cat is here", "the dog is here", "the|cat → dog|is|here", "00 11 22 33"),
        # Two changed words side by side stand for each other in order.
        ("the red cat", "the old dog", "the|red → old|cat → dog", "00 11 22"),
        # A changed word of two tokens for one of two: a span.
        ("a ha+t here", "a ca+p here", "a|ha ·t → ca ·p|here", "00 11 22 33"),
        # With another number of tokens no position corresponds.
        ("a hat here", "a ca+p here", "a|hat → ca ·p|here", "00 23"),
        ("a ca+p here", "a hat here", "a|ca ·p → hat|here", "00 32"),
        # A piece that only one of them has.
        ("one cat", "one cat+s", "one|cat|∅ → ·s", "00 11"),
        ("one cat+s now", "one cat now", "one|cat|·s → ∅|now", "00 11 32"),
        # Words put in and taken out; other numbers of words are one stretch.
        ("I saw him", "I did not see him", "I|saw → did not see|him", "00 24"),
        ("she is here", "she is not here", "she|is|∅ → not|here", "00 11 23"),
        ("no one came", "he came", "no one → he|came", "21"),
        # Nothing in common, and everything.
        ("x y", "z", "x y → z", ""),
        ("x y x", "x y x", "x|y|x", "00 11 22"),
    ],
)
def test_stretches_of_two_sentences(a: str, b: str, labels: str, pairs: str) -> None:
    first, second = tokens(*a.split()), tokens(*b.split())
    found = corresponding(first, second)
    assert stretch_labels(first, second, found) == labels.split("|")
    expected = [(int(pair[0]), int(pair[1])) for pair in pairs.split()]
    assert [pair for each in found for pair in each.pairs] == expected
    for side, sentence in (("a", first), ("b", second)):
        spans = [getattr(each, side) for each in found]
        places = [place for span in spans for place in range(span.start, span.stop)]
        assert places == list(range(len(sentence)))


def test_of_symbols_in_another_order_those_correspond_that_keep_it() -> None:
    a, b = tokens("5", "6", "7", "8"), tokens("7", "8", "5", "6")
    found = corresponding(a, b)
    assert stretch_labels(a, b, found) == ["∅ → 7 8", "5", "6", "7 8 → ∅"]
    assert [pair for each in found for pair in each.pairs] == [(0, 2), (1, 3)]


def test_a_difference_is_drawn_only_where_both_have_row_and_column() -> None:
    a = tokens("the", "cat", "is", "here")
    b = tokens("the", "cat", "is", "not", "here")
    places = places_of(corresponding(a, b), 4)
    assert places.tolist() == [0, 1, 2, 4]
    rows = np.array([0, -1, 1])
    of_a = np.arange(12, dtype=np.float32).reshape(3, 4)
    of_b = 10 * np.arange(10, dtype=np.float32).reshape(2, 5)
    found = difference_where_corresponding(of_a, of_b, rows, places)
    nan = np.nan
    np.testing.assert_array_equal(found, [[0, 9, 18, 37], [nan, nan, nan, nan], [42, 51, 60, 79]])


def test_two_translations_part_at_the_first_token_that_differs() -> None:
    assert parting([1, 2, 3], [1, 5, 4]) == 1
    assert parting([1, 2, 3], [1, 2, 3]) == parting([1, 2], [1, 2, 3]) == parting([], [4]) is None
