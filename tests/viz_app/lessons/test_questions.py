"""Questions of lessons, on maps and numbers that are set by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from headwise.model.interface import Head, WordSpan
from headwise.model.transformer import Transformer
from headwise.model.turned import Turned
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.core.written import HeadDictionary
from headwise.viz_app.lessons.question import (
    Asked,
    Compared,
    Question,
    first_difference,
    heaviest_row,
    most_changed_row,
    place_of,
)
from headwise.viz_app.lessons.questions import KINDS, ask, read_parameters
from headwise.viz_app.records.measures import Curve
from headwise.viz_app.records.pairs import PairScores
from headwise.viz_app.records.trace import Tokens, Trace
from headwise.viz_app.why.sentences.correspondence import Stretch
from headwise.viz_app.why.sentences.patching import PatchedPair, Patching
from headwise.viz_app.why.word.account import Account, Parts, run_account
from tests.floats import assert_near
from tests.viz_app.measures import made_up_pairs

CURVES = {
    "valid_loss": Curve(np.array([0, 10, 20, 30]), np.array([3.5, 2.0, 1.0, 1.5])),
    "train_sample_loss": Curve(np.array([0, 30]), np.array([3.4, 0.1])),
    "bleu": Curve(np.array([0, 10, 20]), np.array([0.0, 30.0, 20.0])),
}
NEEDED = {
    "head_extreme": {"of": "previous"},
    "best_milestone": {"of": "valid_loss"},
    "last_value": {"of": "train_sample_loss"},
    "score_term": {"row": "last"},  # the first may look at one key only
}
"""Parameters that a kind of question has to be given."""
WORDS = [["<s>"], [" a"], [" b"], ["</s>"]]
CROSS = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
"""Weights of three steps on a source of three tokens."""
EVEN = np.full((3, 3), 1 / 3)
OWN = [[1, 0, 0], [0.9, 0.1, 0], [0.2, 0.5, 0.3]]


@pytest.fixture
def asked(trace: Trace, make_tokens: Callable[..., Tokens], trained: Transformer) -> Asked:
    """Cross-attention of two layers with two heads, on three tokens each; row 1 is chosen."""
    maps = {
        "cross": [[CROSS, EVEN], [EVEN, CROSS[::-1]]],
        "decoder_self": [[OWN, np.tri(3) / [[1], [2], [3]]]],
        "encoder_self": [[EVEN, CROSS]],
    }
    small = replace(
        trace,
        source=make_tokens([" x"], [" y"], ["</s>"]),
        consumed=make_tokens(*WORDS[:3]),
        predicted=make_tokens(*WORDS[1:]),
        attention={kind: np.array(each, np.float32) for kind, each in maps.items()},
        value_norms={"cross": np.array([[[1, 1, 9]] * 2] * 2, np.float32)},
        queries={"cross": np.array([[[[1, 0], [2, 1], [0, 0]]] * 2] * 2, np.float32)},
        keys={"cross": np.array([[[[1, 1], [0, 3], [1, 2]]] * 2] * 2, np.float32)},
        predictions=replace(
            trace.predictions,
            entropy=np.array([0.1, 1.5, 0.7], np.float32),
            log_probability=np.log(np.array([0.25, 0.5, 0.9], np.float32)),
        ),
    )
    turned = replace(
        small,
        turned=Turned.off([("cross", 0, 0)]),
        predictions=replace(small.predictions, rank=np.array([3, 1, 2])),
    )
    return Asked(
        small,
        trained.description,
        Head("cross", 0, 0),
        row=1,
        curves=CURVES,
        pairs=made_up_pairs,
        turned=lambda: turned,
        account=compared,
        patched_pair=patched,
    )


def written(head: Head) -> HeadDictionary:
    """A head that raises tokens 3 and 1, and lowers 0 and 2, whatever it reads."""
    ids, by = np.array([[3, 1]] * 20), np.array([[2.5, 1.0]] * 20, np.float32)
    names, lowers = np.array([["t3", "t1"]] * 20), np.array([["t0", "t2"]] * 20)
    of_tokens = {"ids": ids[:, 0], "token": names[:, 0], "places": ids[:, 0]}
    raised = {"raised": ids, "raises": names, "raised_by": by}
    return HeadDictionary(**of_tokens, **raised, lowered=ids, lowers=lowers, lowered_by=-by)


def scored(head: Head, row: int) -> ScoreParts:
    """A query and three keys of a token, a position and a layer, each a number; by hand."""
    keys = {"token": [1, 0, 0], "position": [0, 2, 0], "feed_forward.1": [0] * 3, "biases": [0] * 3}
    return ScoreParts(
        {name: np.array([3.0 if name == "position" else 1.0]) for name in keys},
        {name: np.array(key, np.float64)[:, None] for name, key in keys.items()},
        scale=1.0,
        relative=None,
        scores=np.zeros(3),
    )


def patched() -> PatchedPair:
    """Patches of one layer a stack, by hand; odds of p restore (1 − p) / 2."""
    spans = [Stretch(WordSpan(n, n + 1), WordSpan(n, n + 1), same=bool(n)) for n in range(2)]
    patching = Patching(
        step=1,
        words=(5, 6),
        odds_a=1.0,
        odds_b=-1.0,
        rounding=1e-6,
        exact=True,
        stretches=tuple(spans),
        stream_encoder=np.array([[-0.8, 0.9], [0.5, -0.2]]),
        stream_decoder=np.array([[1.0, 0.2], [1.0, -0.9]]),
        heads={
            "encoder_self": np.array([[0.5, 1.0]]),
            "decoder_self": np.array([[0.0, 1.0]]),
            "cross": np.array([[0.75, -0.5]]),
        },
        sublayers={"encoder": np.array([[0.9, 0.1]]), "decoder": np.array([[1.0, -0.6, 0.4]])},
    )
    return PatchedPair(patching, ("x → z", "y"), ("one", "other"))


def compared() -> Compared:
    """The account of two words at the second of these steps, by hand; its parts sum to 6.375."""
    zeros = np.zeros((2, 2, 3))
    cells = {name: zeros.copy() for name in ("token", "position", "biases")}
    heads, feed_forwards = np.zeros((2, 2, 3, 1, 2)), np.zeros((2, 2, 3, 1))
    cells["token"][0, 0, 0] = cells["biases"][0, 0, 0] = 0.25
    heads[0, 0, 0, 0], feed_forwards[0, 0, 0, 0], feed_forwards[1, 0, 1, 0] = [1, 0.5], -0.5, 3
    cross = [[[1, 0, 0], [0, -2, 0.25]], [[0, 3, 0], [0.5, 0, 0]]]
    of_decoder = [[[0, 0.25], [0, 0]], [[0.5, -1], [4, 0]]]
    account = Account(
        step=1,
        word=5,
        instead=6,
        difference=6.375,
        parts=Parts(
            token=np.array(0.5),
            position=np.array(-0.25),
            heads={"cross": np.array(cross), "decoder_self": np.array(of_decoder)},
            neurons=np.array([[1, -1, 0.5], [2, -3, 0]]),
            biases=np.array(0.125),
        ),
        from_encoder=Parts(**cells, heads={"encoder_self": heads}, neurons=feed_forwards),
        held="",
    )
    return Compared(account, "b", "c")


def right(question: Question) -> list[str]:
    """Return the labels of the right choices."""
    return [choice.label for choice in question.choices if question.is_right(choice.place)]


def labels(question: Question) -> list[str]:
    return [choice.label for choice in question.choices]


def made(asked: Asked, name: str, **given: str) -> Question:
    return ask(name, read_parameters(name, NEEDED.get(name, {}) | given), asked)


def about(asked: Asked, *, predictions: dict[str, Any] | None = None, **changes: Any) -> Asked:
    """The same, of a trace that is another in some fields, or in some of its predictions."""
    if predictions:
        changes["predictions"] = replace(asked.trace.predictions, **predictions)
    return replace(asked, trace=replace(asked.trace, **changes))


@pytest.mark.parametrize(
    ("name", "given", "answer"),
    [
        ("largest_key", {}, ["2: y"]),
        ("largest_key", {"row": "last"}, ["3: </s>"]),
        ("row_sum", {}, ["1.00"]),
        ("even_weight", {}, ["0.33"]),
        ("keys_for_share", {}, ["2"]),
        ("keys_for_share", {"share": "0.75"}, ["1"]),
        ("keys_for_share", {"share": "0.82"}, ["1", "2"]),  # 0.80 is as good
        ("row_for_key", {"column": "first"}, ["a ← <s>"]),
        ("hidden_token", {}, ["b"]),
        ("hidden_token", {"row": "last"}, ["b"]),
        ("predicted_token", {"row": "first"}, ["a"]),
        ("largest_weight", {}, ["0.80"]),
        ("masked_keys", {}, ["1"]),
        ("head_extreme", {"of": "largest_weight"}, ["1.1", "2.2"]),
        ("head_extreme", {"of": "evenness", "most": "false"}, ["1.1", "2.2"]),
        ("head_extreme", {"of": "itself"}, ["1.1"]),
        ("head_extreme", {"of": "end"}, ["1.2", "2.1"]),
        ("key_count", {}, ["3"]),
        ("query_width", {}, ["2"]),
        ("largest_product", {}, ["3: </s>"]),
        ("least_sure", {}, ["b"]),
        ("first_probability", {}, ["0.250"]),
        ("first_loss", {}, ["3.50 nats"]),
        ("best_milestone", {}, ["step 20"]),
        ("best_milestone", {"of": "bleu"}, ["step 10"]),
        ("last_value", {}, ["0.100"]),
        ("tokens_changed", {}, ["2"]),
        ("weakest_phenomenon", {}, ["negation"]),
        ("likelier_target", {}, ["Ve <b>."]),  # of the only pair that fails at step 20
        ("above_chance", {}, ["at none of them"]),  # 3 of 4 is 75%, from 30% to 95%
        ("heads_that_count", {}, ["1"]),
        ("word_ratio", {}, ["587 times"]),
        ("account_sum", {}, ["+6.38"]),
        ("largest_group", {}, ["Decoder self"]),
        ("largest_part", {}, ["Decoder self 2.2"]),
        ("key_of_head", {}, ["1: <s>"]),
        ("source_for_word", {}, ["x"]),
        ("head_for_token", {}, ["1.1"]),
        ("encoder_part", {}, ["Encoder self 1.1"]),
        ("restoring_token", {}, ["x → z"]),
        ("restoring_token", {"layer": "last"}, ["y"]),
        ("restoring_head", {}, ["head Cross 1.2"]),
        ("restoring_sublayer", {}, ["Cross of layer 1 of the decoder"]),
    ],
)
def test_answers_by_hand(asked: Asked, name: str, given: dict[str, str], answer: list[str]) -> None:
    assert right(made(asked, name, **given)) == answer


@pytest.mark.parametrize(
    ("name", "given", "offered", "place", "reason"),
    [
        ("row_sum", {}, "0.80 1.00 3.00", 1, "0.80 + 0.10 + 0.10 over 3 keys make 1.00: softmax"),
        ("even_weight", {}, "0.17 0.33 0.50 1.00", 1, "its weights sum to 1: 1 / 3 = 0.33 for"),
        ("keys_for_share", {}, "1 2 3", 1, "0.80 + 0.10 ≈ 0.90, with 2 of 3 keys; with one less"),
        ("keys_for_share", {"share": "0.75"}, "1 3", 0, "down: 0.80 ≈ 0.80, with 1 of 3 keys."),
        ("keys_for_share", {"share": "0.82"}, "1 2 3", 0, "less it is 0.80, nearly as much."),
        ("hidden_token", {}, "a b </s>", 1, "Row 2 from the top has to predict “b”, which the"),
        ("hidden_token", {}, "a b </s>", 2, "is predicted by row 3 from the top, after “b”."),
        ("predicted_token", {}, "a b </s>", 2, "is predicted by row 3, after it has consumed “b”."),
        ("largest_weight", {}, "0.33 0.50 0.80", 2, "even rows would have 0.33 on each of 3 keys"),
        ("masked_keys", {}, "1 2 3", 0, "Row 2 has consumed 2 of the 3 tokens and may look at"),
        ("query_width", {}, "2 3 14", 0, "W_Q is 14 × 2: it makes d_k = 2 numbers of 14. Each of"),
        ("key_count", {}, "1 3 14", 1, "each of the 3 tokens of the source"),
        ("score", {}, "1.50 2.12 3.00 4.24", 1, "√d_k = √2 = 1.41, and 3.00 / 1.41 = 2.12."),
        # Products of 3, 3 and 4: 1 / (1 + 2 / e) is 0.576; with them divided by √2, 0.503.
        ("unscaled", {}, "0.333 0.356 0.503 0.576", 3, "is 0.576 in place of 0.503."),
        ("unscaled", {}, "0.333 0.356 0.503 0.576", 0, "p (1 − p): 0.244 in place of 0.250."),
        ("zero_factor", {}, "0.000 0.333 0.503 1.000", 1, "All 3 scores are 0 then"),
        ("first_probability", {}, "0.100 0.250 0.500 0.950", 1, "420 tokens were equally likely"),
        ("first_probability", {}, "0.100 0.250 0.500 0.950", 1, "likely, it would be 0.002."),
        ("first_loss", {}, "0.00 1.00 1.75 3.50", 3, "costs ln 420 = 6.04 nats; the log says 3.50"),
        ("best_milestone", {}, "step:0 step:10 step:20 step:30", 1, "At step 10 the loss on valid"),
        ("last_value", {}, "0.100 1.500 3.400", 0, "from 3.400 at first; that on validation pairs"),
        ("last_value", {}, "0.100 1.500 3.400", 0, "ends at 1.500."),
        ("tokens_changed", {}, "0 1 2 3", 2, "With cross.1.1 turned, 2 of 3 tokens of the same"),
        ("heads_that_count", {}, "0 1 9 18", 1, "The interval lies above 0 for 1 of 18 heads."),
        # e to 6.375 is 587, and to −6.375, 12.75 and 3.1875 the others.
        ("word_ratio", {}, "0.0017 24.2 587 3.45e+05", 2, "is +6.38, and e to that power is"),
        ("account_sum", {}, "+0.00 +2.75 +4.00 +6.38", 3, "13 parts sum to +6.38"),
        ("account_sum", {}, "+0.00 +2.75 +4.00 +6.38", 0, "alone is +4.00, and all heads of"),
    ],
)
def test_the_numbers_that_are_offered_and_said_by_hand(
    asked: Asked, name: str, given: dict[str, str], offered: str, place: int, reason: str
) -> None:
    question = made(asked, name, **given)
    without_unit = [each.removesuffix(" times").removesuffix(" nats") for each in labels(question)]
    assert without_unit == [label.replace(":", " ") for label in offered.split()]
    assert reason in question.reason((place,))


def test_keys_for_a_share_are_added_to_5(asked: Asked, make_tokens: Callable[..., Tokens]) -> None:
    """The weights sum to 0.3, 0.5, 0.65, 0.75, 0.85, 0.95 and 1 from the heaviest down."""
    row = [0.05, 0.1, 0.1, 0.1, 0.15, 0.2, 0.3]
    source = make_tokens(*([f" {letter}"] for letter in "tuvwxyz"))
    long = about(asked, source=source, attention={"cross": np.array([[[row] * 3]], np.float32)})
    added = "0.30 + 0.20 + 0.15 + 0.10 + 0.10"
    question = made(long, "keys_for_share", share="0.9")
    assert (right(question), labels(question)) == (["6"], ["1", "6", "7"])
    assert f"{added} + … ≈ 0.95, with 6 of 7 keys; with one less it is 0.85" in question.reason(
        (0,)
    )
    question = made(long, "keys_for_share", share="0.8")
    assert (right(question), labels(question)) == (["5"], ["1", "5", "7"])
    assert f"{added} ≈ 0.85, with 5 of 7 keys; with one less it is 0.75." in question.reason((0,))


def test_beside_a_largest_weight_near_a_half_there_is_a_larger_one(asked: Asked) -> None:
    flat = np.array([[[[0.4, 0.3, 0.3]] * 3]], np.float32)
    question = made(about(asked, attention={"cross": flat}), "largest_weight")
    assert labels(question) == ["0.40", "0.90", "1.00"]


def test_of_the_second_likeliest_token_the_likeliest_is_not_offered(asked: Asked) -> None:
    known = np.log(np.array([[0.4, 0.3, 0.15, 0.1, 0.05]] * 3))
    top = ((" p", " q", " s", " r", " t"),) * 3
    likely = about(asked, predictions={"top_log_probability": known}, top_tokens=top)
    question = made(likely, "runner_up")
    assert (right(question), labels(question)) == (["q"], ["q", "r", "s"])


def test_the_lens_is_named_by_what_the_last_layer_reads(asked: Asked) -> None:
    ids = np.array([[[1]], [[2]], [[2]]]).repeat(3, axis=1)
    tokens = tuple(((f" {letter}",),) * 3 for letter in "pqq")
    question = made(about(asked, predictions={"lens_ids": ids}, lens_tokens=tokens), "lens_layer")
    assert right(question) == ["layer 1"]
    said = "the embedding: p; layer 1: q; layer 2: q. “q” comes first after layer 1, and stays."
    assert said in question.reason((0,))


def test_keys_with_one_score_cannot_be_told_apart(asked: Asked) -> None:
    alike = scored(Head("cross", 0, 0), 1)
    same = replace(alike, key_parts={name: 0 * key for name, key in alike.key_parts.items()})
    with pytest.raises(ValueError, match="same score for every key"):
        made(replace(asked, score_parts=lambda head, row: same), "score_term")


def test_a_model_without_positions_has_none_in_its_account(asked: Asked) -> None:
    given = compared()
    parts = replace(given.account.parts, position=None)
    account = replace(given.account, parts=parts)
    without = replace(asked, account=lambda: Compared(account, "b", "c"))
    assert "and its position brought +0.50, for" in made(without, "largest_group").reason((0,))


def test_a_head_is_named_from_1_in_what_is_said_of_it(asked: Asked) -> None:
    question = made(asked, "head_extreme", of="end")
    assert question.reason((0, 0)).startswith("Layer 1, head 1: its mean weight on the last key is")
    assert question.reason((1, 0)).startswith("Layer 2, head 1: ")
    assert question.reason((1, 1)).endswith("the largest here, of layer 1, head 2, is 0.33.")


def test_why_rows_sum_to_one_is_said_of_what_is_shown(asked: Asked) -> None:
    by_norms = replace(asked, cells="value norm")
    for shown in (by_norms, replace(asked, show="mean")):
        assert "the maps that it is made of have such rows" in made(shown, "row_sum").reason((0,))


def test_the_fewest_tokens_with_a_share_may_be_more_than_are_known(asked: Asked) -> None:
    known = np.log(np.array([[0.5, 0.3, 0.15]] * 3))
    three = about(asked, predictions={"top_log_probability": known})
    question = made(three, "nucleus_size", share="0.9")
    assert (right(question), labels(question)) == (["3"], ["1", "2", "3", "more than 3"])
    assert "0.50 + 0.30 + 0.15 + … : 3 tokens have 0.950." in question.reason((0,))
    question = made(three, "nucleus_size", share="0.99")
    assert (right(question), labels(question)) == (["more than 3"], ["1", "2", "more than 3"])
    assert "the 3 likeliest have 0.950 only." in question.reason((0,))


def test_the_head_that_spoke_most_did_so_over_all_that_it_read(asked: Asked) -> None:
    """Another one brought most in one cell."""
    account = compared().account
    heads = {"decoder_self": np.zeros((2, 2, 2)), "cross": np.zeros((2, 2, 3))}
    heads["cross"][0, 1], heads["cross"][1, 0, 0] = 1, 2.5
    parts = replace(account.parts, heads=heads)
    steady = replace(account, parts=parts)
    question = made(replace(asked, account=lambda: Compared(steady, "b", "c")), "key_of_head")
    assert question.names["head"] == "Cross 1.2"


def test_milestones_between_the_first_and_the_last_are_offered_at_a_third(asked: Asked) -> None:
    first = made_up_pairs()
    scores = first.checkpoints[0]
    seven = {10 * n: replace(scores, step=10 * n) for n in range(7)}
    measured = replace(first, checkpoints=seven)
    question = made(replace(asked, pairs=lambda: measured), "above_chance")
    assert labels(question) == ["step 0", "step 20", "step 60", "at none of them"]


def test_lengths_and_turns_of_embeddings_are_those_of_the_vectors(asked: Asked) -> None:
    """Tokens of 3, 4 and 1 have positions of 4, 3 and 2 added at a right angle."""
    tokens, positions = (
        np.array([[length * (axis == 0), length * (axis == 1)] for length in lengths], np.float32)
        for axis, lengths in enumerate(([3, 4, 1], [4, 3, 2]))
    )
    embedding = replace(
        asked.trace.source_embedding, tokens=tokens, positions=positions, total=tokens + positions
    )
    of_two = about(asked, source_embedding=embedding)
    assert right(made(of_two, "input_width")) == ["2"]
    question = made(of_two, "longer_part")
    assert right(question) == ["the positional encodings"]
    assert "the token embeddings 2.7 and the positional encodings 3.0" in question.reason((0,))
    question = made(of_two, "turned_most")
    assert right(question) == ["3: </s>"]
    assert "a cosine of 0.600; the smallest in this sentence is 0.447" in question.reason((0,))


def test_near_and_far_places_are_offered(asked: Asked, make_tokens: Callable[..., Tokens]) -> None:
    """The fourth of seven is most like the last; its neighbours, and the farthest, are wrong."""
    positions = np.eye(7, dtype=np.float32)
    positions[3] = [0.1, 0.2, 0.3, 1, 0.2, 0.1, 0.6]
    embedding = replace(asked.trace.source_embedding, positions=positions)
    seven = about(
        replace(asked, head=Head("encoder_self", 0, 0)),
        source=make_tokens(*([f" {letter}"] for letter in "tuvwxyz")),
        source_embedding=embedding,
        attention={"encoder_self": np.full((1, 1, 7, 7), 1 / 7, np.float32)},
    )
    question = made(seven, "nearest_position")
    assert (right(question), question.names) == (["7: z"], {"token": "4: w"})
    assert labels(question) == ["1: t", "3: v", "5: x", "7: z"]
    length = math.sqrt(0.01 + 0.04 + 0.09 + 1 + 0.04 + 0.01 + 0.36)
    said = "places 4 and 3 have a cosine of {:.2f}; the largest with any other place is {:.2f}."
    assert said.format(0.3 / length, 0.6 / length) in question.reason((2,))


@pytest.mark.parametrize("way", [1, -1])
def test_a_row_in_which_another_key_leads_comes_first(asked: Asked, way: int) -> None:
    """Norms of 4, 1 and 1: only in the last row the lead moves, from the second key to the first.

    The first row, which keeps its lead, changes by more. So it is the other way round.
    """
    weights = np.array([[0.34, 0.33, 0.33], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3]], np.float32)
    norms = np.array([4, 1, 1], np.float32)
    changed = about(
        asked,
        attention={"cross": weights[None, None, :, ::way]},
        value_norms={"cross": norms[None, None, ::way]},
    )
    assert most_changed_row(changed.trace, Head("cross", 0, 0)) == 2


def test_a_row_is_named_by_its_number_from_1_and_the_token_that_it_consumed(asked: Asked) -> None:
    for row, number, consumed in (("first", "1", "<s>"), ("second", "2", "a")):
        question = made(asked, "predicted_token", row=row)
        assert question.names == {"row_number": number, "consumed": consumed}


def test_masked_rows_offer_what_they_may_look_at(asked: Asked) -> None:
    causal = replace(asked, head=Head("decoder_self", 0, 0))
    assert right(made(causal, "masked_keys")) == ["1"]
    assert right(made(causal, "masked_keys", row="first")) == ["2"]
    assert labels(made(causal, "even_weight")) == ["0.20", "0.25", "0.50", "1.00"]
    assert right(made(causal, "largest_weight")) == ["0.90"]  # in a row with several keys
    question = made(causal, "largest_key")
    assert [choice.place for choice in question.choices] == [(1, 0), (1, 1)]
    assert not question.is_right((1, 2))
    assert "masked" in question.reason((1, 2))
    previous = made(causal, "head_extreme", of="previous")
    assert right(previous) == ["1.1"]
    # In cross-attention the first row has no key before its own, and counts as 0, as on Heads.
    shares = [np.diagonal(head, -1).sum() / 3 for head in asked.trace.attention["cross"][0]]
    said = made(replace(asked, head=Head("cross", 0, 0)), "head_extreme", of="previous")
    for choice, share in zip(said.choices, shares, strict=False):
        assert f"mean weight on the token before the query is {share:.2f}" in choice.note
    assert right(made(causal, "even_weight", row="first")) == ["1.00"]


def test_scores_are_products_divided_by_the_root_of_the_width(asked: Asked) -> None:
    """Row 1 has the query (2, 1): its products are 3, 3 and 4, and its heaviest key the second."""
    root = math.sqrt(2)
    question = made(asked, "score")
    assert question.names["product"] == "3.00"
    assert right(question) == [f"{3 / root:.2f}"]
    raw = np.exp([3, 3, 4])
    assert right(made(asked, "unscaled")) == [f"{raw.max() / raw.sum():.3f}"]
    assert right(made(asked, "zero_factor")) == ["0.333"]


def test_what_the_map_shows_is_asked_about(asked: Asked) -> None:
    # With value norms, weights 0.1, 0.8, 0.1 times 1, 1, 9 are 0.1, 0.8, 0.9.
    assert right(made(replace(asked, cells="value norm"), "largest_key")) == ["3: </s>"]
    two = replace(asked, head=Head("cross", 1, 0))
    assert right(made(two, "largest_key")) == ["1: x", "2: y", "3: </s>"]
    mean = replace(two, show="mean", row=2)
    assert_near(mean.weights[2], (np.array(CROSS[0]) + 1 / 3) / 2)
    assert right(made(mean, "largest_key")) == ["1: x"]
    rollout = replace(asked, head=Head("encoder_self", 0, 0), show="rollout")
    layer = (np.array(CROSS) + 1 / 3) / 2
    assert_near(rollout.weights, (layer + np.eye(3)) / 2)
    assert right(made(rollout, "largest_key")) == ["2: y"]


@pytest.mark.parametrize(
    ("maps", "of", "answer", "place", "reason"),
    [
        # Heads that look alike are as right, and the reason names one.
        (
            [[CROSS, EVEN], [EVEN + np.array([0.01, -0.01, 0]), CROSS]],
            "evenness",
            ["1.2", "2.1"],
            (0, 0),
            "the largest here, of layer 1, head 2, is 1.00",
        ),
        # In each row the head has 1 on one key, and the mean of three heads has 5/9 there.
        ([[EVEN, EVEN, CROSS], [np.eye(3), EVEN, EVEN]], "unlike_mean", ["2.1"], (1, 0), "is 0.44"),
    ],
)
def test_the_head_with_most_of_a_property(
    asked: Asked, maps: Any, of: str, answer: list[str], place: tuple[int, int], reason: str
) -> None:
    others = about(asked, attention={"cross": np.array(maps, np.float32)})
    question = made(others, "head_extreme", of=of)
    assert right(question) == answer
    assert reason in question.reason(place)


def test_questions_on_an_account_follow_what_is_marked_and_name_the_words(asked: Asked) -> None:
    marked = replace(asked, column=1)
    assert right(made(marked, "head_for_token")) == ["2.1"]
    assert right(made(marked, "encoder_part")) == ["Feed-forward 1"]
    assert right(made(marked, "encoder_part", of="head")) != ["Feed-forward 1"]
    question = made(marked, "head_for_token")
    assert question.names == {"word": "b", "other": "c", "token": "2: y"}
    assert question.reason((1,)).startswith("1.2 brought -2.00, against “b”; the most, +3.00, ")
    assert made(asked, "key_of_head").names["head"] == "Decoder self 2.2"
    heads = made(asked, "largest_part", of="head")
    assert labels(heads) == [*("Cross 1.1", "Cross 1.2", "Decoder self 2.2", "Cross 2.1")]
    account = compared().account
    cross = {"cross": account.parts.heads["cross"] + [[[0, 0, 1.496], [0, 0, 0]], [[0] * 3] * 2]}
    parts = replace(account.parts, heads=account.parts.heads | cross)
    # Columns of 1.5, 1 and 1.746, of which one more step makes two alike.
    near = replace(account, parts=parts)
    alike = replace(asked, account=lambda: Compared(near, "b", "c"))
    assert right(made(alike, "source_for_word")) == ["</s>"]
    parts.heads["cross"][0, 0, 0] += 0.245
    assert right(made(alike, "source_for_word")) == ["x", "</s>"]


def test_a_question_on_an_account_says_where_there_is_none(asked: Asked) -> None:
    for name in ("word_ratio", "account_sum", "source_for_word"):
        nowhere = Asked(asked.trace, asked.model, asked.head)
        with pytest.raises(ValueError, match="open the page Why"):
            made(nowhere, name)
    mean = replace(compared().account, instead=None)
    against_mean = replace(asked, account=lambda: Compared(mean, "b", "mean"))
    with pytest.raises(ValueError, match="has no probability"):
        made(against_mean, "word_ratio")
    for power, written in ((0.0, "1 times"), (20.0, "10^8.7 times"), (-1.0, "0.368 times")):
        account = replace(compared().account, difference=power)
        other = replace(asked, account=lambda account=account: Compared(account, "b", "c"))
        assert right(made(other, "word_ratio")) == [written]


def test_what_tells_keys_apart_by_hand(asked: Asked) -> None:
    """All parts of the query sum to 6: the scores are 6, 12 and 0, of which 6 is the mean.

    Position × position is 0, 6 and 0: its covariance is 12 of a variance of 24.
    """
    question = made(replace(asked, score_parts=scored), "score_term")
    assert right(question) == ["its position with the keys' positions"]
    assert "this is 0.50" in question.reason((1,))
    assert "this is 0.00" in question.reason((0,))
    with pytest.raises(ValueError, match="open the page Inside a head"):
        made(asked, "score_term")


def test_what_a_head_raises_most_is_right(asked: Asked) -> None:
    question = made(replace(asked, written=written), "written_token")
    assert right(question) == ["t3"]
    assert labels(question) == ["t0", "t1", "t2", "t3"]
    assert "+1.0 standard deviations" in question.reason((1,))
    assert question.names["token"] == "y"
    with pytest.raises(ValueError, match="open the page Heads"):
        made(asked, "written_token")


def test_two_targets_differ_first_at_a_step() -> None:
    assert first_difference([2, 7, 8, 9, 3], [2, 7, 5, 3]) == (1, 5)
    assert first_difference([2, 7, 3], [2, 7, 8, 3]) == (1, 8)
    with pytest.raises(ValueError, match="reads both targets of this page as the same tokens"):
        first_difference([2, 7, 3], [2, 7, 3])


def test_the_costliest_head_is_that_of_the_costs(asked: Asked) -> None:
    costs = {"cross": np.array([[0.1, -0.2], [0.7, 0.3]], np.float32)}
    question = made(replace(asked, costs=lambda: costs), "costliest_head")
    assert question.right == {(1, 0)}
    assert "0.30 nats" in question.reason((1, 1))


def test_every_wrong_answer_has_a_reason_with_a_number(trace: Trace, trained: Transformer) -> None:
    """Of every kind of question, on the trace of a model, for each kind of attention."""
    costs = {kind: np.zeros(maps.shape[:2], np.float32) for kind, maps in trace.attention.items()}
    other = int(trace.predicted.ids[3])
    account = run_account(trained, trace, 2, other)
    for kind in trace.attention:
        asked = Asked(
            trace,
            trained.description,
            Head(kind, 0, 0),
            curves=CURVES,
            costs=lambda: costs,
            pairs=made_up_pairs,
            turned=lambda: trace,
            patched_pair=patched,
            account=lambda: Compared(account, "one", "other"),
            score_parts=partial(score_parts, trained, trace),
            written=written,
        )
        for name, of in KINDS.items():
            question = made(asked, name)
            assert question.right <= {choice.place for choice in question.choices}, name
            assert question.right, name
            assert set(question.names) >= of.names, name
            offered = labels(question)
            assert len(set(offered)) == len(offered) or of.way, name
            for choice in question.choices:
                assert any(letter.isdigit() for letter in question.reason(choice.place)), name


def test_parameters_that_cannot_be_used_are_refused() -> None:
    for name, given, message in (
        ("nothing", {}, "there is no question 'nothing'; there is: largest_key"),
        ("largest_key", {"row": "best"}, "row"),
        ("largest_key", {"share": "1"}, "Extra inputs"),
        ("head_extreme", {}, "Field required"),
    ):
        with pytest.raises(ValueError, match=message):
            read_parameters(name, given)


def test_a_question_on_what_a_run_lacks_says_so(asked: Asked) -> None:
    with pytest.raises(ValueError, match="the log of this run has no BLEU"):
        made(replace(asked, curves={}), "best_milestone", of="bleu")
    embedding = replace(asked.trace.source_embedding, positions=None)
    with pytest.raises(ValueError, match="adds no positional encodings"):
        made(about(asked, source_embedding=embedding), "longer_part")


def test_questions_on_pairs_are_true_whichever_way_it_comes_out(asked: Asked) -> None:
    first = made_up_pairs()
    first = replace(first, checkpoints={0: first.checkpoints[0]}, heads_step=None)
    of_first = replace(asked, pairs=lambda: first)
    question = made(of_first, "likelier_target")  # the third fails by most, 2 nats
    assert (right(question), question.names["source"]) == (["Ve <b>."], "He does not see.")
    assert "-9.50 nats, that of “Ve <b>.” -7.50" in question.reason((0,))
    assert "here the model is not right" in question.reason((0,))
    with pytest.raises(ValueError, match="heads of this run were not measured on pairs"):
        made(of_first, "heads_that_count")
    with pytest.raises(ValueError, match="this run was not measured on pairs"):
        made(replace(asked, pairs=lambda: None), "weakest_phenomenon")
    sure = np.array([-1.0] * 4)
    scores = PairScores(20, "", sure, np.array([-9, -9, -4.0, -9]))
    all_right = replace(first, checkpoints={20: scores})
    question = made(replace(asked, pairs=lambda: all_right), "likelier_target")
    assert right(question) == ["No ve."]  # the one that is right by least
    assert "here the model is right" in question.reason((1,))
    both = replace(asked, pairs=lambda: all_right)
    assert right(made(both, "weakest_phenomenon")) == ["gender", "negation"]
    scores = PairScores(20, "", sure, sure)
    tied = replace(first, checkpoints={20: scores})
    assert len(right(made(replace(asked, pairs=lambda: tied), "likelier_target"))) == 2
    # 4 of 4 right: from 51% on, above one half.
    scores = PairScores(20, "", sure, sure - 1)
    above = replace(first, checkpoints={**first.checkpoints, 20: scores})
    assert right(made(replace(asked, pairs=lambda: above), "above_chance")) == ["step 20"]


def test_words_stand_for_places(asked: Asked, make_tokens: Callable[..., Tokens]) -> None:
    words = ("first", "second", "middle", "last", 9)
    assert [place_of(word, 5) for word in words] == [0, 1, 2, 4, 4]
    assert place_of("second", 1) == 0
    kind, trace = "decoder_self", asked.trace
    plain = replace(trace, predicted=make_tokens([" a"], [" b"], [" c"]))
    divided = replace(trace, predicted=make_tokens([" a"], [" b", "c"]))
    weights = np.array([[1, 0], [0.4, 0.6], [0.3, 0.7]], np.float32)
    assert heaviest_row(weights, plain, kind) == 2  # the first row has one key only
    assert heaviest_row(weights, trace, kind) == 1  # the last predicts </s>
    assert heaviest_row(weights[[1, 2, 0]], divided, kind) == 0  # the others are parts of a word
    assert heaviest_row(weights, divided, kind) == 2  # no whole word has several keys
    for bits in ([0, 0], [0, 1], [1, 0]):  # of rows that differ by a last bit, the first
        first, last = 0.75 + np.array(bits) * 2.0**-24
        rows = np.array([[0.5, 0.5], [0.25, first], [last, 0.25]], np.float32)
        assert heaviest_row(rows, plain, kind) == 1
    # The norms 1, 1 and 9 leave the most to be gained where the last key has 0.2 beside 0.5.
    assert most_changed_row(asked.trace, asked.head) == 0


@pytest.mark.parametrize("bits", [(0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1)])
def test_answers_a_last_bit_apart_are_both_right(asked: Asked, bits: tuple[int, int, int]) -> None:
    """The products of row 0 are 1, 0 and 1; three tokens are as likely as one another."""
    turned = 1 + np.array(bits) * np.finfo(np.float32).eps
    queries = np.array([[[[1, 0]]]], np.float32)
    keys = np.array([[[[turned[0], 1], [0, 3], [turned[2], 2]]]], np.float32)
    likely = np.log(np.array([[0.4, 0.2, 0.2, 0.1]], np.float32) * [1, *turned])
    tied = about(
        replace(asked, row=0),
        queries={"cross": queries},
        keys={"cross": keys},
        predictions={"top_log_probability": likely},
        top_tokens=((" p", " q", " r", " s"),),
    )
    assert right(made(tied, "largest_product")) == ["1: x", "3: </s>"]
    assert right(made(tied, "runner_up")) == ["q", "r"]
