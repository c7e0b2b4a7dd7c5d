"""Make a run of state dicts of ``torch.nn.Transformer`` or of the Annotated Transformer.

Our parameters are found by the names of their tensors. Weights are stored in float32, as they are
in the file. ``V`` vocabulary size, ``D`` = d_model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mode
from typing import Annotated, Literal

import torch
import tyro
from torch import Tensor

from headwise.model import checkpoint, torch_files
from headwise.model.config import EOS, MOST_STEPS, RunInfo, TransformerConfig
from headwise.model.files import CheckpointError
from headwise.model.tokenizer import TokenizerPair, WordTokenizer
from headwise.model.transformer import Transformer

LayoutName = Literal["annotated-transformer", "torch-nn"]

_LAYOUTS: dict[LayoutName, dict[str, str]] = {
    "annotated-transformer": {
        "query_projection": "linears.0",
        "key_projection": "linears.1",
        "value_projection": "linears.2",
        "output_projection": "linears.3",
        r"self_attention\.": "self_attn.",
        r"cross_attention\.": "src_attn.",
        r"feed_forward\.expand": "feed_forward.w_1",
        r"feed_forward\.contract": "feed_forward.w_2",
        r"self_attention_residual\.norm": "sublayer.0",
        r"cross_attention_residual\.norm": "sublayer.1",
        r"^(encoder.*)feed_forward_residual\.norm": r"\1sublayer.1",
        r"feed_forward_residual\.norm": "sublayer.2",
        r"final_norm\.": "",
        r"norm\.weight": "norm.a_2",
        r"norm\.bias": "norm.b_2",
    },
    "torch-nn": {
        r"(query|key|value)_projection\.": "in_proj_",
        "output_projection": "out_proj",
        r"self_attention\.": "self_attn.",
        r"cross_attention\.": "multihead_attn.",
        r"feed_forward\.expand": "linear1",
        r"feed_forward\.contract": "linear2",
        r"self_attention_residual\.norm\.norm": "norm1",
        r"cross_attention_residual\.norm\.norm": "norm2",
        r"^(encoder.*)feed_forward_residual\.norm\.norm": r"\1norm2",
        r"feed_forward_residual\.norm\.norm": "norm3",
        r"final_norm\.": "",
    },
}
"""Parts of our tensors' names, and what they are in each implementation, one after the other."""


def _rename(ours: str, layout: LayoutName) -> str:
    """Name a tensor of ours, below encoder or decoder, as an implementation does."""
    for part, theirs in _LAYOUTS[layout].items():
        ours = re.sub(part, theirs, ours)
    return ours


_SOURCE_TABLE, _TARGET_TABLE = (f"{side}.embedding.table.weight" for side in ("encoder", "decoder"))
_OUTPUT = "unembedding.weight"


@dataclass(frozen=True)
class FromTorchArguments:
    """Make a run, or another checkpoint of it, of a tutorial's state dict.

    The file holds torch.save(model.state_dict()) or safetensors; docs/convert.md says what it may
    contain. Example: python -m headwise.model.convert from-torch epoch-10.pt
    --layout torch-nn --heads 8 --source-vocab de.txt --target-vocab en.txt --run multi30k --step 10
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """State dict of the model, as .pt or .safetensors."""
    layout: LayoutName
    """Implementation that the names of the tensors come from."""
    heads: int
    """Number of attention heads in every layer, which the file does not tell."""
    source_vocab: Path
    """Source tokens in the order of their ids: a text file with a token a line, or .json with a
    list, or with an object that has the id of each token."""
    target_vocab: Path
    """Target tokens, in the same way."""
    run: str
    """Name of the run; if it is there already, it gets another checkpoint."""
    step: int
    """Training step of the checkpoint (or number of the epoch)."""
    norm_first: bool = False
    """Whether torch-nn was made with norm_first=True, which the file does not tell; in the
    annotated-transformer the norm is always first."""
    scale_embeddings: bool = True
    """Whether the model multiplies token embeddings by the square root of d_model, as both
    tutorials do."""
    source_start: bool = True
    """Whether sources begin with the start token, as in both tutorials."""
    split: Literal["marks", "spaces"] = "marks"
    """Where a typed text is split into words: at spaces and around punctuation marks and symbols,
    or at spaces only."""
    max_length: int | None = None
    """Longest source or target, in tokens; by default the length of the positional table in the
    file, or 1,024 without one."""
    special: Annotated[torch_files.SpecialNames, tyro.conf.arg(name="")] = torch_files.USUAL
    """Special tokens."""
    parts: Annotated[torch_files.Parts, tyro.conf.arg(name="")] = torch_files.FOUND_BY_NAME
    """Names in the file."""
    source_language: str = ""
    """Code of the source language, such as de."""
    target_language: str = ""
    """Code of the target language."""
    checkpoints: Path = checkpoint.NEW_RUNS
    """Folder of the runs."""


def convert_from_torch(arguments: FromTorchArguments) -> str:
    """Write a state dict as a checkpoint of a run; return what was made, in words."""
    if not 0 <= arguments.step <= MOST_STEPS:
        raise ValueError(f"step: expected 0 to {MOST_STEPS:,}, got {arguments.step:,}")
    if arguments.run in ("", ".", "..") or Path(arguments.run).name != arguments.run:
        raise ValueError(f"run: expected the name of a folder, got {arguments.run!r}")
    vocabularies = torch_files.read_vocabularies(
        arguments.source_vocab, arguments.target_vocab, arguments.special
    )
    if "<s>" in vocabularies[1].lacking:
        raise CheckpointError(
            f"{arguments.target_vocab}: expected a token that begins a target, such as <s>, <bos> "
            "or <sos>; name it by --start"
        )
    model = _model(arguments, *vocabularies)
    source, target = (
        WordTokenizer.of(vocabulary.words, at_spaces=arguments.split == "spaces")
        for vocabulary in vocabularies
    )
    if model.config.tied == "all":
        target = source
    tokenizers = TokenizerPair(source, target, source_start=arguments.source_start)
    info = RunInfo(
        name=arguments.run,
        source_language=arguments.source_language,
        target_language=arguments.target_language,
        model=model.config,
        training=None,
        data=None,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tokenizer_sha256=checkpoint.tokenizer_sha256(tokenizers),
        source_start=arguments.source_start,
    )
    folder = arguments.checkpoints / arguments.run
    if (folder / "run.json").exists():
        _check_same_run(arguments, info)
    else:
        checkpoint.create_run(folder, info, tokenizers, None)
    checkpoint.save_weights(folder, model, run=info.name, step=arguments.step, dtype=torch.float32)
    saved = checkpoint.weights_path(folder, arguments.step)
    remarks = _remarks(arguments, vocabularies, tokenizers)
    return "\n".join([f"wrote {saved}; show it: python -m headwise.viz_app", *remarks])


def _check_same_run(arguments: FromTorchArguments, wanted: RunInfo) -> None:
    """Raise an error if a checkpoint cannot become one of the run that is there."""
    run = checkpoint.open_trained_run(arguments.run, root=arguments.checkpoints)
    if run.info.training is not None:
        raise CheckpointError(
            f"{run.folder}: this run was trained here, not converted; take another name"
        )
    for name in ("model", "tokenizer_sha256", "source_start"):
        there, given = getattr(run.info, name), getattr(wanted, name)
        if there != given:
            raise CheckpointError(
                f"{run.folder}: its {name} is not that of {arguments.file}: expected {there}, got "
                f"{given}; give the same options and vocabularies, or take another name"
            )
    if arguments.step in checkpoint.steps_of(run.folder):
        raise CheckpointError(
            f"{checkpoint.weights_path(run.folder, arguments.step)}: is there already; give "
            "another --step, or remove the file"
        )


def _remarks(
    arguments: FromTorchArguments,
    vocabularies: Sequence[torch_files.ConvertedVocabulary],
    tokenizers: TokenizerPair,
) -> list[str]:
    """Say what differs from the other model."""
    remarks = []
    for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
        if lacking := ", ".join(vocabulary.lacking):
            remarks.append(
                f"the {side} vocabulary has no {lacking}: embedded as zeros, and never predicted"
            )
        tokenizer = getattr(tokenizers, side)
        words = enumerate(tokenizer.tokens(range(tokenizer.vocab_size)))
        # Such as "T-shirt", split at its hyphen. The first four are special tokens.
        if odd := [word for id, word in words if id > EOS and tokenizer.encode(word) != [id]]:
            remarks.append(
                f"{len(odd):,} of {vocabulary.size:,} {side} tokens cannot be typed, such as "
                f"{', '.join(map(repr, odd[:3]))}: texts are split at {arguments.split} (--split)"
            )
    if arguments.layout == "torch-nn":
        norm = "before" if arguments.norm_first else "after"
        scaled = "times" if arguments.scale_embeddings else "not times"
        remarks.append(
            f"taken as given, for the file does not tell: norms {norm} the sublayers "
            f"(--norm-first), embeddings {scaled} √D (--scale-embeddings), sinusoidal positions, "
            "ReLU, layer_norm_eps 1e-5"
        )
    else:
        remarks.append(
            "its layer norm divides by the standard deviation plus 1e-6, ours by the root of "
            "the variance plus 1e-5: they differ by about 4 in a million (docs/convert.md)"
        )
    return remarks


def _model(
    arguments: FromTorchArguments,
    source: torch_files.ConvertedVocabulary,
    target: torch_files.ConvertedVocabulary,
) -> Transformer:
    """Build the model and fill it with the weights of the file."""
    path, layout, heads = arguments.file, arguments.layout, arguments.heads
    state = torch_files.read_state_dict(path)
    stacks = _find_stacks(path, state, layout)
    final_norms = tuple(f"{prefix}norm." for prefix, _ in stacks.values())
    in_stacks = (*final_norms, *(f"{prefix}layers." for prefix, _ in stacks.values()))
    inside = {name: tensor for name, tensor in state.items() if name.startswith(in_stacks)}
    outside = {name: tensor for name, tensor in state.items() if name not in inside}
    parts = torch_files.find_parts(path, outside, arguments.parts)
    # The sizes that most tensors have: one may be of another shape, which is then said of it.
    d_model = mode(tensor.shape[-1] for tensor in inside.values() if tensor.dim())
    expand = f".{_rename('feed_forward.expand.', layout)}"
    d_ff = mode([len(t) for name, t in inside.items() if expand in name and t.dim()] or [1])
    if heads < 1 or d_model % heads:
        raise ValueError(f"heads: expected a divisor of d_model {d_model}, got {heads}")

    tables = {
        _SOURCE_TABLE: (parts.source_embedding, source),
        _TARGET_TABLE: (parts.target_embedding, target),
        _OUTPUT: (parts.generator, target),
    }
    for name, vocabulary in tables.values():
        if len(state[name]) != vocabulary.size:
            raise CheckpointError(
                f"{vocabulary.path}: expected {len(state[name]):,} tokens, as {name} has rows in "
                f"{path}, got {vocabulary.size:,}; give the vocabulary that the model was trained "
                "with"
            )
    output_bias = f"{parts.generator.removesuffix('weight')}bias"
    if target.lacking:
        state.setdefault(output_bias, torch.zeros(target.size))
    if output_bias in state:
        tables["unembedding.bias"] = (output_bias, target)

    positions = torch_files.positions_in(outside, d_model)
    longest = min(positions.values(), default=1024)
    config = TransformerConfig(
        source_vocab_size=len(source.rows),
        target_vocab_size=len(target.rows),
        n_encoder_layers=stacks["encoder"][1],
        n_decoder_layers=stacks["decoder"][1],
        n_heads=heads,
        d_model=d_model,
        d_ff=d_ff,
        norm="pre" if arguments.norm_first or layout == "annotated-transformer" else "post",
        final_norm=any(name.startswith(final_norms) for name in inside),
        attention_bias=any(name.endswith(("bias", "b_2")) for name in inside),
        output_bias=output_bias in state,
        tied="none",
        scale_embeddings=arguments.scale_embeddings,
        dropout=0.0,  # not in the file
        max_length=longest if arguments.max_length is None else arguments.max_length,
    )
    with torch.device("meta"):
        shapes = {name: tuple(p.shape) for name, p in Transformer(config).named_parameters()}
    wanted = {name: tuple(state[name].shape) for name in positions}
    for ours, (name, vocabulary) in tables.items():
        wanted[name] = (vocabulary.size, *shapes[ours][1:])
    places: dict[str, list[str]] = {}  # a tensor of theirs may hold several of ours, in this order
    for ours, (rows, *width) in shapes.items():
        if ours not in tables and (config.attention_bias or not ours.endswith("bias")):
            stack, _, rest = _rename(ours, layout).partition(".")
            name = f"{stacks[stack][0]}{rest}"
            places.setdefault(name, []).append(ours)
            wanted[name] = (len(places[name]) * rows, *width)
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if odd := [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]:
        listed = "; ".join(
            f"{name}: expected {wanted.get(name, 'no such tensor')}, got {found.get(name, 'none')}"
            for name in odd[:3]
        )
        raise CheckpointError(
            f"{path}: tensors that do not fit the model, {len(odd)} in all: {listed}; positions "
            "can only be the sinusoids of the paper, sine and cosine in turn"
        )
    state = torch_files.as_float32(path, state)

    tensors = {ours: vocabulary.reorder(state[name]) for ours, (name, vocabulary) in tables.items()}
    for name, names in places.items():
        tensors |= zip(names, state[name].chunk(len(names)), strict=True)
    if layout == "annotated-transformer":
        # Ours divides by the root of the variance, not of D / (D - 1) times it.
        for name in tensors:
            if name.endswith("norm.weight"):
                tensors[name] = tensors[name] * math.sqrt((d_model - 1) / d_model)
    # Matrices of equal numbers are tied, both embeddings only if their tokens are the same.
    if torch.equal(tensors[_TARGET_TABLE], tensors[_OUTPUT]):
        same = source == target and torch.equal(tensors[_SOURCE_TABLE], tensors[_TARGET_TABLE])
        config = replace(config, tied="all" if same else "output")
    model = Transformer(config)
    model.load_state_dict(
        {name: tensors.get(name, torch.zeros_like(p)) for name, p in model.state_dict().items()}
    )
    return model


def _find_stacks(
    path: Path, state: Mapping[str, Tensor], layout: LayoutName
) -> dict[str, tuple[str, int]]:
    """Return what stands before the names of encoder and decoder, and their numbers of layers."""
    cross = _rename("cross_attention.", layout)
    layers: dict[str, int] = {}
    decoders = set()
    for name in state:
        if match := re.match(rf"(|.*?\.)layers\.(\d{{1,3}})\.(self_attn\.|{cross})", name):
            layers[match[1]] = max(layers.get(match[1], 0), int(match[2]) + 1)
            decoders |= {match[1]} if match[3] == cross else set()
    encoders = layers.keys() - decoders
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            f"{path}: expected the layers of one encoder, such as encoder.layers.0.self_attn, and "
            f"of one decoder, such as decoder.layers.0.{cross[:-1]}; got encoders "
            f"{sorted(encoders)} and decoders {sorted(decoders)}; is --layout right?"
        )
    prefixes = zip(("encoder", "decoder"), (*encoders, *decoders), strict=True)
    return {stack: (prefix, layers[prefix]) for stack, prefix in prefixes}
