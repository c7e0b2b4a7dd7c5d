"""Tokenizers of ``transformers`` that write bytes and the limits of words in different ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertweetTokenizer,
    BlenderbotSmallTokenizer,
    ByT5Tokenizer,
    CLIPTokenizer,
    OpenAIGPTTokenizer,
    PreTrainedTokenizerFast,
)

from headwise.model.spelling import BYTES

_TEXTS = ["the cats ran to the cafés , and the old café hunted them .", "it is 3.5 % of it"] * 9
_LETTERS = [*"abcdefghijklmnopqrstuvwxyzéABCDEF.,!?'%()0123456789"]
_QUIET = {"vocab_size": 140, "show_progress": False}
_MERGES = [("c", "a"), ("ca", "t"), ("t", "h"), ("ca", "f")]


def _trained(inner: Tokenizer, trainer: Any) -> dict[str, Any]:
    inner.train_from_iterator([*_TEXTS, *_LETTERS], trainer)
    trained = json.loads(inner.to_str())["model"]
    return {"vocab": trained["vocab"], "merges": list(map(tuple, trained.get("merges", ())))}


def _byte_fallback(_: Path) -> Any:
    """SentencePiece's byte-pair encoding, as Gemma's and Llama's."""
    before = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner = Tokenizer(models.BPE())
    inner.normalizer = before
    inner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    learned = _trained(
        inner,
        trainers.BpeTrainer(vocab_size=90, special_tokens=["<unk>", *BYTES], show_progress=False),
    )
    bpe = models.BPE(**learned, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    inner = Tokenizer(bpe)
    inner.normalizer = before
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _gpt(_: Path) -> Any:
    inner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings = _QUIET | {"end_of_word_suffix": "</w>", "special_tokens": ["<unk>"]}
    return OpenAIGPTTokenizer(**_trained(inner, trainers.BpeTrainer(**settings)))


def _clip(_: Path) -> Any:
    """Bytes and ends of words at once."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [*_MERGES, ("cat", "s</w>"), ("th", "e</w>")]
    special = ["<|startoftext|>", "<|endoftext|>"]
    merged = [first + second for first, second in merges]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *merged, *special]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=merges)


def _continued(special: list[str]) -> list[str]:
    whole = [*_LETTERS, "the", "cat", "cats"]
    return [*special, *whole, *(f"{letter}@@" for letter in (*_LETTERS, "ca", "cat", "caf", "th"))]


def _blenderbot(folder: Path) -> Any:
    tokens = _continued(["__start__", "__end__", "__unk__", "__null__"])
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    merges = "\n".join(map(" ".join, _MERGES))
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    return BlenderbotSmallTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def _bertweet(folder: Path) -> Any:
    (folder / "vocab.txt").write_text("".join(f"{token} 1\n" for token in _continued([])))
    merges = "".join(f"{first} {second} 1\n" for first, second in _MERGES)
    (folder / "bpe.codes").write_text(merges)
    return BertweetTokenizer(str(folder / "vocab.txt"), str(folder / "bpe.codes"))


def _subword_nmt(_: Path) -> Any:
    """Texts that subword-nmt has divided already, with a vocabulary of their parts."""
    vocabulary = {token: id for id, token in enumerate(_continued(["<unk>"]))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _prefixed(_: Path) -> Any:
    """A byte-pair encoding that marks what goes on with a word, without a decoder."""
    inner = Tokenizer(models.BPE(continuing_subword_prefix="##"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    settings = _QUIET | {"continuing_subword_prefix": "##", "special_tokens": ["<unk>"]}
    bpe = _trained(inner, trainers.BpeTrainer(**settings))
    inner = Tokenizer(models.BPE(**bpe, unk_token="<unk>", continuing_subword_prefix="##"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def _words(_: Path) -> Any:
    inner = Tokenizer(models.WordLevel(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False)
    inner.train_from_iterator(_TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


KINDS: dict[str, Callable[[Path], Any]] = {
    "byte_fallback": _byte_fallback,
    "byt5": lambda _: ByT5Tokenizer(),
    "gpt": _gpt,
    "clip": _clip,
    "blenderbot_small": _blenderbot,
    "bertweet": _bertweet,
    "subword_nmt": _subword_nmt,
    "prefixed": _prefixed,
    "words": _words,
}
"""Functions that make a tokenizer; some write its files into a folder."""
