"""Patches of one run by another: exact, to first order, and while a translation is decoded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwise.model.config import BOS
from headwise.model.forced import forced_stream
from headwise.model.hooks import edit
from headwise.model.interface import Kind, WordSpan
from headwise.model.masks import PADDING
from headwise.model.readings import difference_of
from headwise.model.transformer import Transformer
from headwise.viz_app.why.sentences.passes import (
    Patch,
    RecordedPass,
    Splice,
    attributed_odds,
    patch_points,
    patched,
    patched_odds,
    patched_translation,
    splice,
)
from tests.floats import PASS, assert_near, rounding
from tests.model.pretrained.tiny import MAKES, build

MakeModel = Callable[..., Transformer]
A = torch.tensor([[5, 17, 9, 30, 8, 6]])
B = torch.tensor([[5, 21, 9, 11, 8, 6]])
LONGER = torch.tensor([[5, 21, 24, 13, 9, 11, 8, 6]])
CONSUMED = torch.tensor([[BOS, 12, 7, 33]])
WORDS = 11, 29
OURS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre", "n_encoder_layers": 3},
    "post-norm": {"norm": "post", "final_norm": False, "attention_bias": False},
}
LOGITS = 40.0
"""Magnitude of what is added up."""


@pytest.fixture(scope="module", params=[*OURS, *MAKES])
def any_model(request: pytest.FixtureRequest, make_model: MakeModel) -> Any:
    """A tiny model in float64, of ours with the norm in either place, and of every make."""
    return made(request.param, make_model)


@pytest.fixture(scope="module", params=[*OURS, "marian", "t5", "t5gemma"])
def model(request: pytest.FixtureRequest, make_model: MakeModel) -> Any:
    """One of each make: either place of the norm, additive or relative positions, merged halves."""
    return made(request.param, make_model)


def made(name: str, make_model: MakeModel) -> Any:
    if name in OURS:
        return make_model(**OURS[name]).double()
    return build(name, dtype=torch.float64).ours


def padded(model: Any, source: Tensor) -> Tensor:
    return torch.cat([source, torch.full((1, 2), PADDING)], dim=1)


def every_patch(model: Any) -> list[Patch]:
    """A patch at every hook point, of a single head in turn where there are heads."""
    return [
        Patch(point, (1, 3), (1, 3), head=number % 2 if point.endswith(".heads") else None)
        for number, point in enumerate(patch_points(model))
    ]


def assert_equal(model: Any, found: Any, expected: Any) -> None:
    """To the bit; but heads of half an attention are not computed as those of the whole are."""
    assert_near(found, expected, operations=PASS if model.description.merged_attention else 0)


def test_of_a_run_itself_every_patch_changes_nothing_and_in_a_batch_each_is_as_alone(
    any_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also patches that change nothing are run here, which otherwise are known without a pass."""
    model = any_model
    a, b = (RecordedPass.run(model, source, CONSUMED) for source in (A, B))
    difference, patches = difference_of(model, *WORDS), every_patch(model)
    assert len(patches) > 15
    alone = []
    for patch in patches:
        with torch.inference_mode():
            with patched(model, a, patch):
                assert_equal(model, forced_stream(model, A, CONSUMED), a.stream)
            with patched(model, b, patch):
                stream = forced_stream(model, A, CONSUMED)
        alone.append(float(stream[0, -1] @ difference.reading) + difference.bias)
    bound = rounding(torch.float64, LOGITS, PASS)
    found = patched_odds(model, a, b, difference, patches).tolist()
    assert found == pytest.approx(alone, abs=bound)
    whole = WordSpan(0, A.shape[1])
    of_itself = [*patches, Splice(whole, whole)]
    known = patched_odds(model, a, a, difference, of_itself).tolist()
    assert known == [a.odds(difference)] * len(of_itself)
    monkeypatch.setattr("headwise.viz_app.why.sentences.passes._changes", lambda a, b, patch: True)
    run = patched_odds(model, a, a, difference, of_itself).tolist()
    assert run == pytest.approx(known, abs=bound)


@pytest.mark.parametrize("with_padding", [False, True])
def test_the_whole_encoder_output_with_its_mask_is_the_other_run_to_the_bit(
    any_model: Any, with_padding: bool
) -> None:
    """The sources differ in length."""
    model = any_model
    other = padded(model, LONGER) if with_padding else LONGER
    a, b = (RecordedPass.run(model, source, CONSUMED) for source in (A, other))
    whole = Splice(WordSpan(0, A.shape[1]), WordSpan(0, other.shape[1]))
    memory, mask = splice(a, b, whole)
    assert (mask is None) == (not with_padding)
    with torch.inference_mode():
        assert_equal(model, model.decode(CONSUMED, memory, mask), b.stream)
    difference = difference_of(model, *WORDS)
    [odds] = patched_odds(model, a, b, difference, [whole]).tolist()
    assert_equal(model, torch.tensor(odds), torch.tensor(b.odds(difference)))
    assert odds != a.odds(difference)


def test_a_splice_is_the_memory_with_words_put_in_and_taken_out(model: Any) -> None:
    a, b = (RecordedPass.run(model, source, CONSUMED) for source in (A, LONGER))
    memory, _ = splice(a, b, Splice(WordSpan(1, 2), WordSpan(1, 4)))
    expected = torch.cat([a.memory[0, :1], b.memory[0, 1:4], a.memory[0, 2:]])
    assert torch.equal(memory[0], expected)
    assert splice(a, b, Splice(WordSpan(1, 3), WordSpan(1, 1)))[0].shape[1] == 4
    with_mask = RecordedPass.run(model, padded(model, A), CONSUMED)
    mask = splice(with_mask, b, Splice(WordSpan(1, 2), WordSpan(1, 4)))[1]
    assert mask is not None
    assert mask[0, 0, 0].tolist() == [True] * 8 + [False] * 2


# An independent implementation: PyTorch's own hooks on the modules


_PATHS = {
    "ours": ("layers", "self_attention", "cross_attention", "feed_forward", "output_projection"),
    "marian": ("layers", "self_attn", "encoder_attn", "fc2", "out_proj"),
    "t5": (
        "block",
        "layer.0.SelfAttention",
        "layer.1.EncDecAttention",
        "layer.{}.DenseReluDense.wo",
        "o",
    ),
}


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _with_first(output: Any, tensor: Tensor) -> Any:
    return (tensor, *output[1:]) if isinstance(output, tuple) else tensor


class ByHooks:
    """Runs a model and replaces outputs of its modules, or inputs of W_O, by PyTorch's hooks."""

    def __init__(self, name: str, make_model: MakeModel) -> None:
        if name in OURS:
            self.model: Any = make_model(**OURS[name]).double()
            stacks = (self.model.encoder, self.model.decoder)
            self.run: Callable[[Tensor], Tensor] = lambda s: self.model(s, CONSUMED)[0, -1]
            paths = _PATHS["ours"]
        else:
            twins = build(name, dtype=torch.float64)
            self.model = twins.ours
            stacks = (twins.eager.get_encoder(), twins.eager.get_decoder())
            self.run = lambda source: twins.logits(source, CONSUMED).logits[0, -1]
            paths = _PATHS[name]
        self.stacks = dict(zip(("encoder", "decoder"), stacks, strict=True))
        self.paths = paths

    def module(self, point: str) -> tuple[nn.Module, bool]:
        """The module of one of our hook points, and whether its input is meant."""
        stack, _, layer, *rest = point.split(".")
        layers, self_attention, cross, feed_forward, output = self.paths
        block = getattr(self.stacks[stack], layers)[int(layer)]
        if rest == ["output"]:
            return block, False
        if rest[0] == "feed_forward":
            return block.get_submodule(feed_forward.format(1 if stack == "encoder" else 2)), False
        attention = block.get_submodule(self_attention if rest[0] == "self_attention" else cross)
        return attention.get_submodule(output), rest[1] == "heads"

    def odds(
        self, source: Tensor, hook: Any = None, of: tuple[nn.Module, bool] | None = None
    ) -> Any:
        handle = None
        if of is not None:
            module, is_input = of
            before, after = module.register_forward_pre_hook, module.register_forward_hook
            handle = (before if is_input else after)(hook)
        try:
            with torch.no_grad():
                logits = self.run(source)
        finally:
            if handle is not None:
                handle.remove()
        return float(logits[WORDS[0]] - logits[WORDS[1]])

    def patched(self, patch: Patch) -> float:
        place, kept = self.module(patch.point), []
        kind: Kind = "encoder_self" if patch.is_of_encoder else "decoder_self"
        heads = self.model.description.heads(kind)

        def keep_input(_: nn.Module, given: Any) -> None:
            kept.append(given[0].clone())

        def keep_output(_: nn.Module, given: Any, output: Any) -> None:
            kept.append(_first(output).clone())

        self.odds(B, keep_input if place[1] else keep_output, place)

        def put(x: Tensor) -> Tensor:
            x = x.clone()
            width = x.shape[-1] // heads
            part = slice(None)
            if patch.head is not None:
                part = slice(patch.head * width, (patch.head + 1) * width)
            for here, there in zip(patch.here, patch.there, strict=True):
                x[0, here, part] = kept[0][0, there, part]
            return x

        def put_input(_: nn.Module, given: Any) -> Any:
            return (put(given[0]), *given[1:])

        def put_output(_: nn.Module, given: Any, output: Any) -> Any:
            return _with_first(output, put(_first(output)))

        return float(self.odds(A, put_input if place[1] else put_output, place))


@pytest.mark.parametrize("name", [*OURS, "marian", "t5"])
def test_patches_are_those_of_pytorchs_own_hooks(name: str, make_model: MakeModel) -> None:
    other = ByHooks(name, make_model)
    model = other.model
    patches = [
        Patch("encoder.layers.0.output", (1,), (1,)),
        Patch("encoder.layers.1.output", (3, 1), (1, 3)),
        Patch("encoder.layers.1.self_attention.heads", (0, 1, 5), (0, 1, 5), head=1),
        Patch("encoder.layers.0.feed_forward.output", (1, 3), (1, 3)),
        Patch("decoder.layers.0.output", (2,), (2,)),
        Patch("decoder.layers.1.cross_attention.heads", (0, 1, 2, 3), (0, 1, 2, 3), head=0),
        Patch("decoder.layers.1.self_attention.heads", (0, 3), (0, 3), head=1),
        Patch("decoder.layers.0.cross_attention.output", (2, 3), (2, 3)),
        Patch("decoder.layers.1.feed_forward.output", (3,), (3,)),
    ]
    a, b = (RecordedPass.run(model, source, CONSUMED) for source in (A, B))
    difference = difference_of(model, *WORDS)
    found = patched_odds(model, a, b, difference, patches).tolist()
    bound = rounding(torch.float64, LOGITS, PASS)
    assert a.odds(difference) == pytest.approx(other.odds(A), abs=bound)
    assert b.odds(difference) == pytest.approx(other.odds(B), abs=bound)
    for patch, odds in zip(patches, found, strict=True):
        assert odds == pytest.approx(other.patched(patch), abs=bound), patch.point
        assert abs(odds - a.odds(difference)) > 1e-9, patch.point


# Batches, padding, first order, decoding


def test_odds_are_alike_in_any_batch_or_order(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    patches: list[Patch | Splice] = [*every_patch(model), Splice(WordSpan(1, 2), WordSpan(1, 4))]
    difference = difference_of(model, *WORDS)
    bound = rounding(torch.float64, LOGITS, PASS)
    found = []
    reversed_order = patches[::-1]  # of the decoder before those of the encoder
    for source, other in ((A, B), (padded(model, A), padded(model, B))):
        a, b = (RecordedPass.run(model, each, CONSUMED) for each in (source, other))
        found.append(patched_odds(model, a, b, difference, patches).tolist())
    assert found[0] == pytest.approx(found[1], abs=bound)
    backwards = patched_odds(model, a, b, difference, reversed_order).tolist()
    assert backwards[::-1] == pytest.approx(found[0], abs=bound)
    done: list[int] = []
    monkeypatch.setattr("headwise.model.interventions.POSITIONS_AT_A_TIME", 50)
    few = patched_odds(model, a, b, difference, patches, note_done=done.append).tolist()
    assert few == pytest.approx(found[0], abs=bound)
    assert done == sorted(done)
    assert (done[-1], len(done) > 3) == (len(patches), True)
    known = {1: 77.0}  # what is known is not run again
    again = patched_odds(model, a, b, difference, patches, known=known).tolist()
    assert again == pytest.approx([few[0], 77.0, *few[2:]], abs=bound)
    assert [known[place] for place in range(len(patches))] == again


def _rms_in_float64(norm: Any, x: Tensor) -> Tensor:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    return norm.weight * (x * scale)


def test_the_first_order_is_the_slope_measured(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """T5's norms take their variance in float32, in which no small step can be seen."""
    for family, name in (("t5", "T5"), ("mt5", "MT5"), ("umt5", "UMT5")):
        norm = f"transformers.models.{family}.modeling_{family}.{name}LayerNorm.forward"
        monkeypatch.setattr(norm, _rms_in_float64)
    a, b = (RecordedPass.run(model, source, CONSUMED) for source in (A, B))
    difference = difference_of(model, *WORDS)
    patches = [*every_patch(model), Patch("encoder.layers.0.output", (3, 1), (1, 4))]
    with torch.inference_mode():
        found = attributed_odds(model, a, b, difference, [*patches, Splice(*[WordSpan(0, 1)] * 2)])
    assert torch.isnan(found[-1])
    for patch, odds in zip(patches, found.tolist(), strict=False):
        change = patch.of(b.seen, patch.there) - patch.of(a.seen, patch.here)
        size = float(change.norm()) or 1.0

        def moved(x: Tensor, by: Tensor, patch: Patch = patch) -> Tensor:
            x = x.clone()
            rows = x if patch.head is None else x[:, patch.head]
            rows[:, list(patch.here)] += by
            return x

        ends = []
        for step in (1e-4 / size, -1e-4 / size):
            shift = change * step
            with torch.inference_mode(), edit(model, {patch.point: lambda x, s=shift: moved(x, s)}):
                stream = forced_stream(model, A, CONSUMED)
            ends.append(float(stream[0, -1] @ difference.reading))
        slope = (ends[0] - ends[1]) / 2e-4 * size
        assert odds - a.odds(difference) == pytest.approx(slope, rel=1e-6, abs=1e-6), patch.point
    assert max(abs(odds - a.odds(difference)) for odds in found[:-1].tolist()) > 1e-3


@pytest.mark.parametrize(
    ("point", "here"),
    [
        ("encoder.layers.0.output", (1, 3)),
        ("decoder.embedding.output", (2,)),
        ("decoder.layers.1.cross_attention.heads", (1, 4)),
        (None, ()),
    ],
)
def test_a_translation_under_a_patch_is_that_of_whole_passes(
    model: Any, point: str | None, here: tuple[int, ...]
) -> None:
    """Step by step with a cache, a position of the target is patched once and no other."""
    consumed = torch.tensor([[model.special_ids.start, 12, 7, 33, 8, 9]])
    a, b = (RecordedPass.run(model, source, consumed) for source in (A, LONGER))
    head = 1 if point and point.endswith("heads") else None
    patch: Patch | Splice = Splice(WordSpan(1, 2), WordSpan(1, 4))
    if point is not None:
        patch = Patch(point, here, here, head=head)
    for begun in (1, 3):
        target = patched_translation(model, a, b, patch, consumed[0, :begun].tolist())
        length = min(len(target) - 1, 9)
        row = torch.tensor([target[:length]])
        with torch.inference_mode():
            memory, mask = a.memory, a.mask
            under: Any = nullcontext()
            if isinstance(patch, Splice):
                memory, mask = splice(a, b, patch)
            else:
                places = [place for place in here if patch.is_of_encoder or place < length]
                under = patched(model, b, Patch(patch.point, *[tuple(places)] * 2, head=head))
            with under:
                if isinstance(patch, Patch) and patch.is_of_encoder:
                    memory, mask = model.encode(A)
                logits = model.unembed(model.decode(row, memory, mask))[0].clone()
            logits[:, list(model.special_ids.never_generated)] = -torch.inf
        assert logits.argmax(dim=-1).tolist()[begun - 1 :] == target[begun : length + 1]


def test_targets_that_differ_are_refused(make_model: MakeModel) -> None:
    model = make_model().double()
    a = RecordedPass.run(model, A, CONSUMED)
    b = RecordedPass.run(model, B, torch.tensor([[BOS, 12, 8, 33]]))
    with pytest.raises(ValueError, match="expected two passes over one target"):
        patched_odds(model, a, b, difference_of(model, *WORDS), [])
