"""Models that are drawn at random, in folders as ``save_pretrained`` writes them.

Each is opened by the door that people use, and compared with what ``transformers`` itself, with its
eager attention, makes of the same folder and the same ids. With ``--hypothesis-profile=long`` over
a hundred are drawn of each family.
"""

from __future__ import annotations

from math import lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture
from headwise.model.interface import attention_path
from headwise.model.pretrained.families import FAMILIES, STACKS
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from tests.model.pretrained import tiny

SHORTEST, LONGEST = 16, 40
"""Positions that each model has at least, and at which models are compared at most."""
few, flags = st.integers(1, 3), st.booleans()
Values = dict[str, Any]
OF_GPT2 = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
"""What GPT-2 calls the settings of BERT."""


@st.composite
def special(draw: st.DrawFn, last: int, *, bos: bool = True) -> Values:
    """Ids of a vocabulary, of which several may be one: a start that ends, or that pads."""
    pad, eos, own, first = draw(st.permutations([*range(1, 5), last]))[:4]
    start = draw(st.sampled_from([own, pad, eos]))
    values = {"pad_token_id": pad, "eos_token_id": eos, "decoder_start_token_id": start}
    return values | ({"bos_token_id": draw(st.sampled_from([first, start]))} if bos else {})


@st.composite
def of_bart(draw: st.DrawFn, kind: str) -> Values:
    """BART and its kin."""
    size, heads = draw(st.integers(12, 60)), (draw(few), draw(few))
    values: Values = {
        "vocab_size": size,
        "d_model": 4 * lcm(*heads) * draw(few),
        "max_position_embeddings": draw(st.integers(SHORTEST, 40)),
        "activation_function": draw(st.sampled_from(["relu", "gelu", "gelu_new", "swish"])),
        "scale_embedding": draw(flags),
        "tie_word_embeddings": draw(flags),
        "forced_eos_token_id": None,
        "encoder_no_repeat_ngram_size": 0,  # else said to be left out, and not compared
    }
    for stack, n_heads in zip(("encoder", "decoder"), heads, strict=True):
        values |= {f"{stack}_layers": draw(few), f"{stack}_attention_heads": n_heads}
        values[f"{stack}_ffn_dim"] = draw(st.integers(1, 30))
    if kind == "marian":
        values["share_encoder_decoder_embeddings"] = shared = draw(flags)
        values["decoder_vocab_size"] = size if shared else draw(st.integers(12, 60))
        size = min(size, values["decoder_vocab_size"])
        values["tie_word_embeddings"] = True  # it shares either way, by its own setting
    # M2M100 has a row in its table of positions for the padding's id, and counts a start that is
    # padding only with a cache: its own passes then differ from what it generates.
    if kind == "m2m_100":
        ids = special(0).filter(lambda ids: ids["decoder_start_token_id"] != ids["pad_token_id"])
        return values | draw(ids)
    return values | draw(special(size - 1))


@st.composite
def of_t5(draw: st.DrawFn, kind: str) -> Values:
    """T5 and its kin."""
    size = draw(st.integers(12, 60))
    activation = draw(st.sampled_from(["relu", "gelu", "silu", "gelu_new"]))
    return {
        "vocab_size": size,
        "d_model": draw(st.integers(2, 24)),
        "d_kv": draw(st.integers(1, 7)),
        "d_ff": draw(st.integers(1, 30)),
        "num_heads": draw(few),
        "num_layers": draw(few),
        "num_decoder_layers": draw(few),
        "relative_attention_num_buckets": 4 * draw(few),
        "relative_attention_max_distance": draw(st.integers(8, 40)),
        "layer_norm_epsilon": draw(st.sampled_from([1e-6, 1e-3])),
        "feed_forward_proj": draw(st.sampled_from(["", "gated-"])) + activation,
        "tie_word_embeddings": draw(flags),
        "scale_decoder_outputs": draw(flags),
    } | draw(special(size - 1, bos=False))


@st.composite
def stack_of_gemma(draw: st.DrawFn, size: int, width: int, *, merged: bool) -> Values:
    layers, key_heads = draw(few), draw(few)
    heads = key_heads * draw(few)
    kinds = st.sampled_from(["sliding_attention", "full_attention"])
    longest = draw(st.integers(2 * SHORTEST, 70))
    return {
        "vocab_size": size,
        "hidden_size": width,
        "intermediate_size": draw(st.integers(1, 30)),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": 2 * draw(few),
        "query_pre_attn_scalar": draw(st.integers(1, 9)),
        "max_position_embeddings": longest,
        "sliding_window": draw(st.integers(2 * SHORTEST, 80)),
        "layer_types": draw(st.lists(kinds, min_size=layers, max_size=layers)),
        "attn_logit_softcapping": None if merged else draw(st.sampled_from([None, 1.5])),
        "final_logit_softcapping": draw(st.sampled_from([None, 3.0])),
        "hidden_activation": draw(st.sampled_from(["gelu_pytorch_tanh", "silu"])),
        "attention_bias": draw(flags),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-3])),
    }


@st.composite
def of_gemma(draw: st.DrawFn, kind: str) -> Values:
    """T5Gemma; the second version has equal widths, and reads images."""
    size, merged = draw(st.integers(12, 60)), kind == "t5gemma2"
    ids = draw(special(size - 1))
    encoder = draw(stack_of_gemma(size, 36 * draw(few), merged=merged))
    width = encoder["hidden_size"] if merged else 36 * draw(few)
    decoder = draw(stack_of_gemma(size, width, merged=merged))
    shared = {name: ids[name] for name in ("pad_token_id", "eos_token_id", "bos_token_id")}
    encoder, decoder = encoder | shared, decoder | shared
    whole: Values = {"vocab_size": size, "tie_word_embeddings": draw(flags)}
    if merged:
        heads = ("num_attention_heads", "num_key_value_heads", "head_dim")
        decoder |= {name: encoder[name] for name in heads}
        images = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
        images |= {"num_attention_heads": 1, "image_size": 8, "patch_size": 4}
        vision = {"model_type": "siglip_vision_model"} | images
        encoder = {"text_config": encoder, "vision_config": vision, "mm_tokens_per_image": 4}
        encoder["eoi_token_index"], whole["image_token_index"] = 10_000, 10_001
    return whole | ids | {"encoder": encoder, "decoder": decoder}


@st.composite
def of_pair(draw: st.DrawFn, kind: str) -> Values:
    """An encoder and a decoder that are models of their own."""
    size = draw(st.integers(12, 60))
    ids = draw(special(0, bos=False))  # RoBERTa numbers positions from the padding's id on
    stacks = {}
    for stack, known in (("encoder", [*STACKS]), ("decoder", [*STACKS, "gpt2"])):
        heads, model_type = draw(few), draw(st.sampled_from(known))
        values = {
            "model_type": model_type,
            "vocab_size": size,
            "hidden_size": 2 * heads * draw(few),
            "num_hidden_layers": draw(few),
            "num_attention_heads": heads,
            "intermediate_size": draw(st.integers(1, 30)),
            "max_position_embeddings": draw(st.integers(SHORTEST + 7, 40)),
            "type_vocab_size": draw(st.integers(1, 2)),
            "hidden_act": draw(st.sampled_from(["relu", "gelu", "silu"])),
            "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
            "pad_token_id": ids["pad_token_id"],
        }
        if model_type == "gpt2":
            values = {OF_GPT2.get(name, name): value for name, value in values.items()}
        if stack == "decoder":
            values |= {"is_decoder": True, "add_cross_attention": True}
            values["tie_word_embeddings"] = draw(flags)
        stacks[stack] = values
    return ids | stacks


NEEDED = (
    *("_id", "size", "heads", "layers", "_dim", "d_ff", "d_kv", "d_model", "n_embd", "n_layer"),
    *("n_head", "n_inner", "per_image", "model_type", "is_decoder", "add_cross_attention"),
)
"""How the names of settings end that have no default: ids, sizes and what makes a pair."""


def without_settings(values: Values) -> Values:
    """Leave to ``transformers`` what a configuration need not say."""
    return {
        name: without_settings(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if isinstance(value, dict) or name.endswith(NEEDED)
    }


DRAWN = dict.fromkeys(FAMILIES, of_bart) | {"encoder-decoder": of_pair}
DRAWN |= dict.fromkeys(("t5", "mt5", "umt5"), of_t5)
DRAWN |= dict.fromkeys(("t5gemma", "t5gemma2"), of_gemma)


def opened(kind: str, values: Values, seed: int, folder: Path) -> tiny.Twins:
    """Write a model, and open it by ours and by theirs, both in float64."""
    with quiet():
        config = AutoConfig.for_model(kind, **values)
        written = AutoModelForSeq2SeqLM.from_config(config).eval()
        tiny.randomise(written, seed=seed)
        written.double().save_pretrained(folder)
        eager = AutoModelForSeq2SeqLM.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float64
        ).eval()
    opened_run = PretrainedRun(folder, kind)
    ours = opened_run.load(0, torch.float64).model
    assert opened_run.description == ours.description
    assert opened_run.parameters == sum(weight.numel() for weight in ours.inner.parameters())
    for inner in (eager, ours.inner):
        tiny.compute_in_float64(inner)
    return tiny.Twins(eager, ours)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("kind", DRAWN)
def test_a_model_that_is_drawn_gives_what_transformers_gives(kind: str, bare: bool) -> None:
    """Of all its settings, and of those only that have no default."""

    @settings(
        max_examples=settings.default.max_examples // (20 if bare else 8), phases=[Phase.generate]
    )
    @given(values=DRAWN[kind](kind), seed=st.integers(0, 99))
    def check(values: Values, seed: int) -> None:
        values = without_settings(values) if bare else values
        with TemporaryDirectory() as folder:
            twins = opened(kind, values, seed, Path(folder))
        model = twins.ours
        most = min(model.description.source_vocab_size, model.description.target_vocab_size)
        longest = min(model.description.max_length, LONGEST)
        source = tiny.random_ids(longest, 1, 4, seed=seed, most=most)
        target = tiny.random_ids(
            *[longest] * 3, first=model.special_ids.start, seed=seed + 1, most=most
        )
        # Else T5Gemma hides a start that is padding, but not where it decodes with a cache.
        all_seen: Values = {"decoder_attention_mask": torch.ones_like(target)}
        theirs = twins.logits(source, target, **all_seen)
        tiny.assert_same(tiny.run(model, source, target), theirs.logits, size=100)

        names = {
            of: [f"{attention_path(of, layer)}.weights" for layer in range(layers)]
            for of, (layers, _) in model.description.shapes.items()
        }
        with capture(model, [name for each in names.values() for name in each]) as seen:
            tiny.run(model, source[:1], target[:1])
        found = {of: torch.cat([seen[name][0] for name in each]) for of, each in names.items()}
        theirs = twins.logits(
            source[:1],
            target[:1],
            output_attentions=True,
            **{n: each[:1] for n, each in all_seen.items()},
        )
        expected = {
            "encoder_self": theirs.encoder_attentions,
            "decoder_self": theirs.decoder_attentions,
            "cross": theirs.cross_attentions,
        }
        for of, maps in found.items():
            tiny.assert_same(maps, torch.cat(expected[of]), size=100)

        sentence = source[0, :7].tolist()
        [found] = greedy(model, [sentence], twins.prefix)
        expected = twins.generate(sentence)
        if found != expected:  # of tokens that are nearly as likely, ours takes the lowest id
            at = next(
                n for n, ids in enumerate(zip(found, expected, strict=False)) if len({*ids}) > 1
            )
            begun = torch.tensor([expected[:at]])
            seen = {"decoder_attention_mask": torch.ones_like(begun)}
            logits = twins.logits(source[:1, :7], begun, **seen).logits[0, -1]
            assert found[at] < expected[at]
            assert logits[found[at]] >= logits.max() - logits.abs().max() * 2**-18

    check()
