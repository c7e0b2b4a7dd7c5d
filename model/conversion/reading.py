"""Read what others saved of a model, state dict and vocabularies, and check it.

No code in a file is run. Special tokens of a vocabulary get the places that they have in ours.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from headwise.model.files import CheckpointError, lines_of, read_bytes, read_json
from headwise.model.tokenizer import SPECIAL_TOKENS, WordTokenizer

_MOST_BYTES = 16 * 2**30
"""Most bytes of a file of weights that is converted."""
_NESTED = (
    *("model_state_dict", "model_state", "state_dict", "model", "net", "network", "transformer"),
    *("model_dict", "net_state_dict", "params", "weights", "module"),
)
"""Keys under which a training saves the state dict beside other things, in lower case."""
_USUAL_NAMES = {
    "pad": ("<pad>", "<blank>", "[pad]"),
    "unk": ("<unk>", "[unk]"),
    "start": ("<s>", "<bos>", "<sos>"),
    "end": ("</s>", "<eos>"),
}
"""Names by which special tokens are found, in lower case and in the order of our ids."""
_NEVER = -1e4
"""Logit of a token that the other model lacks: its probability is 0 in float32."""


# --- the state dict ------------------------------------------------------------------------------


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file written by ``torch.save``, or of safetensors, as float32.

    Raises:
        CheckpointError: if it cannot be read, would run code, or has other things than tensors of
            finite numbers.
    """
    content = read_bytes(path, most=_MOST_BYTES)
    loaded: Any
    try:
        if path.suffix == ".safetensors":
            loaded = safetensors.torch.load(content)
        else:
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise almost anything
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))
        got = f"one with {refused[1]}" if refused else "another or a damaged file"
        raise CheckpointError(
            f"{path}: expected a file with tensors only, got {got}; code in it is not run: write "
            "the file by torch.save(model.state_dict(), FILE), or as safetensors"
        ) from error
    loaded = _unwrapped(path, loaded)
    if not isinstance(loaded, Mapping) or not loaded:
        raise CheckpointError(
            f"{path}: expected a state dict, got {type(loaded).__name__}; write it by "
            "torch.save(model.state_dict(), FILE)"
        )
    return {
        # What torch.compile puts before the names of a module that was compiled by itself.
        str(name).replace("._orig_mod.", "."): _checked(path, name, value)
        for name, value in loaded.items()
    }


def _unwrapped(path: Path, loaded: Any) -> Any:
    """Return what a file holds, or the state dict that is in it beside other things."""
    found = {k: v for k, v in loaded.items() if _has_tensors(v)} if _has_tensors(loaded) else {}
    usual = [key for key in found if key.lower() in _NESTED]
    if len(found) > 1 and len(usual) != 1:
        raise CheckpointError(
            f"{path}: expected one state dict, got several, under the keys "
            f"{', '.join(map(repr, found))}; write that of the model by "
            "torch.save(torch.load(FILE)[KEY], OTHER_FILE)"
        )
    return _unwrapped(path, found[(usual or list(found))[0]]) if found else loaded


def _has_tensors(value: Any) -> bool:
    """Return whether a value maps names to tensors, or to what does; an optimiser's has numbers."""
    return (
        isinstance(value, Mapping)
        and all(isinstance(key, str) for key in value)
        and any(isinstance(each, Tensor) or _has_tensors(each) for each in value.values())
    )


def _checked(path: Path, name: object, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        got = type(value).__name__
    elif not value.is_floating_point() or value.layout is not torch.strided:
        got = str(value.dtype if value.layout is torch.strided else value.layout)
    elif value.isfinite().all():
        return value.detach().float()
    else:
        got = "others: the training diverged"
    raise CheckpointError(
        f"{path}: {name}: expected a tensor of finite floating-point numbers, got {got}; leave it "
        "out of the file if the model does not need it"
    )


def check_tensors(
    path: Path, state: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise ``CheckpointError`` unless a state dict has exactly the tensors of these shapes."""
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    if odd := [name for name in {**shapes, **found} if shapes.get(name) != found.get(name)]:
        listed = "; ".join(
            f"{name}: expected {shapes.get(name, 'no such tensor')}, got {found.get(name, 'none')}"
            for name in odd[:3]
        )
        raise CheckpointError(
            f"{path}: tensors that do not fit the model, {len(odd)} in all: {listed}; positions "
            "can only be the sinusoids of the paper, sine and cosine in turn"
        )


# --- vocabularies --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpecialNames:
    """Names of special tokens that are not among the usual ones, in either vocabulary."""

    pad: str | None = None
    """Padding; usual names are <pad>, <blank> and [PAD]."""
    unk: str | None = None
    """Stands for unknown words; usual names are <unk> and [UNK]."""
    start: str | None = None
    """Begins sources and targets; usual names are <s>, <bos> and <sos>."""
    end: str | None = None
    """Ends sources and targets; usual names are </s> and <eos>."""


USUAL = SpecialNames()


@dataclass(frozen=True)
class ConvertedVocabulary:
    """Ordinary tokens in our order, and where each of our ids was in the other model."""

    path: Path = field(compare=False)
    words: tuple[str, ...]
    """The tokens of the ids from 4 on."""
    rows: tuple[int, ...]
    """The id in the other model for each of ours; -1 for a special token that it lacks."""

    @property
    def lacking(self) -> list[str]:
        """List the special tokens that the other model lacks."""
        return [name for name, row in zip(SPECIAL_TOKENS, self.rows, strict=False) if row == -1]

    @property
    def size(self) -> int:
        """Return the number of tokens in the other model."""
        return len(self.rows) - len(self.lacking)

    def reorder(self, tensor: Tensor) -> Tensor:
        """Put an embedding (V, D) or a bias (V,) into our order.

        A token that the other model lacks is embedded as zeros, and never predicted.
        """
        lacking = tensor.new_full((1, *tensor.shape[1:]), _NEVER if tensor.dim() == 1 else 0.0)
        return torch.cat([tensor, lacking])[list(self.rows)]


def read_vocabularies(
    source: Path, target: Path, special: SpecialNames
) -> tuple[ConvertedVocabulary, ConvertedVocabulary]:
    """Read the vocabularies of source and target, whose tokens are in the order of their ids.

    A file whose name ends with .json has a list of tokens, or an object with the id of each; other
    files are text in UTF-8, a token a line.

    Raises:
        CheckpointError: if one cannot be read, a token is there twice or empty, or the special
            tokens cannot be told.
    """
    read = [_tokens(path) for path in (source, target)]
    for kind, name in vars(special).items():
        if name is not None and all(name not in tokens for tokens in read):
            raise CheckpointError(
                f"{source} and {target}: there is no {name!r}, which --{kind} names"
            )
    return _convert(source, read[0], special), _convert(target, read[1], special)


def _convert(path: Path, tokens: list[str], special: SpecialNames) -> ConvertedVocabulary:
    """Find the special tokens and put them first."""
    if twice := [token for token, count in Counter(tokens).items() if count > 1]:
        raise CheckpointError(
            f"{path}: expected each token once, got {twice[0]!r} {tokens.count(twice[0])} times; "
            "the place of a token must be its id in the model"
        )
    rows = []
    for kind, usual in _USUAL_NAMES.items():
        name = getattr(special, kind)
        found = [name] if name in tokens else [token for token in tokens if token.lower() in usual]
        if len(found) > 1:
            raise CheckpointError(f"{path}: got both {' and '.join(found)}; say which by --{kind}")
        rows.append(tokens.index(found[0]) if found else -1)
    others = [row for row in range(len(tokens)) if row not in rows]
    words = tuple(tokens[row] for row in others)
    twice = [tokens[row] for row in rows if row != -1 and rows.count(row) > 1]
    if odd := [*twice, *(word for word in words if word in SPECIAL_TOKENS)]:
        raise CheckpointError(
            f"{path}: expected four different special tokens, got {odd[0]!r} beside another of its "
            "meaning; name them by --pad, --unk, --start and --end, or rename it in the file"
        )
    return ConvertedVocabulary(path, words, (*rows, *others))


def _tokens(path: Path) -> list[str]:
    """Read the tokens of a vocabulary in the order of their ids."""
    if path.suffix == ".json":
        tokens = given = read_json(path)
        if isinstance(given, dict):
            by_id = {id: token for token, id in given.items() if type(id) is int}
            tokens = [by_id.get(id) for id in range(len(given))]
        if not isinstance(tokens, list) or not all(type(token) is str for token in tokens):
            raise CheckpointError(
                f"{path}: expected a list of tokens, or an object with the ids of tokens, 0, 1, 2 "
                f"and so on; got {given!r:.40}"
            )
        return tokens
    try:
        tokens = lines_of(read_bytes(path))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: expected text in UTF-8 ({error}); convert it") from error
    if "" in tokens:
        raise CheckpointError(
            f"{path}, line {tokens.index('') + 1}: expected a token, got an empty line; a "
            "vocabulary with such tokens can be given as JSON"
        )
    return tokens


def untypable(tokenizer: WordTokenizer) -> list[str]:
    """List the words that no text is encoded as, such as "T-shirt", split at its hyphen."""
    first = len(SPECIAL_TOKENS)
    words = tokenizer.tokens(range(first, tokenizer.vocab_size))
    return [word for id, word in enumerate(words, start=first) if tokenizer.encode(word) != [id]]
