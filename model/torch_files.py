"""Read what others saved of a model, state dict and vocabularies, and check it.

No code in a file is run. Special tokens of a vocabulary get the places that they have in ours.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from headwise.model.budget import why_too_large
from headwise.model.files import CheckpointError, lines_of, open_regular, read_bytes, read_json
from headwise.model.layers import sinusoidal_positions
from headwise.model.tokenizer import SPECIAL_TOKENS
from headwise.model.weights import is_finite, require_whole

_MOST_OF_PICKLE = 2**20
"""Bytes of the names, shapes and other values beside tensors in a file of ``torch.save``."""
_MOST_REPEATED = 4
"""How many times the bytes of a file all tensors may have: a tied one is there several times."""
_GROW = (b"bytearray\n", b"encode\n")
"""Functions that PyTorch lets a pickle call, and that make memory without end of a number."""
_NESTED = (
    *("model_state_dict", "model_state", "state_dict", "model", "net", "network", "transformer"),
    *("model_dict", "net_state_dict", "params", "weights", "module"),
)
"""Keys under which a training saves the state dict beside other things, in lower case."""
_MOST_NESTED = 8
"""How deep a state dict may be in other mappings."""
_USUAL_NAMES = {
    "pad": ("<pad>", "<blank>", "[pad]"),
    "unk": ("<unk>", "[unk]"),
    "start": ("<s>", "<bos>", "<sos>"),
    "end": ("</s>", "<eos>"),
}
"""Names by which special tokens are found, in lower case and in the order of our ids."""
_NEVER = -1e4
"""Logit of a token that the other model lacks: its probability is 0 in float32."""


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Map the tensors of a file of ``torch.save``, or of safetensors, without reading them.

    A file that cannot be read, would run code, or has other things than tensors of floating-point
    numbers, or more of them than it has bytes for, is a CheckpointError.
    """
    loaded: Any
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    try:
        if path.suffix == ".safetensors":
            require_whole(path)
            loaded = safetensors.torch.load_file(path)
        else:
            is_zip = zipfile.is_zipfile(path)
            if is_zip:
                _check_zip(path)
            with _BeforeZip(path) as file:
                loaded = torch.load(
                    path if is_zip else file, map_location="cpu", weights_only=True, mmap=is_zip
                )
    except CheckpointError:
        raise
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
    tensors = {}
    for name, value in loaded.items():
        if not isinstance(value, Tensor):
            raise _unusable(path, name, type(value).__name__)
        strided = value.layout is torch.strided
        if not (strided and value.is_floating_point()):
            raise _unusable(path, name, value.dtype if strided else value.layout)
        # What torch.compile puts before the names of a module that was compiled by itself.
        tensors[str(name).replace("._orig_mod.", ".")] = value.detach()
    bytes_of_all = sum(tensor.numel() * tensor.itemsize for tensor in tensors.values())
    if bytes_of_all > _MOST_REPEATED * size:
        raise CheckpointError(
            f"{path}: expected tensors of at most {_MOST_REPEATED} times the {size:,} bytes of "
            f"the file, got {bytes_of_all:,}: views of less than they show; save them with .clone()"
        )
    return tensors


def _check_zip(path: Path) -> None:
    """Refuse, before PyTorch opens it, a file that is no zip of ``torch.save``, or grows."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise CheckpointError(
                    f"{path}: expected a zip whose files are stored, as torch.save writes it, got "
                    f"{member.filename!r:.60} compressed; write it by torch.save(state, FILE)"
                )
            if not member.filename.endswith(".pkl"):
                continue
            if member.file_size > _MOST_OF_PICKLE:
                raise CheckpointError(
                    f"{path}: expected at most {_MOST_OF_PICKLE:,} bytes of names and values "
                    f"beside tensors, got {member.file_size:,}; leave all but the state dict out"
                )
            content = archive.read(member)
            if any(b"\n" + function in content for function in _GROW):
                raise CheckpointError(
                    f"{path}: expected a file with tensors only, got one that makes bytes; leave "
                    "all but the state dict out"
                )


class _BeforeZip(io.BufferedReader):
    """A file of PyTorch before 1.6, whose pickle is bounded while read; storages are read apart."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._left = _MOST_OF_PICKLE

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file, some number of times and bytes."""
        size = _MOST_OF_PICKLE if size is None or size < 0 else size
        self._left -= max(1, size)
        if self._left < 0:
            raise ValueError("too many values beside tensors")
        return super().read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line, which is the name of a function."""
        line = super().readline(1_000)
        self._left -= len(line)
        if line in _GROW:
            raise ValueError("it makes bytes")
        return line


def _unwrapped(path: Path, loaded: Any, depth: int = 0) -> Any:
    """Return what a file holds, or the state dict that is in it beside other things."""
    is_nested = depth < _MOST_NESTED and _has_tensors(loaded, {})
    found = {k: v for k, v in loaded.items() if _has_tensors(v, {})} if is_nested else {}
    usual = [key for key in found if key.lower() in _NESTED]
    if len(found) > 1 and len(usual) != 1:
        raise CheckpointError(
            f"{path}: expected one state dict, got several, under the keys "
            f"{', '.join(map(repr, found))}; write that of the model by "
            "torch.save(torch.load(FILE)[KEY], OTHER_FILE)"
        )
    return _unwrapped(path, found[(usual or list(found))[0]], depth + 1) if found else loaded


def _has_tensors(value: Any, known: dict[int, bool]) -> bool:
    """Return whether a mapping leads from names to tensors; ``known`` are those met already."""
    if not isinstance(value, Mapping) or id(value) in known:
        return known.get(id(value), False)
    known[id(value)] = False
    known[id(value)] = all(isinstance(key, str) for key in value) and any(
        isinstance(each, Tensor) or _has_tensors(each, known) for each in value.values()
    )
    return known[id(value)]


def as_float32(path: Path, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as float32; a CheckpointError if one is not finite, or memory has no room."""
    if told := why_too_large(3 * sum(4 * tensor.numel() for tensor in state.values())):
        raise CheckpointError(f"{path}: {told}")
    for name, tensor in state.items():
        if not is_finite(tensor):
            raise _unusable(path, name, "others: the training diverged")
    return {name: tensor.float() for name, tensor in state.items()}


def _unusable(path: Path, name: object, got: object) -> CheckpointError:
    return CheckpointError(
        f"{path}: {name}: expected a tensor of finite floating-point numbers, got {got}; leave it "
        "out of the file if the model does not need it"
    )


@dataclass(frozen=True)
class Parts:
    """The names of three matrices in the file, where their names do not tell what they are."""

    source_embedding: str = ""
    """Embedding of source tokens."""
    target_embedding: str = ""
    """Embedding of target tokens."""
    generator: str = ""
    """Weights of the linear layer to the target vocabulary."""


FOUND_BY_NAME = Parts()


def find_parts(path: Path, state: Mapping[str, Tensor], given: Parts) -> Parts:
    """Find embeddings and generator outside the stacks by their names, unless they are given."""
    matrices = [n for n in state if state[n].dim() == 2 and not re.search(r"(?i)pos|\bpe\b", n)]
    embeddings = [name for name in matrices if re.search("(?i)emb|lut|tok", name)]
    sources = [name for name in embeddings if re.search("(?i)src|source|enc", name)]
    targets = [name for name in embeddings if re.search("(?i)tgt|trg|target|dec", name)]
    if not sources and not targets:  # one for both languages
        sources = targets = embeddings
    outputs = [name for name in matrices if name not in embeddings]

    by_name = {"source_embedding": sources, "target_embedding": targets, "generator": outputs}
    names = {}
    for part, candidates in by_name.items():
        found = [chosen] if (chosen := getattr(given, part)) else candidates
        if len(found) != 1 or found[0] not in state or state[found[0]].dim() != 2:
            option = part.replace("_", "-")
            raise CheckpointError(
                f"{path}: {option}: expected one matrix (V, D), got {', '.join(found) or 'none'}; "
                f"name it by --{option}; there are {', '.join(matrices) or 'none'}"
            )
        names[part] = found[0]
    return Parts(**names)


def positions_in(state: Mapping[str, Tensor], d_model: int) -> dict[str, int]:
    """Return the tables of sinusoidal positions and how many positions each has."""

    def are_sinusoids(rows: Tensor) -> bool:
        expected = sinusoidal_positions(len(rows), d_model)
        # (float32 computes the angles of late positions this far apart.)
        return torch.allclose(rows.float(), expected, rtol=0, atol=2e-3)

    return {
        name: table.numel() // d_model
        for name, table in state.items()
        if d_model % 2 == 0
        and table.shape[-1:] == (d_model,)
        and 0 < table.numel() == d_model * max(table.shape[:-1], default=0)
        and are_sinusoids((rows := table.reshape(-1, d_model))[:2])  # the others, too, only then
        and are_sinusoids(rows)
    }


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
        return [name for name, row in zip(SPECIAL_TOKENS, self.rows, strict=False) if row == -1]

    @property
    def size(self) -> int:
        """The number of tokens in the other model."""
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
    """Read both vocabularies, whose tokens are in the order of their ids.

    One that cannot be read, has a token twice or an empty one, or special tokens that cannot be
    told, is a CheckpointError.
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
    """Read a .json with a list of tokens, or with the id of each; or a text with a token a line."""
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
