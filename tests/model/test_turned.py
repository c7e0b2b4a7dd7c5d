"""Strengths and pinned rows by name and in range; passes with them against hooks and weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.model.interventions import head_costs
from headwise.model.masks import pad
from headwise.model.transformer import Transformer
from headwise.model.turned import PinnedRow, Turned, TurnedHead, parse_pinned, parse_turned
from headwise.model.turning import turn
from tests.floats import PASS, assert_near, near
from tests.tiny import tiny_model

SOURCE, OTHER = [5, 17, 9, 30, 8, EOS], [7, 6, EOS]
CONSUMED = [BOS, 12, 7, 33, 5]
HEAD = Head("cross", 1, 1)


@pytest.fixture(scope="module", params=["pre", "post"])
def model(request: pytest.FixtureRequest) -> Transformer:
    made = tiny_model(norm=request.param, final_norm=request.param == "pre", n_encoder_layers=3)
    return made.double()


@torch.inference_mode()
def logits(
    model: Any, source: list[int] = SOURCE, consumed: list[int] = CONSUMED, *, read: bool = False
) -> Tensor:
    """The logits (T, V) of a pass; with ``read`` all hook points are, so that nothing is fused."""
    names = hook_names(model) if read else []
    with capture(model, names):
        stream = forced_stream(model, torch.tensor([source]), torch.tensor([consumed]))
    return model.unembed(stream)[0]


# Names and ranges


@pytest.mark.parametrize(
    ("turned", "name"),
    [
        (TurnedHead(HEAD), "cross.2.2"),
        (TurnedHead(HEAD, -1.0), "cross.2.2:-1"),
        (TurnedHead(HEAD, 2.125), "cross.2.2:2.125"),
        (PinnedRow(HEAD, 0, 4), "cross.2.2:1:5"),
        (PinnedRow(HEAD, 11, None), "cross.2.2:12:mean"),
    ],
)
def test_a_name_is_read_as_what_it_stands_for(turned: TurnedHead | PinnedRow, name: str) -> None:
    read = parse_turned if isinstance(turned, TurnedHead) else parse_pinned
    assert (str(turned), read(name)) == (name, turned)


@pytest.mark.parametrize(
    ("read", "name", "message"),
    [
        (parse_turned, "cross.2", "expected a head such as"),
        (parse_turned, "cross.2.2:x", "expected a head and its strength"),
        (parse_turned, "cross.2.2:1:2", "expected a head and its strength"),
        (parse_turned, "cross.2.2:3.01", "strength of cross.2.2: expected -1 to 3, got 3.01"),
        (parse_turned, "cross.2.2:-inf", "expected -1 to 3"),
        (parse_turned, "cross.2.2:nan", "expected -1 to 3"),
        (parse_pinned, "cross.2.2", "expected a head, a row and a key"),
        (parse_pinned, "cross.2.2:0:1", "expected a head, a row and a key"),
        (parse_pinned, "cross.2.2:1:most", "expected a head, a row and a key"),
        (parse_pinned, "decoder_self.2.2:3:4", "row 3 of .*: expected a key from 1 to 3, .* got 4"),
    ],
)
def test_what_is_no_name_or_out_of_range_is_refused(
    read: Callable[[str], object], name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read(name)


@pytest.mark.parametrize(
    ("strengths", "pinned", "message"),
    [
        ([(HEAD, 0), (HEAD, 2)], [], "got cross.2.2 twice"),
        ([(HEAD, 4)], [], "expected -1 to 3"),
        ([], [(HEAD, 1, 2), (HEAD, 1, None)], "got row 2 of cross.2.2 twice"),
        ([], [(HEAD, -1, 2)], "expected a row from 1 on"),
        ([], [(HEAD, 1, -1)], "expected a key from 1 on, got 0"),
        ([], [(HEAD, 1, (0.5, 0.4))], "expected weights from 0 to 1 that sum to 1"),
        ([], [(HEAD, 1, (1.5, -0.5))], "expected weights from 0 to 1 that sum to 1"),
        ([], [(Head("decoder_self", 0, 0), 0, (0.5, 0.5))], "expected a key from 1 to 1"),
    ],
)
def test_what_cannot_be_turned_is_refused(
    strengths: list[tuple[Head, float]], pinned: list[tuple[Any, ...]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Turned(
            tuple(TurnedHead(*each) for each in strengths),
            tuple(PinnedRow(*each) for each in pinned),
        )


def test_heads_of_strength_1_are_left_out_and_one_that_writes_the_opposite_is_not_off() -> None:
    turned = Turned.of({HEAD: 1.0, ("cross", 0, 0): 0, ("cross", 0, 1): 2, ("cross", 0, 2): -1})
    assert turned.strengths == tuple((("cross", 0, n), to) for n, to in enumerate((0, 2, -1)))
    assert turned.are_off == (("cross", 0, 0),)
    assert not Turned.of({HEAD: 1.0})


# Strengths


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [-1.0, 0.5, 3.0])
def test_a_strength_is_a_factor_in_w_o(model: Transformer, kind: Kind, strength: float) -> None:
    """In one pass, and step by step with a cache."""
    weighted = copy.deepcopy(model)
    path = f"{attention_path(kind, 1)}.output_projection.weight"
    with torch.no_grad():
        weighted.get_parameter(path)[:, 5:10] *= strength  # K = 5
    with turn(model, Turned.of({Head(kind, 1, 1): strength})):
        found, target = logits(model), greedy(model, [SOURCE, OTHER])
        beams = beam_search(model, [SOURCE], size=3)[0].hypotheses
    expected = logits(weighted)
    assert_near(found, expected, operations=PASS)
    assert float((found - logits(model)).abs().max()) > 1e-3
    assert target == greedy(weighted, [SOURCE, OTHER])
    wanted = beam_search(weighted, [SOURCE], size=3)[0].hypotheses
    assert [each.target for each in beams] == [each.target for each in wanted]


# Pinned rows

PINS = [
    PinnedRow(Head("cross", 1, 1), 2, 3),
    PinnedRow(Head("cross", 0, 0), 3, None),
    PinnedRow(Head("decoder_self", 1, 2), 3, 1),
    PinnedRow(Head("decoder_self", 0, 1), 2, None),
    PinnedRow(Head("encoder_self", 2, 0), 4, 0),
    PinnedRow(Head("encoder_self", 1, 1), 0, None),
    PinnedRow(Head("decoder_self", 0, 0), 2, (0.25, 0.0, 0.75)),
    PinnedRow(Head("cross", 1, 0), 0, (0.5, 0.25, 0.125, 0.125)),
]


def row_of(pin: PinnedRow, keys: int) -> list[float]:
    """The weights that a pinned row has, of this many keys."""
    if isinstance(pin.onto, tuple):
        return [*pin.onto, *[0.0] * (keys - len(pin.onto))]
    if pin.onto is None:
        allowed = pin.row + 1 if pin.head.kind == "decoder_self" else keys
        return [1 / allowed] * allowed + [0.0] * (keys - allowed)
    return [float(key == pin.onto) for key in range(keys)]


def by_hand(pins: list[PinnedRow]) -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Edits of the weights of a pass without a cache, one a pin."""

    def make(pin: PinnedRow) -> Callable[[Tensor], Tensor]:
        def set_row(weights: Tensor) -> Tensor:
            weights = weights.clone()
            if pin.row < weights.shape[2]:
                row = row_of(pin, weights.shape[3])
                weights[:, pin.head.head, pin.row] = torch.tensor(row, dtype=weights.dtype)
            return weights

        return set_row

    return {f"{attention_path(*pin.head[:2])}.weights": make(pin) for pin in pins}


@pytest.mark.parametrize("pin", PINS, ids=str)
def test_a_pinned_row_has_its_weights_in_all_passes(model: Transformer, pin: PinnedRow) -> None:
    plain = logits(model)
    turned = Turned(pinned=(pin,))
    with turn(model, turned):
        found = logits(model)
        [target] = greedy(model, [SOURCE])
        beams = beam_search(model, [SOURCE], size=3)[0].hypotheses
    with edit(model, by_hand([pin])):
        assert_near(found, logits(model), operations=PASS)
        again = logits(model, consumed=target[:-1])
        assert again.argmax(dim=-1).tolist() == target[1:]
        for each in beams:
            of_step = logits(model, consumed=each.target[:-1]).log_softmax(dim=-1)
            total = of_step[range(len(each.target) - 1), each.target[1:]].sum()
            assert each.log_probability == near(float(total), operations=PASS)
    assert float((found - plain).abs().max()) > 1e-6
    if pin.head.kind != "encoder_self":  # earlier steps know nothing of it
        assert_near(found[: pin.row], plain[: pin.row], operations=PASS)


def test_rows_are_pinned_in_a_batch_as_alone(model: Transformer) -> None:
    """The mean is over the keys of each sentence; a row that one does not have changes nothing."""
    pinned = (PINS[1], PINS[5], PINS[2], PinnedRow(Head("cross", 1, 1), 1, 1))
    turned = Turned.of({("encoder_self", 0, 0): 2.0}, pinned)
    batch = pad([SOURCE, OTHER]), torch.tensor([CONSUMED, CONSUMED])
    with turn(model, turned), torch.inference_mode():
        together = model.unembed(forced_stream(model, *batch))
        for found, source in zip(together, (SOURCE, OTHER), strict=True):
            assert_near(found, logits(model, source), operations=PASS)
        targets = greedy(model, [SOURCE, OTHER])
        assert targets == [greedy(model, [source])[0] for source in (SOURCE, OTHER)]
    far = Turned(pinned=(PinnedRow(Head("encoder_self", 0, 0), 9, 1),))
    with turn(model, far):
        pinned_far = logits(model, read=True)
    assert torch.equal(pinned_far, logits(model, read=True))


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (PinnedRow(HEAD, 1, 6), r"row 2 of cross\.2\.2: expected one of 6 keys, got 7"),
        (PinnedRow(HEAD, 1, (0.5,) * 2 + (0.0,) * 9), ""),
        (PinnedRow(HEAD, 1, 4), r"row 2 of cross\.2\.2: expected a key that it may attend to"),
    ],
)
def test_a_key_that_a_sentence_does_not_have_is_refused(
    model: Transformer, pin: PinnedRow, message: str
) -> None:
    """The second sentence of the batch has three."""
    with turn(model, Turned(pinned=(pin,))):
        if not message:
            logits(model)
            return
        with pytest.raises(ValueError, match=message):
            forced_stream(model, pad([SOURCE, OTHER]), torch.tensor([CONSUMED, CONSUMED]))


# Mean ablation


def test_costs_by_means_equal_those_of_each_head_replaced_by_hand(model: Transformer) -> None:
    torch.manual_seed(0)
    shapes = {"encoder_self": (3, 3, 5), "decoder_self": (2, 3, 5), "cross": (2, 3, 5)}
    means: dict[Kind, Tensor] = {kind: torch.randn(shapes[kind]).double() for kind in KINDS}
    target = [*CONSUMED, EOS]

    def total() -> float:
        stream = forced_stream(model, torch.tensor([SOURCE]), torch.tensor([CONSUMED]))[0]
        return float(log_probabilities(model, stream, torch.tensor(target[1:])).sum())

    found = head_costs(model, SOURCE, target, means=means)
    with torch.inference_mode():
        whole = total()
        for kind, layer, head in model.description.all_heads():
            mean = means[kind][layer, head]

            def put(x: Tensor, mean: Tensor = mean, head: int = head) -> Tensor:
                return torch.cat([x[:, :head], mean.expand_as(x[:, :1]), x[:, head + 1 :]], dim=1)

            with edit(model, {f"{attention_path(kind, layer)}.heads": put}):
                cost = whole - total()
            assert float(found[kind][layer, head]) == near(cost, size=abs(whole), operations=PASS)
    zeros = {kind: torch.zeros_like(mean) for kind, mean in means.items()}
    off, none = head_costs(model, SOURCE, target), head_costs(model, SOURCE, target, means=zeros)
    assert all(torch.equal(off[kind], none[kind]) for kind in KINDS)
    with pytest.raises(ValueError, match="means of heads: expected shapes"):
        head_costs(model, SOURCE, target, means=means | {"cross": means["cross"][:1]})
