"""Save runs of ours as models of ``transformers``, which then loads them without our code.

A model with norms after the sublayers becomes a Marian, one with norms before them and at the end
of each stack a Pegasus. Both have all sines of a positional encoding before all cosines, where ours
alternate: the stream's axis ``D`` is reordered in every weight that reads or writes it, and all
results stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tokenizers
import torch
from tokenizers import AddedToken, Regex, decoders, processors
from torch import Tensor
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.config import BOS, EOS, PAD, UNK, TransformerConfig
from headwise.model.files import CheckpointError, new_folder, write_json
from headwise.model.pretrained.folders import LOGGED, quiet
from headwise.model.pretrained.tokenizers import TARGET_TOKENIZER
from headwise.model.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair
from headwise.model.transformer import Transformer

_NAMES = (
    (r"^(encoder|decoder)\.", r"model.\1."),
    (r"embedding\.table\.", "embed_tokens."),
    (r"self_attention_residual\.norm\.norm\.", "self_attn_layer_norm."),
    (r"cross_attention_residual\.norm\.norm\.", "encoder_attn_layer_norm."),
    (r"feed_forward_residual\.norm\.norm\.", "final_layer_norm."),
    (r"final_norm\.norm\.", "layer_norm."),
    (r"self_attention\.", "self_attn."),
    (r"cross_attention\.", "encoder_attn."),
    (r"(query|key|value)_projection\.", lambda match: f"{match[1][0]}_proj."),
    (r"output_projection\.", "out_proj."),
    (r"feed_forward\.expand\.", "fc1."),
    (r"feed_forward\.contract\.", "fc2."),
    (r"^unembedding\.weight", "lm_head.weight"),
    (r"^unembedding\.bias", "final_logits_bias"),
)
"""Parts of our tensors' names, and what they are in Marian and Pegasus."""

_READS_STREAM = re.compile(r"(embed_tokens|lm_head|[qkv]_proj|fc1)\.weight")
_WRITES_STREAM = re.compile(r"(out_proj|fc2|layer_norm)\.(weight|bias)")

# The spacing of written text, as WordTokenizer.decode has it; a decoder here can only remove.
_UNWRITTEN_SPACES = (
    r" (?=[.,;:!?%…)\]}»”])|(?<=[¿¡(\[{«“]) ",
    r"(?<=\w) (?=['’] (?:s|t|d|m|ll|re|ve)\b)",
    r"(?<=\w['’]) (?=(?:s|t|d|m|ll|re|ve)\b)",
)


def save_for_transformers(
    run: TrainedRun, folder: Path, step: int | Literal["all"] | None = None
) -> str:
    """Write checkpoints of a run for ``AutoModelForSeq2SeqLM`` and ``AutoTokenizer``.

    The folder gets the files of a step, by default the last, or with all steps a folder
    ``checkpoint-STEP`` for each; what was written is returned in words. A folder in use, or a model
    that no family can express, is a CheckpointError.
    """
    folder = folder.resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CheckpointError(f"{folder}: there is something already; name a new folder")
    try:
        config = to_config(run.info.model)
    except ValueError as error:
        raise CheckpointError(f"{run.folder}: {error}") from error
    steps = run.steps() if step == "all" else [run.steps()[-1] if step is None else step]
    with quiet(), new_folder(folder) as temporary:
        for each in steps:
            place = temporary / f"checkpoint-{each}" if step == "all" else temporary
            _save_checkpoint(run, each, config, place)
    kind = type(config).__name__.removesuffix("Config")
    own = f"; the target's tokenizer is in {TARGET_TOKENIZER}"
    own = "" if _one_tokenizer(run.tokenizers) else own
    return f"{folder}: {kind}, step {', '.join(f'{each:,}' for each in steps)}{own}"


def _one_tokenizer(pair: TokenizerPair) -> bool:
    """Return whether source and target are encoded alike."""
    return pair.shared and not pair.source_start


def _save_checkpoint(run: TrainedRun, step: int, config: Any, folder: Path) -> None:
    ours = load_weights(run, step).model
    assert isinstance(ours, Transformer)
    to_model(ours, config).save_pretrained(folder)
    pair, longest = run.tokenizers, run.info.model.max_length
    generation = GenerationConfig(  # greedy, to the end token or the model's longest target
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        num_beams=1,
        do_sample=False,
        max_length=longest + 1,  # the start is counted too
    )
    generation.save_pretrained(folder)
    to_tokenizer(pair.source, longest, start=pair.source_start).save_pretrained(folder)
    if not _one_tokenizer(pair):
        to_tokenizer(pair.target, longest).save_pretrained(folder / TARGET_TOKENIZER)
    (folder / "model.safetensors").chmod(0o644)
    state = {
        "global_step": step,
        "max_steps": run.planned_steps or step,
        "log_history": _log_history(run.metrics(), step),
    }
    write_json(folder / "trainer_state.json", state)


def _log_history(rows: Sequence[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """Rename what was logged up to a step; rows with nothing that the Trainer logs are left out."""
    renamed = (
        {theirs: row[ours] for theirs, ours in LOGGED.items() if ours in row}
        | {"step": row["step"]}
        for row in rows
        if row["step"] <= last
    )
    return [row for row in renamed if len(row) > 1]


def to_config(config: TransformerConfig) -> MarianConfig | PegasusConfig:
    """Make the configuration that computes what our model does; a ValueError if none can."""
    is_pegasus, sizes = config.norm == "pre", (config.source_vocab_size, config.target_vocab_size)
    if config.d_k is not None and config.d_k * config.n_heads != config.d_model:
        raise ValueError(
            f"a head is d_k = {config.d_k} wide, which cannot be converted: in Marian and Pegasus "
            f"all heads together are as wide as the stream, {config.n_heads} heads and d_model = "
            f"{config.d_model} here"
        )
    if is_pegasus and not config.final_norm:
        raise ValueError(
            "norms before the sublayers and none at the end of each stack cannot be converted: "
            "Pegasus, like all families with norms before the sublayers, has one there"
        )
    if not is_pegasus and config.final_norm:
        raise ValueError(
            "norms after the sublayers and others at the end of each stack cannot be converted: "
            "Marian has none there"
        )
    if is_pegasus and sizes[0] != sizes[1]:
        raise ValueError(
            f"norms before the sublayers, with vocabularies of different sizes, {sizes[0]:,} and "
            f"{sizes[1]:,} tokens, cannot be converted: Pegasus has one size for both"
        )
    shared: dict[str, Any] = {
        "vocab_size": config.source_vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        **{f"{stack}_attention_heads": config.n_heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": config.d_ff for stack in ("encoder", "decoder")},
        "activation_function": "relu",
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": config.hidden_dropout,
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": config.max_length,
        "pad_token_id": PAD,
        "unk_token_id": UNK,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    if is_pegasus:
        return PegasusConfig(tie_word_embeddings=config.tied == "all", **shared)
    return MarianConfig(
        decoder_vocab_size=config.target_vocab_size,
        share_encoder_decoder_embeddings=config.tied == "all",
        tie_word_embeddings=config.tied != "none",
        **shared,
    )


def to_model(
    ours: Transformer, config: MarianConfig | PegasusConfig
) -> MarianMTModel | PegasusForConditionalGeneration:
    """Make a Marian or a Pegasus with our weights; biases that ours does not have are zero."""
    kind: Any = PegasusForConditionalGeneration
    if isinstance(config, MarianConfig):
        kind = MarianMTModel
    theirs = kind(config)
    state = {
        name: torch.zeros_like(tensor) if name.endswith("bias") else tensor
        for name, tensor in theirs.state_dict().items()
    }
    given = _renamed(ours.state_dict())
    if "model.shared.weight" in state:  # where nothing is tied, it is there and unused
        given["model.shared.weight"] = given["model.encoder.embed_tokens.weight"]
    theirs.load_state_dict(state | given)
    return theirs.eval()


def _renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name our tensors as Marian and Pegasus do, and put the sines of the stream first."""
    found = {}
    for name, tensor in tensors.items():
        for pattern, replacement in _NAMES:
            name = re.sub(pattern, replacement, name)
        if _READS_STREAM.search(name):
            tensor = torch.cat([tensor[:, 0::2], tensor[:, 1::2]], dim=1)
        elif _WRITES_STREAM.search(name):
            tensor = torch.cat([tensor[0::2], tensor[1::2]])
        elif name == "final_logits_bias":
            tensor = tensor[None]
        found[name] = tensor
    return found


def to_tokenizer(ours: Tokenizer, longest: int, *, start: bool = False) -> PreTrainedTokenizerFast:
    """Make a tokenizer of ``transformers`` that gives the ids of ours, and ``</s>`` at the end.

    As in ours, special tokens typed in a text are ordinary characters. ``longest`` is the most
    tokens that the model takes; ``start`` says whether each text begins with ``<s>``.
    """
    inner = tokenizers.Tokenizer.from_str(ours.to_text())
    inner.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    first, last = SPECIAL_TOKENS[BOS], SPECIAL_TOKENS[EOS]
    before = f"{first} " if start else ""
    inner.post_processor = processors.TemplateProcessing(
        single=f"{before}$A {last}",
        pair=f"{before}$A $B {last}",
        special_tokens=[(first, BOS), (last, EOS)],
    )
    if ours.kind == "bpe":
        steps = [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    else:
        spaces = (decoders.Replace(Regex(pattern), "") for pattern in _UNWRITTEN_SPACES)
        with_spaces = decoders.WordPiece(prefix=" ", cleanup=False)  # no token begins with a space
        steps = [with_spaces, decoders.Fuse(), *spaces]
    inner.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=SPECIAL_TOKENS[PAD],
        unk_token=SPECIAL_TOKENS[UNK],
        bos_token=first,
        eos_token=last,
        model_max_length=longest,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )
