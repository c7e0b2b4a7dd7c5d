"""Tutorial-like models with random weights, converted, must compute what they computed before."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from model.checkpoint import TrainedRun, load_weights, open_trained_run, write_info
from model.config import BOS, EOS, PAD, UNK, TrainingConfig
from model.conversion.from_torch import FromTorchArguments, convert_from_torch
from model.conversion.layouts import Parts
from model.conversion.vocabularies import USUAL, SpecialNames, read_vocabularies
from model.decoding.translation import translate
from model.files import CheckpointError
from model.hooks import capture
from model.layers import sinusoidal_positions
from model.tokenizer import Tokenizer, WordTokenizer

D, HEADS, D_FF, LONGEST = 14, 2, 11, 31
GERMAN = ["<unk>", "<pad>", "<bos>", "<eos>", ".", "Hund", "der", "ein", "Katze", "die", "sieht"]
ENGLISH = [".", "a", "cat", "dog", "</s>", "sees", "the", "<s>", "<blank>", "I", "<unk>", "T-shirt"]
SENTENCES = [("der Hund sieht die Katze .", "the dog sees the"), ("ein Wal", "I a cat")]

State = dict[str, Tensor]

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer


class TutorialModel(nn.Module):
    """``nn.Transformer`` with what tutorials put around it."""

    def __init__(self, *, batch_first: bool, **settings: Any) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.transformer = nn.Transformer(
            D, HEADS, 2, 1, D_FF, batch_first=batch_first, dropout=0.0, **settings
        )
        self.src_tok_emb = nn.Embedding(len(GERMAN), D)
        self.tgt_tok_emb = nn.Embedding(len(ENGLISH), D)
        self.generator = nn.Linear(D, len(ENGLISH))
        table = sinusoidal_positions(LONGEST, D)
        self.register_buffer("pos_embedding", table[None] if batch_first else table[:, None])

    def _embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = table(ids) * math.sqrt(D) + self.pos_embedding.view(LONGEST, D)[: ids.shape[1]]
        return x if self.batch_first else x.transpose(0, 1)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor) -> Tensor:
        """Ids (B, S) and (B, T), padding (B, S) → logits (B, T, V)."""
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        stream = self.transformer(
            self._embed(self.src_tok_emb, source),
            self._embed(self.tgt_tok_emb, target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.generator(stream if self.batch_first else stream.transpose(0, 1))

    def record(self, weights: dict[str, Tensor]) -> None:
        """Write the weights of each attention (B, H, Q, M) into a dictionary when it runs."""
        for name, module in self.named_modules():
            if isinstance(module, nn.MultiheadAttention):
                recording = _recording(module.forward, hook_of(name), weights)
                module.forward = recording  # type: ignore[method-assign]


def _recording(forward: Callable[..., Any], name: str, weights: dict[str, Tensor]) -> Any:
    def recorded(*args: Any, **settings: Any) -> Any:
        wanted = {"need_weights": True, "average_attn_weights": False}
        output, weights[name] = forward(*args, **(settings | wanted))
        return output, weights[name]

    return recorded


def hook_of(attention: str) -> str:
    """Our hook point for the weights of an attention of theirs."""
    attention = re.sub("multihead_attn|src_attn", "cross_attention", attention)
    return (
        attention.removeprefix("transformer.").replace("self_attn", "self_attention") + ".weights"
    )


class AnnotatedModel:
    """The Annotated Transformer's computation, from its published formulas, on a state dict."""

    def __init__(self, n_layers: int) -> None:
        self.n_layers = n_layers
        self.state: State = {}
        for stack, attentions in (("encoder", 1), ("decoder", 2)):
            for layer in range(n_layers):
                at = f"{stack}.layers.{layer}"
                for name in ("self_attn", "src_attn")[:attentions]:
                    for i in range(4):
                        self._linear(f"{at}.{name}.linears.{i}", D, D)
                self._linear(f"{at}.feed_forward.w_1", D, D_FF)
                self._linear(f"{at}.feed_forward.w_2", D_FF, D)
                for i in range(attentions + 1):
                    self._norm(f"{at}.sublayer.{i}.norm")
            self._norm(f"{stack}.norm")
        for side, size in (("src", len(GERMAN)), ("tgt", len(ENGLISH))):
            self.state[f"{side}_embed.0.lut.weight"] = torch.randn(size, D) / math.sqrt(D)
            self.state[f"{side}_embed.1.pe"] = sinusoidal_positions(LONGEST, D)[None]
        self._linear("generator.proj", D, len(ENGLISH))
        self.weights: dict[str, Tensor] = {}

    def _linear(self, name: str, inner: int, outer: int) -> None:
        self.state[f"{name}.weight"] = torch.randn(outer, inner) / math.sqrt(inner)
        self.state[f"{name}.bias"] = 0.1 * torch.randn(outer)

    def _norm(self, name: str) -> None:
        self.state[f"{name}.a_2"] = 1 + 0.1 * torch.randn(D)
        self.state[f"{name}.b_2"] = 0.1 * torch.randn(D)

    def state_dict(self) -> State:
        return self.state

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        deviation = x.std(-1, keepdim=True)  # the unbiased one
        scaled = (x - x.mean(-1, keepdim=True)) / (deviation + 1e-6)
        return self.state[f"{name}.a_2"] * scaled + self.state[f"{name}.b_2"]

    def attention(self, name: str, x: Tensor, y: Tensor, allowed: Tensor) -> Tensor:
        q, k, v = (
            self.linear(f"{name}.linears.{i}", z).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for i, z in enumerate((x, y, y))
        )
        scores = (q @ k.mT / math.sqrt(D / HEADS)).masked_fill(~allowed, -1e9)
        self.weights[hook_of(name)] = weights = scores.softmax(-1)
        return self.linear(f"{name}.linears.3", (weights @ v).transpose(1, 2).flatten(2))

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"{name}.w_2", self.linear(f"{name}.w_1", x).relu())

    def embed(self, side: str, ids: Tensor) -> Tensor:
        table, positions = (
            self.state[f"{side}_embed.0.lut.weight"],
            self.state[f"{side}_embed.1.pe"],
        )
        return table[ids] * math.sqrt(D) + positions[:, : ids.shape[1]]

    def __call__(self, source: Tensor, target: Tensor, padding: Tensor) -> Tensor:
        seen = ~padding[:, None, None]
        past = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        x = self.embed("src", source)
        for layer in range(self.n_layers):
            at = f"encoder.layers.{layer}"
            y = self.norm(f"{at}.sublayer.0.norm", x)
            x = x + self.attention(f"{at}.self_attn", y, y, seen)
            x = x + self.feed_forward(f"{at}.feed_forward", self.norm(f"{at}.sublayer.1.norm", x))
        memory = self.norm("encoder.norm", x)
        x = self.embed("tgt", target)
        for layer in range(self.n_layers):
            at = f"decoder.layers.{layer}"
            y = self.norm(f"{at}.sublayer.0.norm", x)
            x = x + self.attention(f"{at}.self_attn", y, y, past)
            y = self.norm(f"{at}.sublayer.1.norm", x)
            x = x + self.attention(f"{at}.src_attn", y, memory, seen)
            x = x + self.feed_forward(f"{at}.feed_forward", self.norm(f"{at}.sublayer.2.norm", x))
        return self.linear("generator.proj", self.norm("decoder.norm", x))

    def record(self, weights: dict[str, Tensor]) -> None:
        """Write the weights of each attention (B, H, Q, M) into a dictionary when it runs."""
        self.weights = weights


@pytest.fixture(autouse=True)
def explicit_attention() -> Iterator[None]:
    """Keep PyTorch from the fused encoder layer, which computes no weights."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


def tutorial_model(*, batch_first: bool = True, **settings: Any) -> TutorialModel:
    torch.manual_seed(3)
    model = TutorialModel(batch_first=batch_first, **settings)
    with torch.no_grad():
        for parameter in model.transformer.parameters():  # else biases are 0 and norms 1
            parameter.add_(0.1 * torch.randn_like(parameter))
        for table in (model.src_tok_emb, model.tgt_tok_emb):
            table.weight.div_(math.sqrt(D))
    return model.eval()


def annotated_model(n_layers: int = 2) -> AnnotatedModel:
    torch.manual_seed(5)
    return AnnotatedModel(n_layers)


def from_torch(folder: Path, state: Any, **changes: Any) -> FromTorchArguments:
    """Write a state dict and vocabularies; return the arguments that convert them."""
    torch.save(state, folder / "model.pt")
    (folder / "source.txt").write_text("\n".join(GERMAN) + "\n")
    (folder / "target.json").write_text(json.dumps({t: i for i, t in enumerate(ENGLISH)}))
    arguments = FromTorchArguments(
        file=folder / "model.pt",
        layout="torch-nn",
        heads=HEADS,
        source_vocab=folder / "source.txt",
        target_vocab=folder / "target.json",
        run="tutorial",
        step=7,
        checkpoints=folder / "runs",
    )
    return replace(arguments, **changes)


def convert(arguments: FromTorchArguments) -> TrainedRun:
    convert_from_torch(arguments)
    return open_trained_run(arguments.run, root=arguments.checkpoints)


def theirs_of(ids: list[int], tokenizer: Tokenizer, tokens: list[str]) -> list[int]:
    """The ids of the same tokens in a tutorial's vocabulary."""
    usual = {"<pad>": "<blank>", "<s>": "<bos>", "</s>": "<eos>"}
    texts = tokenizer.tokens(ids)
    return [tokens.index(text if text in tokens else usual[text]) for text in texts]


def pad(rows: list[list[int]], padding: int) -> Tensor:
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=padding
    )


def deviations(model: Any, run: TrainedRun, step: int = 7) -> tuple[Tensor, Tensor]:
    """Return how far logits and attention weights of two padded sentences are apart."""
    pair = run.tokenizers
    sources = [pair.encode_source(source) for source, _ in SENTENCES]
    targets = [pair.encode_target(target)[:-1] for _, target in SENTENCES]
    lengths = [len(target) for target in targets]
    rows = [theirs_of([id], pair.target, ENGLISH)[0] for id in range(len(ENGLISH))]
    theirs = pad(
        [theirs_of(source, pair.source, GERMAN) for source in sources], GERMAN.index("<pad>")
    )
    their_targets = [theirs_of(target, pair.target, ENGLISH) for target in targets]
    weights: dict[str, Tensor] = {}
    model.record(weights)
    with torch.no_grad():
        expected = model(
            theirs, pad(their_targets, ENGLISH.index("<blank>")), theirs == GERMAN.index("<pad>")
        )[..., rows]
    ours = load_weights(run, step).model
    with torch.no_grad(), capture(ours, list(weights)) as captured:
        logits = ours(pad(sources, 0), pad(targets, 0))
    assert len(weights) == sum(layers for layers, _ in run.description.shapes.values())
    maps = []
    for name, expected_weights in weights.items():
        assert expected_weights.std() > 0.05  # else wrong maps could pass
        difference = (captured[name][0] - expected_weights).abs()
        rows_of = lengths if name.startswith("decoder") else [len(source) for source in sources]
        maps += [difference[i, :, :n].flatten() for i, n in enumerate(rows_of)]
    assert expected.std() > 0.3
    kept = [(logits - expected).abs()[i, :n].flatten() for i, n in enumerate(lengths)]
    return torch.cat(kept), torch.cat(maps)


# The same computation


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_torch_transformer_computes_the_same(
    tmp_path: Path, batch_first: bool, norm_first: bool, bias: bool
) -> None:
    model = tutorial_model(batch_first=batch_first, norm_first=norm_first, bias=bias)
    run = convert(from_torch(tmp_path, model.state_dict(), norm_first=norm_first))
    logits, maps = deviations(model, run)
    assert logits.max() < 1e-5
    assert logits.mean() < 1e-6
    assert maps.max() < 1e-6
    config = run.info.model
    assert (config.n_encoder_layers, config.n_decoder_layers) == (2, 1)
    assert (config.norm, config.final_norm) == ("pre" if norm_first else "post", True)
    assert (config.attention_bias, config.tied, config.max_length) == (bias, "none", LONGEST)


def test_the_annotated_transformer_computes_the_same_up_to_its_norm(tmp_path: Path) -> None:
    model = annotated_model()
    arguments = from_torch(tmp_path, model.state_dict(), layout="annotated-transformer")
    said = convert_from_torch(arguments)
    assert "ours by the root of the variance plus 1e-5" in said
    logits, maps = deviations(model, open_trained_run("tutorial", root=tmp_path / "runs"))
    assert logits.max() < 3e-5
    assert logits.mean() < 4e-6
    assert maps.max() < 1e-5
    # With our norm in their formulas nothing differs: the gains are converted exactly.
    model.norm = lambda name, x: nn.functional.layer_norm(  # type: ignore[method-assign]
        x,
        (D,),
        model.state[f"{name}.a_2"] * math.sqrt((D - 1) / D),
        model.state[f"{name}.b_2"],
    )
    logits, maps = deviations(model, open_trained_run("tutorial", root=tmp_path / "runs"))
    assert logits.max() < 5e-6
    assert maps.max() < 1e-6


def test_words_of_a_text_get_the_rows_of_their_tokens(tmp_path: Path) -> None:
    model = tutorial_model()
    run = convert(from_torch(tmp_path, model.state_dict()))
    pair = run.tokenizers
    assert pair.source.tokens(pair.encode_source("Der der  Hund.")) == (
        ["<s>", "<unk>", "der", "Hund", ".", "</s>"]
    )
    assert pair.target.tokens(pair.encode_target("I see")) == ["<s>", "I", "<unk>", "</s>"]
    table = load_weights(run, 7).model.embedding_table("source")
    for token, row in zip(GERMAN, model.src_tok_emb.weight, strict=True):
        usual = {"<bos>": "<s>", "<eos>": "</s>"}.get(token, token)
        assert torch.equal(table[pair.source.tokens(range(len(GERMAN))).index(usual)], row)
    without = convert(from_torch(tmp_path, model.state_dict(), run="without", source_start=False))
    assert without.tokenizers.encode_source("der") == run.tokenizers.encode_source("der")[1:]


def test_a_converted_run_says_what_is_not_known(tmp_path: Path) -> None:
    run = convert(from_torch(tmp_path, tutorial_model().state_dict()))
    assert (run.data, run.counts, run.planned_steps) == (None, None, None)
    assert (run.metrics(), run.samples(), run.steps()) == ([], [], [7])
    assert translate(run.load(7).model, run.tokenizers, ["der Hund ."]) != [""]


# Tied matrices, and tokens that a vocabulary lacks


def test_equal_matrices_are_tied(tmp_path: Path) -> None:
    model = tutorial_model()
    model.generator.weight = model.tgt_tok_emb.weight
    run = convert(from_torch(tmp_path, model.state_dict()))
    assert run.info.model.tied == "output"
    assert deviations(model, run)[0].max() < 1e-5

    state = model.state_dict()
    state["src_tok_emb.weight"] = state["tgt_tok_emb.weight"]
    arguments = from_torch(tmp_path, state, run="all")
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert run.info.model.tied == "all"
    assert run.tokenizers.shared

    del state["src_tok_emb.weight"], state["generator.weight"], state["generator.bias"]
    state["embedding.weight"] = state.pop("tgt_tok_emb.weight")
    arguments = from_torch(tmp_path, state, run="one", parts=Parts(generator="embedding.weight"))
    run = convert(replace(arguments, source_vocab=arguments.target_vocab))
    assert (run.info.model.tied, run.info.model.output_bias) == ("all", False)


def test_a_special_token_that_is_not_there_has_probability_zero(tmp_path: Path) -> None:
    state = tutorial_model().state_dict()
    arguments = from_torch(tmp_path, state)
    names = [*(f"w{i}" for i in range(len(ENGLISH) - 1)), "go"]
    arguments.target_vocab.write_text(json.dumps(names))
    changed = replace(arguments, special=SpecialNames(start="go"))
    with pytest.raises(CheckpointError, match=r"target\.json: there is no 'stop', which --end"):
        convert_from_torch(replace(arguments, special=SpecialNames(start="go", end="stop")))
    said = convert_from_torch(changed)
    assert "the target vocabulary has no <pad>, <unk>, </s>: embedded as zeros, and never" in said
    run = open_trained_run("tutorial", root=tmp_path / "runs")
    assert run.description.target_vocab_size == len(ENGLISH) + 3
    model = load_weights(run, 7).model
    assert not model.embedding_table("target")[[0, 1, 3]].any()
    source, target = torch.tensor([[4, 5]]), torch.tensor([[2, 4]])
    with torch.no_grad():
        probabilities = model(source, target).softmax(-1)
    assert not probabilities[..., [0, 1, 3]].any()
    assert (probabilities[..., [2, *range(4, 15)]] > 0).all()


# Files and checkpoints


@pytest.mark.parametrize("form", ["training", "parallel", "half", "safetensors"])
def test_other_forms_of_the_file_are_read(tmp_path: Path, form: str) -> None:
    model = tutorial_model()
    state: Any = model.state_dict()
    if form == "training":
        state = {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": {"state": {}}}
    elif form == "parallel":
        state = {f"module.{name}": tensor for name, tensor in state.items()}
    elif form == "half":
        model.half()
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.float()
        model.pos_embedding.copy_(sinusoidal_positions(LONGEST, D).view_as(model.pos_embedding))
    arguments = from_torch(tmp_path, state)
    if form == "safetensors":
        path = tmp_path / "model.safetensors"
        safetensors.torch.save_file(state, path)
        arguments = replace(arguments, file=path)
    assert deviations(model, convert(arguments))[0].max() < 1e-5


def test_another_step_becomes_a_checkpoint_of_the_same_run(tmp_path: Path) -> None:
    model = tutorial_model()
    arguments = from_torch(tmp_path, model.state_dict(), step=0)
    convert(arguments)
    with torch.no_grad():
        model.generator.weight.mul_(2)
    run = convert(from_torch(tmp_path, model.state_dict(), step=70))
    assert run.steps() == [0, 70]
    assert deviations(model, run, 70)[0].max() < 1e-5
    for changes, message in [
        ({"step": 70}, r"step-0000070\.safetensors: is there already; give another --step"),
        ({"step": 80, "heads": 7}, r"runs/tutorial: its model is not that of .*model\.pt"),
        ({"step": 80, "split": "spaces"}, r"runs/tutorial: its tokenizer_sha256 is not that of"),
        ({"step": 80, "source_start": False}, r"runs/tutorial: its source_start is not that of"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            convert_from_torch(replace(arguments, **changes))
    assert run.steps() == [0, 70]


def test_a_trained_run_gets_no_converted_checkpoint(tmp_path: Path) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    run = convert(arguments)
    write_info(run.folder, replace(run.info, training=TrainingConfig()))
    with pytest.raises(CheckpointError, match="this run was trained here, not converted"):
        convert_from_torch(replace(arguments, step=8))


# Refusals


def without(state: State, name: str) -> State:
    return {key: tensor for key, tensor in state.items() if key != name}


IN_PROJECTION = "transformer.encoder.layers.1.self_attn.in_proj_weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: without(s, IN_PROJECTION),
            rf"expected 51 tensors; 1 are missing: {re.escape(IN_PROJECTION)} \(42, 14\)",
        ),
        (
            lambda s: s | {"transformer.decoder.layers.0.norm4.weight": torch.ones(D)},
            r"1 have no place in the model: transformer\.decoder\.layers\.0\.norm4\.weight \(14,\)",
        ),
        (
            lambda s: s | {"pos_embedding": torch.randn(1, LONGEST, D)},
            r"no place in the model: pos_embedding \(1, 31, 14\); positions can only be the sinu",
        ),
        (
            lambda s: s | {IN_PROJECTION: torch.ones(D, D)},
            r"layers\.1\.self_attn\.in_proj_weight: expected shape \(42, 14\), got \(14, 14\)",
        ),
        (
            lambda s: s | {"src_tok_emb.weight": torch.ones(len(GERMAN), D + 2)},
            r"src_tok_emb\.weight: expected shape \(11, 14\), got \(11, 16\)",
        ),
        (
            lambda s: without(s, "src_tok_emb.weight"),
            r"source-embedding: expected one matrix \(V, D\) with a name such as src_embed\.weight"
            r", got none of tgt_tok_emb\.weight, generator\.weight; name it by --source-embedding",
        ),
        (
            lambda s: s | {"second_generator.weight": torch.ones(D, D)},
            r"generator: expected one matrix .* got generator\.weight, second_generator\.weight of",
        ),
        (
            lambda s: {n: t for n, t in s.items() if "decoder" not in n},
            r"expected the layers of one encoder, .* encoders .* and decoders \[\]; is --layout",
        ),
        (
            lambda s: s | {"generator.bias": torch.full((len(ENGLISH),), torch.nan)},
            r"generator\.bias: expected finite numbers, got others: the training diverged",
        ),
        (
            lambda s: s | {"ids": torch.arange(5)},
            r"ids: expected a tensor of floating-point numbers, got torch\.int64; leave it out",
        ),
        (lambda s: {**s, "epoch": 3}, r"epoch: expected a tensor .* got int"),
        (lambda s: list(s), r"expected a state dict, got list; write it by torch\.save\(model\.st"),
        (lambda s: {}, r"expected a state dict, got dict"),
    ],
)
def test_a_state_dict_of_another_model_is_refused(
    tmp_path: Path, change: Callable[[State], Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"model\.pt: .*{message}"):
        convert_from_torch(from_torch(tmp_path, change(tutorial_model().state_dict())))
    assert not (tmp_path / "runs").exists()


def test_a_norm_missing_in_the_annotated_transformer_is_named(tmp_path: Path) -> None:
    state = without(annotated_model(1).state_dict(), "encoder.norm.a_2")
    with pytest.raises(CheckpointError, match=r"1 are missing: encoder\.norm\.a_2 \(14,\)"):
        convert_from_torch(from_torch(tmp_path, state, layout="annotated-transformer"))


class Harmful:
    def __reduce__(self) -> Any:
        return (eval, ("open('harm', 'w')",))


@pytest.mark.parametrize("what", ["code", "model", "garbage", "cut"])
def test_a_file_with_code_or_damage_is_refused(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    if what == "garbage":
        arguments.file.write_bytes(bytes(range(256)) * 4)
    elif what == "cut":
        arguments.file.write_bytes(arguments.file.read_bytes()[:-900])
    else:
        torch.save({"a": Harmful()} if what == "code" else nn.Linear(2, 2), arguments.file)
    found = {"code": "one with eval", "model": "one with torch.nn"}
    got = re.escape(found.get(what, "another or a damaged file"))
    with pytest.raises(
        CheckpointError, match=rf"expected a file with tensors only, got {got}.*run"
    ):
        convert_from_torch(arguments)
    assert not (tmp_path / "harm").exists()
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(b"\x40" + bytes(20))
    with pytest.raises(CheckpointError, match=r"cut\.safetensors: truncated, or not safetensors"):
        convert_from_torch(replace(arguments, file=cut))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 4}, "heads: expected a divisor of d_model 14, got 4"),
        ({"heads": 0}, "heads: expected a divisor of d_model 14, got 0"),
        ({"step": -1}, "step: expected 0 to 9,999,999, got -1"),
        ({"run": "../x"}, r"run: expected the name of a folder, got '\.\./x'"),
        ({"max_length": 0}, "max_length: expected at least 1, got 0"),
        (
            {"layout": "annotated-transformer"},
            "one decoder, such as decoder.layers.0.src_attn; got",
        ),
        (
            {"parts": Parts(generator="generator.bias")},
            r"--generator: expected the name of a matrix \(V, D\), got 'generator\.bias'; there",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((CheckpointError, ValueError), match=message):
        convert_from_torch(from_torch(tmp_path, tutorial_model().state_dict(), **changes))
    assert not (tmp_path / "runs").exists()


# Vocabularies


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.txt", "<pad>\na\n\nb\n", "line 3: expected a token, got an empty line"),
        ("v.txt", "<pad>\na\na\n", "expected each token once, got 'a' 2 times"),
        ("v.txt", "<pad>\n<blank>\na\n", "got both <pad> and <blank>; say which by --pad"),
        ("v.json", '{"a": 0, "b": 2}', "expected an object with the ids 0 to 1, each once"),
        ("v.json", '["a", 1]', "expected a list of tokens, or an object with the id of each"),
        ("v.json", "[", "not JSON"),
        ("v.txt", None, "cannot be read"),
        ("v.txt", b"\xff", "expected text in UTF-8"),
    ],
)
def test_a_vocabulary_that_is_not_one_is_refused(
    tmp_path: Path, name: str, text: str | bytes | None, message: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CheckpointError, match=rf"v\.(txt|json).*{message}"):
        read_vocabularies(path, path, USUAL)


def test_special_tokens_need_four_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("<pad>\n<unk>\n</s>\na\nBEGIN\n")
    with pytest.raises(CheckpointError, match=r"four different special tokens, got '</s>' twice"):
        read_vocabularies(path, path, SpecialNames(start="</s>"))
    with pytest.raises(CheckpointError, match=r"'</s>' is there beside another special token"):
        read_vocabularies(path, path, SpecialNames(end="a"))
    vocabulary, _ = read_vocabularies(path, path, SpecialNames(start="BEGIN"))
    assert (vocabulary.words, vocabulary.rows) == (("a",), (0, 1, 4, 2, 3))


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    arguments.source_vocab.write_text("\n".join([*GERMAN, "more"]))
    message = (
        r"source\.txt: expected 11 tokens, as src_tok_emb\.weight has rows in .*, got 12; give"
    )
    with pytest.raises(CheckpointError, match=message):
        convert_from_torch(arguments)


def test_a_target_without_a_start_is_refused(tmp_path: Path) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    arguments.target_vocab.write_text(json.dumps([f"w{i}" for i in range(len(ENGLISH))]))
    with pytest.raises(
        CheckpointError, match=r"expected a token that begins a target, such as <s>"
    ):
        convert_from_torch(arguments)


def test_tokens_that_cannot_be_typed_are_counted(tmp_path: Path) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    said = convert_from_torch(arguments)
    assert (
        "the file does not tell: norms after the sublayers (--norm-first), embeddings times" in said
    )
    assert "1 of 12 target tokens cannot be typed, such as 'T-shirt': texts are split at" in said
    assert "source tokens" not in said
    said = convert_from_torch(replace(arguments, run="spaces", split="spaces"))
    assert "cannot be typed" not in said
    target = open_trained_run("spaces", root=tmp_path / "runs").tokenizers.target
    assert target.tokens(target.encode("I  T-shirt. ")) == ["I", "<unk>"]


@pytest.mark.parametrize("words", [["der", "hund"], ["der", "Hund"]])
@pytest.mark.parametrize("at_spaces", [True, False])
def test_a_given_vocabulary_survives_its_file(words: list[str], at_spaces: bool) -> None:
    made = WordTokenizer.of([*words, "<", ">"], at_spaces=at_spaces)
    again = Tokenizer.from_text(made.to_text())
    assert isinstance(again, WordTokenizer)
    assert again.to_text() == made.to_text()
    assert again.encode(f"DER {words[1]}") == ([4, 5] if words[1] == "hund" else [UNK, 5])
    for typed in ("<s>", "</s>", "<pad>", "der</s>", "<pad><s>"):
        assert not {PAD, BOS, EOS} & set(again.encode(typed))


# The command


def test_the_command_converts_and_says_what_is_wrong(
    tmp_path: Path, command: Callable[..., str]
) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    given = ["from-torch", arguments.file, "--layout", "torch-nn", "--run", "tutorial"]
    given += ["--source-vocab", arguments.source_vocab, "--target-vocab", arguments.target_vocab]
    given += ["--step", 7, "--checkpoints", arguments.checkpoints, "--source-language", "de"]
    assert "step-0000007.safetensors" in command("convert", *given, "--heads", 2, "--pad", "<pad>")
    assert open_trained_run("tutorial", root=arguments.checkpoints).source_language == "de"
    with pytest.raises(SystemExit, match="error: heads: expected a divisor"):
        command("convert", *given, "--heads", 3)


def test_help_names_every_option(
    command: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit):
        command("convert", "from-torch", "--help")
    text = capfd.readouterr().out
    names = [field.name for kind in (SpecialNames, Parts) for field in fields(kind)]
    names += [field.name for field in fields(FromTorchArguments)]
    for name in set(names) - {"file", "special", "parts"}:
        assert re.search(rf"--{name.replace('_', '-')}[ ,]", text), name
