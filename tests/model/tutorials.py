"""Models as tutorials write them, with random weights, and their conversion."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.from_torch import FromTorchArguments, convert_from_torch
from headwise.model.hooks import capture
from headwise.model.layers import sinusoidal_positions
from headwise.model.masks import PADDING
from headwise.model.tokenizer import Tokenizer

D, HEADS, D_FF, LONGEST = 14, 2, 11, 31
GERMAN = ["<unk>", "<pad>", "<bos>", "<eos>", ".", "Hund", "der", "ein", "Katze", "die", "sieht"]
ENGLISH = [".", "a", "cat", "dog", "</s>", "sees", "the", "<s>", "<blank>", "I", "<unk>", "T-shirt"]
SENTENCES = [("der Hund sieht die Katze .", "the dog sees the"), ("ein Wal", "I a cat")]

State = dict[str, Tensor]


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
    ours = attention.removeprefix("transformer.").replace("multihead_attn", "cross_attention")
    return ours.replace("self_attn", "self_attention") + ".weights"


class AnnotatedNorm(nn.LayerNorm):
    """Divides as the Annotated Transformer does, by the unbiased deviation and a bit more."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        scaled = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        return self.weight * scaled + self.bias


def tutorial_model(*, batch_first: bool = True, **settings: Any) -> TutorialModel:
    torch.manual_seed(3)
    model = TutorialModel(batch_first=batch_first, **settings)
    with torch.no_grad():
        for parameter in model.transformer.parameters():  # else biases are 0 and norms 1
            parameter.add_(0.1 * torch.randn_like(parameter))
        for table in (model.src_tok_emb, model.tgt_tok_emb):
            table.weight.div_(math.sqrt(D))
    return model.eval()


def annotated_model() -> TutorialModel:
    """Make a model that computes what the Annotated Transformer does."""
    model = tutorial_model(norm_first=True)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.__class__ = AnnotatedNorm
    return model


_ANNOTATED = {
    r"transformer\.": "",
    "multihead_attn": "src_attn",
    "out_proj": "linears.3",
    "linear([12])": r"feed_forward.w_\1",
    r"norm1\.": "sublayer.0.norm.",
    r"norm2\.": "sublayer.1.norm.",
    r"norm3\.": "sublayer.2.norm.",
    r"norm\.weight": "norm.a_2",
    r"norm\.bias": "norm.b_2",
    r"(src|tgt)_tok_emb": r"\1_embed.0.lut",
    "pos_embedding": "src_embed.1.pe",
    "generator": "generator.proj",
}


def annotated_names(state: State) -> State:
    """Give the tensors of ``annotated_model`` the names that they have in the tutorial."""
    renamed: State = {}
    for name, tensor in state.items():
        for pattern, theirs in _ANNOTATED.items():
            name = re.sub(pattern, theirs, name)
        before, fused, kind = name.partition("in_proj_")
        if fused:
            parts = enumerate(tensor.chunk(3))
            renamed |= {f"{before}linears.{i}.{kind}": part.clone() for i, part in parts}
        else:
            renamed[name] = tensor
    return renamed | {"tgt_embed.1.pe": renamed["src_embed.1.pe"]}


def from_torch(folder: Path, state: Any, **changes: Any) -> FromTorchArguments:
    """Write a state dict and vocabularies, or take those there; return what converts them."""
    if state is not None:
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
    """Return how far logits and attention weights of two padded sentences are apart, in float64."""
    pair = run.tokenizers
    sources = [pair.encode_source(source) for source, _ in SENTENCES]
    targets = [pair.encode_target(target)[:-1] for _, target in SENTENCES]
    lengths = [len(target) for target in targets]
    rows = [theirs_of([id], pair.target, ENGLISH)[0] for id in range(len(ENGLISH))]
    theirs = pad([theirs_of(s, pair.source, GERMAN) for s in sources], GERMAN.index("<pad>"))
    their_targets = [theirs_of(target, pair.target, ENGLISH) for target in targets]
    weights: dict[str, Tensor] = {}
    model = copy.deepcopy(model).double()
    model.record(weights)
    torch.backends.mha.set_fastpath_enabled(False)  # it computes no weights
    try:
        with torch.no_grad():
            their_target = pad(their_targets, ENGLISH.index("<blank>"))
            expected = model(theirs, their_target, theirs == GERMAN.index("<pad>"))[..., rows]
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    ours = load_weights(run, step, torch.float64).model
    with torch.no_grad(), capture(ours, list(weights)) as captured:
        logits = ours(pad(sources, PADDING), pad(targets, PADDING))
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
