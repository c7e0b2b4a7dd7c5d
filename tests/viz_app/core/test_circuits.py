"""A score taken apart: its table sums to it, and its parts are those of an independent NumPy."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Head, Kind, Seq2SeqModel, attention_path
from headwise.model.presets import PRESETS
from headwise.model.transformer import Transformer
from headwise.model.turned import AS_IT_IS, Turned
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.records.trace import Doubles, Tokens
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import MAKES, build
from tests.planted import EQUAL, PREVIOUS, planted_model
from tests.tiny import tiny_config, tiny_model

SOURCE, CONSUMED = (5, 17, 9, 30, 8, EOS), (BOS, 12, 7, 33)
ROWS: dict[Kind, int] = {"encoder_self": 4, "decoder_self": 2, "cross": 2}


OURS = ("default", "books-small", "free-key-dim")
"""Presets that differ in more than sizes: in where their norms are, in biases and ties."""


def tiny_preset(name: str) -> Transformer:
    """A tiny model of a preset's make: of its options everything but the sizes."""
    tiny, like = tiny_config(), PRESETS[name].model
    sizes = ("source_vocab_size", "target_vocab_size", "n_encoder_layers", "n_decoder_layers")
    sizes += ("n_heads", "d_k", "d_model", "d_ff", "max_length")
    options = asdict(like) | {size: getattr(tiny, size) for size in sizes}
    if like.tied == "all":
        options["source_vocab_size"] = options["target_vocab_size"]
    return tiny_model(**options)


def array(tensor: Tensor) -> Doubles:
    return tensor.detach().double().numpy()


@pytest.fixture(scope="module", params=[*OURS, *MAKES])
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model in float64 of every preset's make, and of every family's."""
    name = request.param
    ours = tiny_preset(name) if name in PRESETS else build(name, dtype=torch.float64).ours
    return ours.double()


def trace_like(turned: Turned = AS_IT_IS) -> Any:
    source, consumed = (Tokens(ids, ("",) * len(ids), ()) for ids in (SOURCE, CONSUMED))
    return SimpleNamespace(source=source, consumed=consumed, turned=turned)


def parts_of(
    model: Seq2SeqModel, kind: Kind, layer: int, head: int = 1, turned: Turned = AS_IT_IS
) -> ScoreParts:
    return score_parts(model, trace_like(turned), Head(kind, layer, head), ROWS[kind])


def scores_of(model: Any, kind: Kind, layer: int, head: int) -> Doubles:
    """A row of scores before the softmax, as the model computes it in a pass."""
    end = "scores" if model.description.of(kind).score_cap is None else "uncapped"
    point = f"{attention_path(kind, layer)}.{end}"
    with torch.inference_mode(), capture(model, [point]) as seen:
        model.decode(torch.tensor([CONSUMED]), *model.encode(torch.tensor([SOURCE])))
    return array(seen[point][0][0, head, ROWS[kind]])


@pytest.mark.parametrize("kind", KINDS)
def test_tables_sum_to_the_scores(model: Any, kind: Kind) -> None:
    for layer in range(model.description.layers(kind)):
        parts = parts_of(model, kind, layer)
        keys = ROWS[kind] + 1 if kind == "decoder_self" else len(SOURCE)
        scores = scores_of(model, kind, layer, 1)[:keys]
        sums = parts.tables().sum(axis=(0, 1))
        if parts.relative is not None:
            sums = sums + parts.relative
        assert np.abs(sums - scores).max() < 1e-10
        assert parts.deviation < 1e-10
        relative = model.description.positions == "relative"
        assert ("position" in parts.query_parts) == model.description.adds_positions
        assert (parts.relative is not None) == (relative and kind != "cross")
        of_query = [name for name in parts.query_parts if name.startswith("decoder_self")]
        if kind == "cross":
            before = layer + (not model.description.merged_attention)
            assert len(of_query) == before * model.description.n_decoder_heads
            last = f"feed_forward.{model.description.n_encoder_layers}"
            assert last in parts.key_parts
        else:
            assert parts.query_parts.keys() == parts.key_parts.keys()


@pytest.mark.parametrize("name", ["default", "books-small", "t5"])
def test_in_float32_they_sum_to_the_scores_as_well(name: str) -> None:
    model: Any = tiny_preset(name) if name in PRESETS else build(name).ours
    for kind in KINDS:
        assert parts_of(model, kind, 1).deviation < 1e-4


def test_a_head_that_is_off_is_no_part_of_later_scores() -> None:
    model: Any = tiny_preset("default").double()
    off = Turned.of({Head("encoder_self", 0, 1): 0.0})
    found = parts_of(model, "encoder_self", 1, turned=off)
    assert found.deviation < 1e-10
    assert not found.key_parts["encoder_self.1.2"].any()
    assert found.key_parts["encoder_self.1.1"].any()


@pytest.mark.parametrize(
    ("layer", "head", "row", "message"),
    [
        (2, 0, 0, "no head encoder_self.3.1: expected one of"),
        (0, 3, 0, "no head encoder_self.1.4: expected one of"),
        (0, 0, 6, "row: expected 0 to 5, got 6"),
    ],
)
def test_what_there_is_not_is_refused(layer: int, head: int, row: int, message: str) -> None:
    source = Tokens(SOURCE, ("",) * 6, ())
    trace: Any = SimpleNamespace(source=source, consumed=source, turned=AS_IT_IS)
    with pytest.raises(ValueError, match=message):
        score_parts(tiny_preset("copy"), trace, Head("encoder_self", layer, head), row)


class Stream:
    """A stream in NumPy as vectors by part, (n, D) each, computed from a model's weights alone."""

    def __init__(self, model: Any, stack: str, ids: tuple[int, ...]) -> None:
        self.model, self.pre = model, model.description.norm == "pre"
        width = model.description.d_model
        side = "source" if stack == "encoder" else "target"
        tokens = array(model.embedding_table(side))[list(ids)] * width**0.5
        point = f"{stack}.embedding.positions"
        with torch.inference_mode(), capture(model, [point]) as seen:
            model.decode(torch.tensor([CONSUMED]), *model.encode(torch.tensor([SOURCE])))
        positions = array(seen[point][0]).reshape(-1, width)[: len(ids)]
        self.parts = {"token": tokens, "position": positions, "biases": np.zeros_like(tokens)}

    def normed(self, norm: Any) -> dict[str, Doubles]:
        gain, bias = array(norm.gain), array(norm.bias)
        x = sum(self.parts.values())
        divisor = np.sqrt(x.var(-1, keepdims=True) + norm.epsilon)
        made = {
            name: (part - part.mean(-1, keepdims=True)) / divisor * gain
            for name, part in self.parts.items()
        }
        return made | {"biases": made["biases"] + bias}

    def linear(self, path: str, x: Doubles) -> Doubles:
        weight, bias = self.model.linear(path)
        made = x @ array(weight)
        return made if bias is None else made + array(bias)

    def read(self, path: str) -> dict[str, Doubles]:
        return self.normed(self.model.norm(path)) if self.pre else self.parts

    def write(self, path: str, written: dict[str, Doubles], bias: Any) -> None:
        self.parts = self.parts | written
        if bias is not None:
            self.parts["biases"] = self.parts["biases"] + array(bias)
        if not self.pre:
            self.parts = self.normed(self.model.norm(path))

    def attend(self, kind: Kind, layer: int, memory: dict[str, Doubles] | None = None) -> None:
        path, heads = attention_path(kind, layer), self.model.description.heads(kind)
        x = sum(self.read(path).values())
        y = x if memory is None else sum(memory.values())
        q, k, v = (
            self.linear(f"{path}.{name}_projection", of).reshape(len(of), heads, -1)
            for name, of in (("query", x), ("key", y), ("value", y))
        )
        scores = np.einsum("qhk,mhk->hqm", q, k) / q.shape[-1] ** 0.5
        if kind == "decoder_self":
            scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        projection, bias = self.model.linear(f"{path}.output_projection")
        rows = array(projection).reshape(heads, q.shape[-1], -1)
        made = np.einsum("hqm,mhk,hkd->hqd", weights, v, rows)
        names = [f"{kind}.{layer + 1}.{head + 1}" for head in range(heads)]
        self.write(path, dict(zip(names, made, strict=True)), bias)

    def feed(self, stack: str, layer: int) -> None:
        path = f"{stack}.layers.{layer}.feed_forward"
        hidden = np.maximum(self.linear(f"{path}.expand", sum(self.read(path).values())), 0)
        weight, bias = self.model.linear(f"{path}.contract")
        made = hidden @ array(weight)
        self.write(path, {f"feed_forward.{layer + 1}": made}, bias)

    def projected(self, path: str, head: int, of: dict[str, Doubles]) -> dict[str, Doubles]:
        """What a head's query or key has of each part: (n, K)."""
        weight, bias = self.model.linear(path)
        columns = slice(head * 5, (head + 1) * 5)
        made = {name: part @ array(weight)[:, columns] for name, part in of.items()}
        if bias is not None:
            made["biases"] = made["biases"] + array(bias)[columns]
        return made


@pytest.mark.parametrize("preset", ["default", "books-small"])
def test_parts_are_those_of_numpy(preset: str) -> None:
    """One preset has its norms before each sublayer, the other after each sum."""
    model: Any = tiny_preset(preset).double()
    encoder, decoder = Stream(model, "encoder", SOURCE), Stream(model, "decoder", CONSUMED)
    for layer in range(2):
        if layer == 1:
            expect(encoder, model, "encoder_self", encoder.read(attention_path("encoder_self", 1)))
        encoder.attend("encoder_self", layer)
        encoder.feed("encoder", layer)
    final = model.final_norm("source")
    memory = encoder.parts if final is None else encoder.normed(final)
    for layer in range(2):
        if layer == 1:
            expect(decoder, model, "decoder_self", decoder.read(attention_path("decoder_self", 1)))
        decoder.attend("decoder_self", layer)
        if layer == 1:
            expect(decoder, model, "cross", memory)
        decoder.attend("cross", layer, memory)
        decoder.feed("decoder", layer)


def expect(stream: Stream, model: Any, kind: Kind, memory: dict[str, Doubles]) -> None:
    """The parts of the second layer's second head are those that NumPy projects from streams."""
    found, path, row = parts_of(model, kind, 1), attention_path(kind, 1), ROWS[kind]
    queries = stream.projected(f"{path}.query_projection", 1, stream.read(path))
    keys = stream.projected(f"{path}.key_projection", 1, memory)
    assert found.query_parts.keys() == queries.keys()
    assert found.key_parts.keys() == keys.keys()
    for name, part in queries.items():
        assert_near(found.query_parts[name], part[row], size=20, operations=PASS)
    for name, part in keys.items():
        seen = part[: row + 1] if kind == "decoder_self" else part
        assert_near(found.key_parts[name], seen, size=20, operations=PASS)
    assert found.scale == pytest.approx(5**-0.5)


# Heads whose weights were made by hand


REPEATED = (5, 9, 5, 7, 9, 5, EOS)
"""Tokens of which several stand more than once."""


@pytest.mark.parametrize(
    ("head", "part", "looked_at"),
    [
        (PREVIOUS, "position", [None, {0}, {1}, {2}, {3}, {4}, {5}]),
        (EQUAL, "token", [{0, 2, 5}, {1, 4}, {0, 2, 5}, {3}, {1, 4}, {0, 2, 5}, {6}]),
    ],
)
def test_a_head_looks_by_its_part(head: int, part: str, looked_at: list[set[int] | None]) -> None:
    model: Any = planted_model()
    source = Tokens(REPEATED, ("",) * len(REPEATED), ())
    trace: Any = SimpleNamespace(source=source, consumed=Tokens((BOS,), ("",), ()), turned=AS_IT_IS)
    for row, expected in enumerate(looked_at):
        found = score_parts(model, trace, Head("encoder_self", 0, head), row)
        assert found.deviation < 1e-10
        if expected is None:  # nothing is before the first
            continue
        largest = found.scores.max()
        assert {*np.flatnonzero(found.scores > largest - 1).tolist()} <= expected
        assert int(found.scores.argmax()) in expected
        tables = found.tables()
        place = [*found.query_parts].index(part), [*found.key_parts].index(part)
        assert np.abs(tables[place] - found.scores).max() < 1e-10
        tables[place] = 0
        assert np.abs(tables).max() < 1e-10
