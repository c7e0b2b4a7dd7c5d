"""The model behind our interface: decoding, hook points, weights, threads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.decoding.translation import sample
from headwise.model.hooks import Edit, capture, edit, hook_names
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.model.masks import PADDING
from headwise.model.pretrained.families import families_of
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.parts import linear_parameters
from headwise.model.turned import PinnedRow, Turned
from headwise.model.turning import turn
from tests.model.pretrained import tiny


def test_greedy_decoding_is_that_of_generate(twins: tiny.Twins) -> None:
    sources = [
        tiny.random_ids(n, seed=n)[0].tolist() for n in (1, 7, 12, 18)
    ]  # the last to the limit
    sources[2] = sources[2][:5] + sources[2][:7]
    prefix = twins.prefix
    if twins.eager.config.model_type == "m2m_100":  # begins with the forced language
        assert prefix == [2, tiny.LANGUAGE]
    found = greedy(twins.ours, sources, prefix)
    assert found == [twins.generate(source) for source in sources]
    assert len({tuple(target) for target in found}) > 1


def test_forbidden_tokens_and_the_start_come_from_the_settings() -> None:
    inner = tiny.build("bart").ours.inner
    settings = inner.generation_config
    settings.suppress_tokens = [9, 11]
    # Longer entries are not single tokens, the end cannot be forbidden, the last is no token.
    settings.bad_words_ids = [[13], [14, 15], [settings.eos_token_id], [tiny.VOCABULARY]]
    assert PretrainedModel(inner).special_ids.never_generated == (9, 11, 13)
    # The start is the bos token where no other is given.
    twins = tiny.build("mbart", decoder_start_token_id=None, bos_token_id=3)
    assert twins.ours.special_ids.start == 3
    assert twins.generate([7, 8, 9])[0] == 3


def test_cached_decoding_equals_the_pass_without_cache_after_selecting_rows(
    twins: tiny.Twins,
) -> None:
    source, target = tiny.inputs(twins, 7, 4, 6)
    model, rows = twins.ours, torch.tensor([2, 0, 2, 1])
    with torch.inference_mode():
        memory, mask = model.encode(source)
        cache = model.new_cache()
        parts = [model.decode(target[:, :2], memory, mask, cache)]
        parts.append(model.decode(target[:, 2:3], memory, mask, cache))
        cache.keep(rows)
        memory, kept = memory[rows], target[rows]
        assert mask is not None
        mask = mask[rows]
        parts = [part[rows] for part in parts]
        parts += [model.decode(kept[:, i : i + 1], memory, mask, cache) for i in range(3, 9)]
        whole = model.decode(kept, memory, mask)
    tiny.assert_same(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize(("kind", "strength"), [*zip(KINDS, (0.0, -0.5, 0.0), strict=True)])
def test_strength_equals_a_factor_of_the_rows_of_the_head_in_the_output_projection(
    twins: tiny.Twins, kind: Kind, strength: float
) -> None:
    source, target = tiny.inputs(twins, 7, 4)
    model = twins.ours
    head = Head(kind, 1, 1)
    d_k = model.description.encoder_d_k if kind == "encoder_self" else model.description.decoder_d_k
    heads = [head]
    if model.description.merged_attention and kind != "encoder_self":
        heads = [head._replace(kind="decoder_self"), head._replace(kind="cross")]  # of one W_O
    with turn(model, Turned.of(dict.fromkeys(heads, strength))):
        turned = tiny.run(model, source, target)
        batch = greedy(model, [source[0].tolist()], twins.prefix)
    eager = copy.deepcopy(twins.eager)
    stack = tiny.stack_of(eager, "encoder" if kind == "encoder_self" else "decoder")
    of_encoder, of_decoder = families_of(eager.config.to_dict(), "")
    family = of_encoder if kind == "encoder_self" else of_decoder
    layer = stack.get_submodule(family.layers)[1]
    paths = family.cross_attention if kind == "cross" else family.self_attention
    projection = layer.get_submodule(paths.module).get_submodule(family.projections[-1])
    linear_parameters(projection).weight.data[d_k : 2 * d_k] *= strength
    changed = tiny.Twins(eager, model)
    tiny.assert_same(turned, changed.logits(source, target).logits)
    assert batch == [changed.generate(source[0].tolist())]
    assert float((turned - twins.logits(source, target).logits).abs().max()) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["bart", "t5", "t5gemma2"])
def test_a_pinned_row_holds_in_cached_decoding(
    make_twins: Callable[[str], tiny.Twins], name: str, kind: Kind
) -> None:
    """Against a pass without a cache whose weights are set by hand."""
    twins = make_twins(name)
    model, source = twins.ours, tiny.inputs(twins, 7, 4)[0][:1]
    keys = source.shape[1]
    pinned = (
        PinnedRow(Head(kind, 1, 1), 2, 1),
        PinnedRow(Head(kind, 0, 0), 3, None),
        PinnedRow(Head(kind, 0, 1), 1, (0.3, 0.7)),
    )
    with turn(model, Turned(pinned=pinned)):
        [target] = greedy(model, [source[0].tolist()], twins.prefix)
        found = tiny.run(model, source, torch.tensor([target[:-1]]))
    assert len(target) > 5

    def set_row(pin: PinnedRow) -> Edit:
        def edited(weights: Tensor) -> Tensor:
            weights = weights.clone()
            row = weights[0, pin.head.head, pin.row]
            allowed = pin.row + 1 if kind == "decoder_self" else keys
            share = float(row.sum())  # of a half of an attention; else 1
            given = pin.onto
            if given is None:
                given = (1 / allowed,) * allowed
            elif isinstance(given, int):
                given = (0.0,) * given + (1.0,)
            row[:] = 0
            row[: len(given)] = row.new_tensor(given)
            row *= share
            return weights

        return edited

    with ExitStack() as held:
        for pin in pinned:
            point = f"{attention_path(kind, pin.head.layer)}.weights"
            held.enter_context(edit(model, {point: set_row(pin)}))
        expected = tiny.run(model, source, torch.tensor([target[:-1]]))
    tiny.assert_same(found, expected)
    likely = expected[0].clone()
    likely[:, list(model.special_ids.never_generated)] = -torch.inf
    begun = len(twins.prefix)
    assert likely.argmax(dim=-1).tolist()[begun - 1 :] == target[begun:]
    plain = tiny.run(model, source, torch.tensor([target[:-1]]))
    assert float((expected - plain).abs().max()) > 1e-3


def test_lens_of_the_last_layer_equals_the_logits(twins: tiny.Twins) -> None:
    source, target = tiny.inputs(twins, 7)
    names = [f"decoder.layers.{layer}.output" for layer in range(2)]
    with capture(twins.ours, names) as seen:
        logits = tiny.run(twins.ours, source, target)
    first, last = (twins.ours.lens(seen[name][0]) for name in names)
    tiny.assert_same(last, logits)
    assert float((first - logits).abs().max()) > 1e-2


def test_description_says_what_the_model_is(twins: tiny.Twins) -> None:
    """What follows from no pass; of all else other tests make use."""
    config, description = twins.eager.config, twins.ours.description
    kind = config.model_type
    is_t5, is_pair, is_gemma = kind.endswith("t5"), kind == "encoder-decoder", "gemma" in kind
    from_bert = is_pair and config.decoder.model_type != "gpt2"
    for each, is_bert in ((description, from_bert), (description.of("encoder"), is_pair)):
        norms_tokens = kind == "blenderbot-small" and each is description
        has_norm = is_bert or kind in ("bart", "plbart", "mbart", "blenderbot-small")
        assert (each.token_norm, each.embedding_norm) == (norms_tokens, has_norm != norms_tokens)
        assert each.token_types == is_bert
    assert description.attention_bias == (not is_t5 and not is_gemma)
    own = (description.score_divisor, description.score_cap, description.logit_cap)
    cap = 1.5 if kind == "t5gemma" else None
    assert (*own, description.key_heads) == ((7, cap, 6.0, 2) if is_gemma else (None,) * 4)
    # T5 has no limit; RoBERTa and its kin number their positions from after the padding's id on.
    stacks = (config.encoder, config.decoder) if is_pair else ()
    before = [of.pad_token_id + 1 for of in stacks if of.model_type not in ("bert", "gpt2")]
    assert description.max_length == (4_096 if is_t5 else 43 - max(before, default=0))
    has_bias = from_bert if is_pair else not is_t5 and not is_gemma and kind != "m2m_100"
    assert description.output_bias == has_bias
    assert description.output_transform == from_bert
    assert description.tied == ("output" if is_pair or kind == "t5gemma" else "all")


WITHOUT_WINDOW = {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}


@pytest.mark.parametrize(
    ("name", "changes", "longest"),
    [
        # Which nothing reads.
        ("t5", dict.fromkeys(("n_positions", "max_position_embeddings"), 7), 4_096),
        ("t5", {"n_positions": None}, 4_096),
        ("t5gemma", {"sliding_window": 11}, 11),
        ("t5gemma2", {"sliding_window": 11}, 6),  # the encoder sees half of it on either side
        ("t5gemma", {"sliding_window": 11, **WITHOUT_WINDOW}, 43),
    ],
)
def test_the_longest_text_is_what_every_layer_reads(
    name: str, changes: dict[str, Any], longest: int
) -> None:
    stacks = dict.fromkeys(("encoder", "decoder"), changes)
    twins = tiny.build(name, dtype=torch.float64, **(changes if name == "t5" else stacks))
    assert twins.ours.description.max_length == longest
    if name == "t5":
        source, target = tiny.inputs(twins, 560)
        tiny.assert_same(tiny.run(twins.ours, source, target), twins.logits(source, target).logits)


def test_makes_have_every_value_of_a_description() -> None:
    """By which analyses that are tested with these are tested for all families."""

    def values(names: Sequence[str]) -> set[tuple[str, str]]:
        found = set()
        for name in names:
            description = tiny.build(name).ours.description
            for each in (description, description.of("encoder")):
                found |= {(field, str(value)) for field, value in vars(each).items()}
        return {each for each in found if each[0] not in ("of_encoder", "max_length")}

    assert values(tiny.MAKES) == values(tiny.FAMILY_NAMES)


def test_weights_are_found_by_path(twins: tiny.Twins) -> None:
    model, description = twins.ours, twins.ours.description
    source, target = tiny.inputs(twins, 7)
    with capture(model, hook_names(model)) as seen:
        tiny.run(model, source, target)
    path = "decoder.layers.1.cross_attention"
    norm = model.norm(path)
    x = seen[f"{path}_residual.norm.before"][0]
    if description.norm_kind == "rms":
        assert norm.bias is None
        expected = x * (x.square().mean(-1, keepdim=True) + norm.epsilon).rsqrt() * norm.gain
    else:
        expected = torch.nn.functional.layer_norm(x, (24,), norm.gain, norm.bias, norm.epsilon)
    tiny.assert_same(seen[f"{path}_residual.norm.after"][0], expected)
    query = model.linear(f"{path}.query_projection")
    assert query.weight.shape == (24, description.n_decoder_heads * description.decoder_d_k)
    contract = model.linear("encoder.layers.1.feed_forward.contract")
    output = seen["encoder.layers.1.feed_forward.hidden"][0] @ contract.weight
    output = output if contract.bias is None else output + contract.bias
    tiny.assert_same(seen["encoder.layers.1.feed_forward.output"][0], output)
    width = description.of("encoder").d_model
    assert model.linear("encoder.layers.1.feed_forward.expand").weight.shape == (width, 31)
    if description.gated:
        assert model.linear("decoder.layers.1.feed_forward.gate").weight.shape == (
            24,
            description.decoder_d_ff,
        )
    table = model.embedding_table("target")
    tokens = table[target[0]] * (24**0.5 if description.scale_embeddings else 1)
    if description.token_norm:
        norm = twins.eager.get_decoder().layernorm_embedding
        tokens = torch.nn.functional.layer_norm(tokens, (24,), norm.weight, norm.bias)
    tiny.assert_same(seen["decoder.embedding.tokens"][0][0], tokens)


def test_bad_ids_are_refused(twins: tiny.Twins) -> None:
    model, longest = twins.ours, twins.ours.description.max_length
    too_long = torch.full((1, longest + 1), 7)
    message = f"at most {longest} tokens, got {longest + 1}"
    for ids, expected in (
        (torch.tensor([7, 8, 9]), r"expected shape \(batch, length\), got \(3,\)"),
        (too_long, message),
        (torch.tensor([[7, 8], [PADDING, PADDING]]), "padding only"),
        (torch.tensor([[7, tiny.VOCABULARY + 1]]), f"expected ids from 0 to {tiny.VOCABULARY - 1}"),
    ):
        with pytest.raises(ValueError, match=expected):
            model.encode(ids)
    with pytest.raises(ValueError, match=message):
        model.decode(too_long, *model.encode(torch.tensor([[7, 8]])))


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus"])
def test_decoding_ends_at_each_of_the_ends_of_a_model(family: str) -> None:
    source = [6, 9, 17, 23, 11, 4]
    [long] = greedy(tiny.build(family).ours, [source])
    assert len(long) > 6
    second = long[4]  # what it writes becomes an end, beside one that it does not write
    twins = tiny.build(family, eos_token_id=[50, second])
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
