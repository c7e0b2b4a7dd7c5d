"""Tokens that have the id of padding: real ones, as where ``</s>`` and padding share an id."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Head, attention_path
from headwise.model.masks import pad
from headwise.model.passes import run_with_cache
from headwise.model.pretrained.folders import quiet
from headwise.model.runs import open_run
from headwise.viz_app.api.runs import wrap
from headwise.viz_app.core.written import written_logits
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.model.pretrained import tiny
from tests.model.pretrained.eager import Eager

SENTENCE, TARGET = "The cat sleeps.", "El gato duerme."


def _with_padding(twins: tiny.Twins) -> tuple[list[int], list[int]]:
    """A source and a target with each stack's id of padding, in the middle and at the end."""
    of_source, of_target = (
        tiny.stack_of(twins.eager, stack).config.pad_token_id or 0
        for stack in ("encoder", "decoder")
    )
    start = twins.ours.special_ids.start
    return [7, 8, of_source, 9, of_source], [start, 11, of_target, 12, of_target]


def test_a_token_with_the_id_of_padding_is_read(twins: tiny.Twins) -> None:
    """As ``transformers`` reads it where a tokenizer's mask says that all are tokens."""
    source, target = (torch.tensor([ids]) for ids in _with_padding(twins))
    points = [
        f"{attention_path(kind, layer)}.weights"
        for kind in KINDS
        for layer in range(twins.ours.description.layers(kind))
    ]
    with capture(twins.ours, points) as seen:
        logits = tiny.run(twins.ours, source, target)
    expected = twins.logits(
        source, target, decoder_attention_mask=torch.ones_like(target), output_attentions=True
    )
    maps = (expected.encoder_attentions, expected.decoder_attentions, expected.cross_attentions)
    for point, weights in zip(points, (each for kind in maps for each in kind), strict=True):
        tiny.assert_same(seen[point][0], weights, size=1)
    tiny.assert_same(logits.log_softmax(dim=-1), expected.logits.log_softmax(dim=-1))
    assert all(float(weights[..., -1].max()) > 0 for weights in expected.cross_attentions)


def test_a_token_with_the_id_of_padding_is_the_same_in_a_batch_as_alone(twins: tiny.Twins) -> None:
    source, target = _with_padding(twins)
    together: Tensor = tiny.run(
        twins.ours, pad([source, [13] * 9]), pad([target, [*target, 14, 15]])
    )
    alone = tiny.run(twins.ours, torch.tensor([source]), torch.tensor([target]))
    tiny.assert_same(together[0, : len(target)], alone[0])


def test_a_batch_needs_no_token_of_padding() -> None:
    model = tiny.build("t5", pad_token_id=None, dtype=torch.float64).ours
    assert model.special_ids.padding is None
    sources = [[7, 8, 9, 10, 11, 12], [13, 14]]
    assert greedy(model, sources) == [target for ids in sources for target in greedy(model, [ids])]


@pytest.mark.parametrize(("padding", "is_written"), [(1, False), (2, True)])
def test_the_end_is_written_also_where_padding_has_its_id(padding: int, is_written: bool) -> None:
    model = tiny.build("bart", pad_token_id=padding).ours
    assert model.special_ids.end == 2
    logits = written_logits(model, Head("cross", 0, 0), torch.ones(1, 8))
    assert bool(logits[0, padding].isfinite()) == is_written


def _one_id(folder: Path, of: str) -> None:
    """Give padding the id of another token in the files of a model, as people do."""
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
    token = getattr(tokenizer, f"{of}_token")
    id = tokenizer.convert_tokens_to_ids(token)
    tokenizer.pad_token = token
    tokenizer.save_pretrained(folder)
    tiny.change_json(folder / "config.json", pad_token_id=id)
    tiny.change_json(folder / "generation_config.json", pad_token_id=id)


@pytest.mark.parametrize(
    ("name", "of", "text"),
    [
        ("bart", "eos", SENTENCE),
        ("nllb", "eos", SENTENCE),
        ("t5", "eos", SENTENCE),
        ("marian", "unk", "The cat ☃ sleeps."),
        ("t5", "pad", "The <pad> cat sleeps."),
    ],
)
def test_maps_of_a_folder_whose_padding_is_another_token_are_those_of_eager(
    name: str, of: str, text: str, make_folder: tiny.MakeFolder, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(make_folder(name), tmp_path / name))
    if of != "pad":
        _one_id(folder, of)
    opened = open_run(str(folder))
    eager = Eager.open(folder)
    id = eager.inner.config.pad_token_id
    with quiet():
        inner = AutoModelForSeq2SeqLM.from_pretrained(folder)
        wrapped = wrap(inner, AutoTokenizer.from_pretrained(folder))
    for model, tokenizers in (
        (opened.load(0).model, opened.tokenizers),
        (wrapped.model, wrapped.tokenizers),
    ):
        trace = run_trace(model, tokenizers, text, TARGET)
        assert id in trace.source.ids
        ids: Any = trace.source.ids, trace.target_ids
        for kind in KINDS:
            assert_near(trace.attention[kind], eager.attention(*ids, kind), size=1, operations=PASS)
        expected = eager.log_probabilities(*ids)
        assert_near(trace.predictions.log_probability, expected, size=10, operations=PASS)


def test_rows_of_a_tensor_filled_up_with_a_token_are_refused(make_folder: tiny.MakeFolder) -> None:
    opened = open_run(str(make_folder("bart")))
    model, tokenizers = opened.load(0).model, opened.tokenizers
    rows = [tokenizers.encode_source(text) for text in (SENTENCE, "The cat.")]
    logits, cache = run_with_cache(model, tokenizers, pad(rows), [TARGET] * 2)
    again, _ = run_with_cache(model, tokenizers, cache.source_ids, cache.target_ids)
    assert torch.equal(again, logits)
    filled = pad(rows).masked_fill(pad(rows) < 0, model.special_ids.padding)
    with pytest.raises(ValueError, match="source 2: expected a row filled up with -1, got one"):
        run_with_cache(model, tokenizers, filled, [TARGET] * 2)
