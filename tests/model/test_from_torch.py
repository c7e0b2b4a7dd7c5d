"""Tutorial-like models with random weights, converted, must compute what they computed before."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from headwise.model.checkpoint import load_weights, open_trained_run, write_info
from headwise.model.config import TrainingConfig
from headwise.model.decoding.translation import translate
from headwise.model.files import CheckpointError
from headwise.model.from_torch import FromTorchArguments, convert_from_torch
from headwise.model.torch_files import USUAL, Parts, SpecialNames, read_vocabularies
from tests.floats import PASS, rounding
from tests.model.tutorials import (
    ENGLISH,
    GERMAN,
    LONGEST,
    D,
    State,
    annotated_model,
    annotated_names,
    convert,
    deviations,
    from_torch,
    tutorial_model,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer

Given = Callable[..., FromTorchArguments]
NOTHING = rounding(torch.float64, 10, PASS)
"""How far two computations may be apart whose logits are below 10."""


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Return a function that writes a state dict and gives the arguments that convert it."""
    return partial(from_torch, tmp_path)


# The same computation


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_torch_transformer_computes_the_same(
    given: Given, batch_first: bool, norm_first: bool, bias: bool
) -> None:
    model = tutorial_model(batch_first=batch_first, norm_first=norm_first, bias=bias)
    run = convert(given(model.state_dict(), norm_first=norm_first))
    assert max(map(torch.max, deviations(model, run))) < NOTHING
    config = run.info.model
    assert (config.n_encoder_layers, config.n_decoder_layers) == (2, 1)
    assert (config.norm, config.final_norm) == ("pre" if norm_first else "post", True)
    assert (config.attention_bias, config.tied, config.max_length) == (bias, "none", LONGEST)


def test_the_annotated_transformer_computes_the_same_up_to_its_norm(given: Given) -> None:
    model = annotated_model()
    arguments = given(annotated_names(model.state_dict()), layout="annotated-transformer")
    assert "ours by the root of the variance plus 1e-5" in convert_from_torch(arguments)
    run = open_trained_run("tutorial", root=arguments.checkpoints)
    logits, maps = deviations(model, run)
    assert NOTHING < logits.max() < 3e-5
    assert logits.mean() < 4e-6
    assert NOTHING < maps.max() < 1e-5
    for module in model.modules():  # with our norm nothing differs: gains are converted in float32
        if isinstance(module, nn.LayerNorm):
            module.__class__ = nn.LayerNorm
            module.weight.data *= math.sqrt((D - 1) / D)
    assert max(map(torch.max, deviations(model, run))) < NOTHING


def test_words_of_a_text_get_the_rows_of_their_tokens(given: Given) -> None:
    model = tutorial_model()
    run = convert(given(model.state_dict()))
    pair = run.tokenizers
    assert pair.source.tokens(pair.encode_source("Der der  Hund.")) == (
        ["<s>", "<unk>", "der", "Hund", ".", "</s>"]
    )
    assert pair.target.tokens(pair.encode_target("I see")) == ["<s>", "I", "<unk>", "</s>"]
    table = load_weights(run, 7).model.embedding_table("source")
    for token, row in zip(GERMAN, model.src_tok_emb.weight, strict=True):
        usual = {"<bos>": "<s>", "<eos>": "</s>"}.get(token, token)
        assert torch.equal(table[pair.source.tokens(range(len(GERMAN))).index(usual)], row)
    without = convert(given(model.state_dict(), run="without", source_start=False))
    assert without.tokenizers.encode_source("der") == pair.encode_source("der")[1:]
    # What is not known is not said.
    assert (run.data, run.counts, run.planned_steps) == (None, None, None)
    assert (run.metrics(), run.samples(), run.steps()) == ([], [], [7])
    assert translate(run.load(7).model, pair, ["der Hund ."]) != [""]


def test_equal_matrices_are_tied(given: Given) -> None:
    model = tutorial_model()
    model.generator.weight = model.tgt_tok_emb.weight
    run = convert(given(model.state_dict()))
    assert run.info.model.tied == "output"
    assert deviations(model, run)[0].max() < NOTHING

    state = model.state_dict()
    state["src_tok_emb.weight"] = state["tgt_tok_emb.weight"]
    arguments = given(state, run="all")
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert run.info.model.tied == "all"
    assert run.tokenizers.shared

    del state["src_tok_emb.weight"], state["generator.weight"], state["generator.bias"]
    state["embedding.weight"] = state.pop("tgt_tok_emb.weight")
    arguments = given(state, run="one", parts=Parts(generator="embedding.weight"))
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert (run.info.model.tied, run.info.model.output_bias) == ("all", False)


def test_a_special_token_that_is_not_there_has_probability_zero(given: Given) -> None:
    arguments = given(tutorial_model().state_dict(), special=SpecialNames(start="go"))
    names = [*(f"w{i}" for i in range(len(ENGLISH) - 1)), "go"]
    arguments.target_vocab.write_text(json.dumps(names))
    said = convert_from_torch(arguments)
    assert "the target vocabulary has no <pad>, <unk>, </s>: embedded as zeros, and never" in said
    run = open_trained_run("tutorial", root=arguments.checkpoints)
    assert run.description.target_vocab_size == len(ENGLISH) + 3
    model = load_weights(run, 7).model
    assert not model.embedding_table("target")[[0, 1, 3]].any()
    source, target = torch.tensor([[4, 5]]), torch.tensor([[2, 4]])
    with torch.no_grad():
        probabilities = model(source, target).softmax(-1)
    assert not probabilities[..., [0, 1, 3]].any()
    assert (probabilities[..., [2, *range(4, 15)]] > 0).all()


# Files and checkpoints


OPTIMISER = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]}
SAVED: Any = {"epoch": 3, "optimizer": OPTIMISER, "rng": torch.zeros(3).byte()}
AVERAGED: Any = SAVED | {"ema": {"average": torch.ones(2)}}


def after(before: str, state: State) -> State:
    """Put something before each name."""
    return {f"{before}{name}": tensor for name, tensor in state.items()}


def before_zip(state: State) -> bytes:
    """Return what PyTorch wrote before its version 1.6, with something beside the state."""
    content = io.BytesIO()
    torch.save(SAVED | {"model": state}, content, _use_new_zipfile_serialization=False)
    return content.getvalue()


@pytest.mark.parametrize(
    "form",
    [
        lambda s: AVERAGED | {"model_state": s},
        lambda s: AVERAGED | {"Transformer": after("_orig_mod.", s)},
        lambda s: AVERAGED | {"model": SAVED | {"state_dict": after("module._orig_mod.", s)}},
        lambda s: SAVED | {"mine": s},
        lambda s: after("module.", s),
        lambda s: {re.sub(r"(layers\.\d)", r"\1._orig_mod", name): s[name] for name in s},
        lambda s: {name: s[name].half() for name in s},
        safetensors.torch.save,
        before_zip,
    ],
)
def test_other_forms_of_the_file_are_read(given: Given, form: Callable[[State], Any]) -> None:
    model = tutorial_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
    content = form(model.state_dict())
    arguments = given(content)
    if isinstance(content, bytes):
        suffix = ".old" if form is before_zip else ".safetensors"
        arguments = replace(arguments, file=arguments.file.with_suffix(suffix))
        arguments.file.write_bytes(content)
    assert deviations(model, convert(arguments))[0].max() < NOTHING


@pytest.mark.parametrize("keys", [("encoder", "decoder"), ("model", "net"), ("a", "ema", "b")])
def test_of_several_state_dicts_the_keys_are_said(given: Given, keys: tuple[str, ...]) -> None:
    state = tutorial_model().state_dict()
    content: Any = {"step": 3} | dict.fromkeys(keys, state)
    listed = ", ".join(map(repr, keys))
    message = rf"model\.pt: expected one state dict, got several, under the keys {listed}; write"
    with pytest.raises(CheckpointError, match=message):
        convert_from_torch(given(content))


def test_another_step_becomes_a_checkpoint_of_the_same_run(given: Given) -> None:
    model = tutorial_model()
    convert(given(model.state_dict(), step=0))
    with torch.no_grad():
        model.generator.weight.mul_(2)
    arguments = given(model.state_dict(), step=70)
    run = convert(arguments)
    assert run.steps() == [0, 70]
    assert deviations(model, run, 70)[0].max() < NOTHING
    refused = [
        ({"step": 70}, r"step-0000070\.safetensors: is there already; give another --step"),
        ({"step": 80, "heads": 7}, r"runs/tutorial: its model is not that of .*model\.pt"),
        ({"step": 80, "split": "spaces"}, r"runs/tutorial: its tokenizer_sha256 is not that of"),
        ({"step": 80, "source_start": False}, r"runs/tutorial: its source_start is not that of"),
        ({"step": 8}, "this run was trained here, not converted"),
    ]
    for changes, message in refused:
        if changes == {"step": 8}:
            write_info(run.folder, replace(run.info, training=TrainingConfig()))
        with pytest.raises(CheckpointError, match=message):
            convert_from_torch(replace(arguments, **changes))
    assert run.steps() == [0, 70]


def without(name: str) -> Callable[[State], State]:
    return lambda state: {key: tensor for key, tensor in state.items() if key != name}


def put(name: str, *shape: int, of: float = 1.0) -> Callable[[State], State]:
    return lambda state: state | {name: torch.full(shape, of)}


IN = "transformer.encoder.layers.1.self_attn.in_proj_weight"
NORM, SOURCE, OUT = "transformer.decoder.layers.0.norm", "src_tok_emb", "generator"
NO_MATRIX = r"matrix \(V, D\), got none; name it by --source-embedding; there are"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without(IN), r"the model, 1 in all: .*1\.self_.*weight: expected \(42, 14\), got none"),
        (put(IN, D, D), r"in_proj_weight: expected \(42, 14\), got \(14, 14\)"),
        (put(f"{NORM}4.weight", D), r"\.0\.norm4\.weight: expected no such tensor, got \(14,\)"),
        (put("pos_embedding", 1, LONGEST, D), r"pos_embedding: .* got \(1, 31, 14\); positions"),
        (put(f"{SOURCE}.weight", 11, D + 2), rf"{SOURCE}\.weight: .*\(11, 14\), got \(11, 16\)"),
        (without(f"{SOURCE}.weight"), rf"{NO_MATRIX} tgt_tok_emb\.weight, generator\.weight"),
        (put("second_generator.weight", D, D), rf"{OUT}.* got {OUT}\.weight, second_{OUT}\.weight"),
        (
            lambda s: {n: t for n, t in s.items() if "decoder" not in n},
            r"expected the layers of one encoder, .* encoders .* and decoders \[\]; is --layout",
        ),
        (put(f"{OUT}.bias", len(ENGLISH), of=torch.nan), rf"{OUT}\.bias: .* the training diverged"),
        (lambda s: {**s, "ids": torch.arange(5)}, r"ids: .* got torch\.int64; leave it out"),
        (lambda s: {}, r"expected a state dict, got dict"),
        ({"layout": "annotated-transformer"}, r"such as decoder\.layers\.0\.src_attn; got enc"),
        ({"parts": Parts(generator=f"{OUT}.bias")}, rf"got {OUT}\.bias; name it by --generator"),
        ({"heads": 4}, "heads: expected a divisor of d_model 14, got 4"),
        ({"step": -1}, "step: expected 0 to 9,999,999, got -1"),
        ({"run": "../x"}, r"run: expected the name of a folder, got '\.\./x'"),
        ({"max_length": 0}, "max_length: expected at least 1, got 0"),
    ],
)
def test_a_state_dict_of_another_model_or_a_wrong_argument_is_refused(
    given: Given, tmp_path: Path, change: Any, message: str
) -> None:
    """``change`` is of the state dict, or of the arguments."""
    state = tutorial_model().state_dict()
    arguments = given(state, **change) if isinstance(change, dict) else given(change(state))
    with pytest.raises((CheckpointError, ValueError), match=message) as caught:
        convert_from_torch(arguments)
    assert "model.pt: " in str(caught.value) or not isinstance(caught.value, CheckpointError)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (r"encoder\.norm\.a_2", r"encoder\.norm\.a_2: expected \(14,\), got none"),
        (r"(en|de)coder\.norm\.", None),
    ],
)
def test_stacks_end_in_norms_of_the_file(given: Given, left_out: str, message: str | None) -> None:
    state = annotated_names(annotated_model().state_dict())
    kept = {name: tensor for name, tensor in state.items() if not re.match(left_out, name)}
    arguments = given(kept, layout="annotated-transformer")
    if message is None:
        assert not convert(arguments).info.model.final_norm
    else:
        with pytest.raises(CheckpointError, match=message):
            convert_from_torch(arguments)


_ONLY_TENSORS = "expected a file with tensors only, got"


def compressed() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", b"")
    return content.getvalue()


class Harmful:
    def __reduce__(self) -> Any:
        return (eval, ("open('harm', 'w')",))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("model.pt", {"a": Harmful()}, f"{_ONLY_TENSORS} one with eval.*run"),
        ("model.pt", nn.Linear(2, 2), rf"{_ONLY_TENSORS} one with torch\.nn.*run"),
        ("model.pt", bytes(range(256)) * 4, f"{_ONLY_TENSORS} another or a damaged file.*run"),
        ("model.pt", compressed(), "expected a zip whose .*'model/data.pkl' compressed"),
        ("cut.safetensors", b"@" + bytes(20), "truncated, or not safetensors.*restore"),
    ],
)
def test_a_file_with_code_or_damage_is_refused(
    given: Given,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: Any,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = replace(given(content), file=tmp_path / name)
    if isinstance(content, bytes):
        arguments.file.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name}: {told}"):
        convert_from_torch(arguments)
    assert not (tmp_path / "harm").exists()


# Vocabularies


FOUR = b"<pad>\n<unk>\n</s>\na\n"


@pytest.mark.parametrize(
    ("name", "content", "special", "message"),
    [
        ("v.txt", b"<pad>\na\n\nb\n", USUAL, "line 3: expected a token, got an empty line"),
        ("v.txt", b"<pad>\na\na\n", USUAL, "expected each token once, got 'a' 2 times"),
        ("v.txt", b"<pad>\n<blank>\na\n", USUAL, "got both <pad> and <blank>; say which by --pad"),
        ("v.json", b'{"a": 0, "b": 2}', USUAL, "an object with the ids of tokens, 0, 1"),
        ("v.txt", None, USUAL, "cannot be read"),
        ("v.txt", b"\xff", USUAL, "expected text in UTF-8"),
        ("v.txt", FOUR, SpecialNames(start="</s>"), "four different special tokens, got '</s>'"),
        ("v.txt", FOUR, SpecialNames(end="a"), "'</s>' beside another of its meaning; name"),
        ("v.txt", b"<pad>\na\n", SpecialNames(end="stop"), "there is no 'stop', which --end names"),
    ],
)
def test_a_vocabulary_that_is_not_one_is_refused(
    tmp_path: Path, name: str, content: bytes | None, special: SpecialNames, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"v\.(txt|json).*{message}"):
        read_vocabularies(path, path, special)


def test_special_tokens_are_put_first(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("<pad>\n<unk>\n</s>\na\nBEGIN\n")
    vocabulary, _ = read_vocabularies(path, path, SpecialNames(start="BEGIN"))
    assert (vocabulary.words, vocabulary.rows) == (("a",), (0, 1, 4, 2, 3))


def test_a_vocabulary_of_another_size_or_without_a_start_is_refused(given: Given) -> None:
    arguments = given(tutorial_model().state_dict())
    arguments.source_vocab.write_text("\n".join([*GERMAN, "more"]))
    size = r"source\.txt: expected 11 tokens, as src_tok_emb\.weight has rows in .*, got 12; give"
    with pytest.raises(CheckpointError, match=size):
        convert_from_torch(arguments)
    arguments.target_vocab.write_text(json.dumps([f"w{i}" for i in range(len(ENGLISH))]))
    with pytest.raises(CheckpointError, match="expected a token that begins a target, such as <s>"):
        convert_from_torch(arguments)


def test_tokens_that_cannot_be_typed_are_counted(given: Given) -> None:
    arguments = given(tutorial_model().state_dict())
    said = convert_from_torch(arguments)
    taken = "the file does not tell: norms after the sublayers (--norm-first), embeddings times"
    assert taken in said
    assert "1 of 12 target tokens cannot be typed, such as 'T-shirt': texts are split at" in said
    assert "source tokens" not in said
    said = convert_from_torch(replace(arguments, run="spaces", split="spaces"))
    assert "cannot be typed" not in said
    target = open_trained_run("spaces", root=arguments.checkpoints).tokenizers.target
    assert target.tokens(target.encode("I  T-shirt. ")) == ["I", "<unk>"]
