"""Damages by which a file of a few bytes, or of many, would take seconds and memory without end."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.lib import format as npy

from headwise.model.config import TransformerConfig, from_dict
from headwise.model.transformer import Transformer
from headwise.model.weights import sha256_of_config
from tests.model.tutorials import tutorial_model
from tests.robustness.tiny_run import STEP

Damage = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """One file of a healthy folder, and what is done to it and perhaps to those beside it."""

    folder: str
    file: str
    damage: Damage


def _written(content: Callable[[], bytes]) -> Damage:
    return lambda path: path.write_bytes(content())


def _changed(**values: Any) -> Damage:
    """Set values of an object; the nested ones as they are named, with two underscores between."""

    def damage(path: Path) -> None:
        whole = json.loads(path.read_text())
        for name, value in values.items():
            *outer, last = name.split("__")
            part = whole
            for key in outer:
                part = part[key]
            part[last] = value
        path.write_text(json.dumps(whole))

    return damage


def _everywhere(value: str) -> Damage:
    """Write this in place of each value of an object, or of that in the first line."""

    def damage(path: Path) -> None:
        text = path.read_text() if path.exists() else '{"a": 1}'
        first = text.partition("\n")[0] if path.suffix == ".jsonl" else text
        names = map(json.dumps, json.loads(first))
        path.write_text("{" + ",".join(f"{name}:{value}" for name in names) + "}")

    return damage


def _sparse(size: int) -> Damage:
    def damage(path: Path) -> None:
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(size)

    return damage


def _repeated(line: bytes, times: int) -> Damage:
    """Append a line some million times."""

    def damage(path: Path) -> None:
        with path.open("ab") as file:
            for _ in range(times // 100_000):
                file.write(line * 100_000)

    return damage


def _many_tensors(count: int) -> bytes:
    tensor = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{i}": tensor for i in range(count)}).encode()
    return len(header).to_bytes(8, "little") + header


def _grown(run_json: Path, **sizes: int) -> None:
    """Make a run of ours consistently larger: its configuration, its weights and its state."""
    values = json.loads(run_json.read_text())
    values["model"] |= sizes
    run_json.write_text(json.dumps(values))
    folder, config = run_json.parent, from_dict(TransformerConfig, values["model"])
    with torch.device("meta"):
        shapes = {name: [*p.shape] for name, p in Transformer(config).named_parameters()}
    about = {"format_version": "1", "run": values["name"], "step": str(STEP), "sha256": "0"}
    about["config_sha256"] = sha256_of_config(config)
    _sparse_tensors(folder / f"step-{STEP:07d}.safetensors", "F16", shapes, about)
    parts = ("weights", "exp_avg", "exp_avg_sq")
    state = {f"{part}/{name}": shape for part in parts for name, shape in shapes.items()}
    _sparse_tensors(folder / f"resume/step-{STEP:07d}/state.safetensors", "F32", state, {})


def _sparse_tensors(
    path: Path, dtype: str, shapes: dict[str, list[int]], about: dict[str, str]
) -> None:
    """Write a file of safetensors whose numbers are all 0, and take no room on the disk."""
    table: dict[str, Any] = {"__metadata__": about}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + math.prod(shape) * int(dtype[1:]) // 8
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(table).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + end)


def _saved(make: Callable[[], Any], *, deflated: bool = False, old: bool = False) -> Damage:
    """Write what ``torch.save`` makes, perhaps compressed, or as before PyTorch 1.6."""

    def damage(path: Path) -> None:
        torch.save(make(), path, _use_new_zipfile_serialization=not old)
        if deflated:
            with zipfile.ZipFile(path) as archive:
                members = [(each.filename, archive.read(each)) for each in archive.infolist()]
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in members:
                    archive.writestr(name, content)

    return damage


def _laughs() -> dict[str, Any]:
    """Mappings of mappings, 2^60 paths through 60 of them."""
    whole: dict[str, Any] = {}
    for _ in range(60):
        whole = {"a": whole, "b": whole}
    return whole


class _Bytes:
    """Is pickled as the call that makes 500 MB of zeros, less than a case's process may have."""

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (5 * 10**8,)


def _bomb(path: Path) -> None:
    """Write a trace's stream as 300 MB of zeros, in 300 KB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        begin = io.BytesIO()
        header = {"descr": "<f4", "fortran_order": False, "shape": (3, 25_000_000)}
        npy.write_array_header_1_0(begin, header)
        archive.writestr("decoder_stream.npy", begin.getvalue() + bytes(300_000_000))


def _added(count: int, text: str = "<x{}>") -> list[dict[str, Any]]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": 1_000 + i, "content": text.format(i)} | plain for i in range(count)]


def _vocabulary(count: int, first: int = 0) -> Damage:
    return _written(lambda: json.dumps({f"<z{i}>": first + i for i in range(count)}).encode())


_LISTS = b"[" + b"[]," * 100_000 + b"[]]"
_OF_JSON: dict[str, Damage] = {
    "100,000 empty lists": _written(lambda: _LISTS),
    "100,000 empty lists as each value": _everywhere(_LISTS.decode()),
    "each value nested 10,000 deep": _everywhere("[" * 10_000 + "]" * 10_000),
    "each value a number of 100,000 digits": _everywhere("9" * 100_000),
    "300,000 unknown keys": _written(
        lambda: json.dumps({f"key {i}": 1 for i in range(300_000)}).encode()
    ),
    "2 million empty lists": _written(lambda: b"[" + b"[]," * 2_000_000 + b"[]]"),
    "a text of 8 MB": _written(lambda: b'{"a":"' + b"a" * 8_000_000 + "😀".encode() + b'"}'),
    "250 MB of nothing": _sparse(250 * 2**20),
}
_MEASURES = f"measures/step-{STEP:07d}"
_JSON_FILES = {
    "bpe": (
        *("run.json", "counts.json", "source.tokenizer.json", "measures/pairs.json"),
        *(f"{_MEASURES}.json", "measures/sentences.jsonl", "alignments.jsonl"),
        f"resume/step-{STEP:07d}/state.json",
    ),
    "t5": (
        *("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"),
        *("trainer_state.json", "special_tokens_map.json", "added_tokens.json"),
    ),
    "bart": ("config.json", "tokenizer.json"),
    "marian_separate": ("vocab.json", "target_vocab.json"),
    "m2m_100": ("vocab.json", "tokenizer_config.json"),
}
_HUGE = 10_000_000
_SIZES: dict[str, tuple[str, ...]] = {
    "t5": (
        *("d_model", "vocab_size", "num_heads", "d_ff", "d_kv", "relative_attention_num_buckets"),
        *("relative_attention_max_distance", "n_positions", "num_labels"),
    ),
    "bart": (
        *("d_model", "vocab_size", "encoder_attention_heads", "encoder_ffn_dim", "num_labels"),
        "decoder_ffn_dim",
    ),
    "marian_separate": ("d_model", "vocab_size", "decoder_vocab_size", "decoder_ffn_dim"),
    "m2m_100": ("d_model", "vocab_size"),
    "bert2bert": ("encoder__hidden_size", "decoder__vocab_size", "encoder__intermediate_size"),
}
_OTHER_SIZES: dict[tuple[str, str], int] = {
    ("t5", "num_layers"): 1_000,
    ("t5", "num_decoder_layers"): 1_000,
    ("bart", "encoder_layers"): 1_000,
    ("bert2bert", "decoder__num_hidden_layers"): 1_000,
    ("bart", "max_position_embeddings"): 200_000,
    ("marian_separate", "max_position_embeddings"): 200_000,
    ("m2m_100", "max_position_embeddings"): 200_000,
    ("bert2bert", "encoder__max_position_embeddings"): 200_000,
}
_PARTS = ("post_processor", "normalizer", "pre_tokenizer", "decoder", "model", "padding")
_A_TOKEN = {"SpecialToken": {"id": "a", "type_id": 0}}
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [_A_TOKEN] * 5_000,
    "pair": [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"],
    "special_tokens": {"a": {"id": "a", "ids": [0] * 5_000, "tokens": ["<unk>"] * 5_000}},
}
_PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None}
_PADDING |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
_OF_TOKENIZERS: dict[str, dict[str, Damage]] = {
    "tokenizer.json": {
        "300,000 added tokens": _changed(added_tokens=_added(300_000)),
        "9,000 added tokens": _changed(added_tokens=_added(9_000)),
        "an added token of 5 MB": _changed(added_tokens=_added(1, "x" * 5_000_000)),
        "25 million tokens around a text": _changed(post_processor=_TEMPLATE),
        "padding to a billion tokens": _changed(padding=_PADDING),
    }
    | {
        f"{count:,} empty lists as {part}": _changed(
            **{part: {"type": "Sequence", "processors": [[]] * count}}
        )
        for part in _PARTS
        for count in (40_000, 1_000_000)
    },
    "tokenizer_config.json": {
        "300,000 added tokens": _changed(
            added_tokens_decoder={str(i): {"content": f"<x{i}>"} for i in range(300_000)}
        ),
        "9,000 added tokens": _changed(
            added_tokens_decoder={str(1_000 + i): {"content": f"<x{i}>"} for i in range(9_000)}
        ),
        "an added token of id 9,999,999": _changed(added_tokens_decoder={"9999999": {}}),
        "300,000 special tokens": _changed(extra_special_tokens=["<y>"] * 300_000),
        "1,900 special tokens": _changed(extra_special_tokens=[f"<y{i}>" for i in range(1_900)]),
        "99,999 extra_ids": _changed(extra_ids=99_999),
        "a million of offset": _changed(offset=1_000_000),
    },
}
_OTHERS: dict[tuple[str, str, str], Damage] = {
    ("bpe", "run.json", "200,000 empty lists as milestones"): _changed(
        training__milestones=[[]] * 200_000
    ),
    ("bpe", "counts.json", "400,000 texts for counts"): _changed(source=["a"] * 400_000),
    ("bpe", "metrics.jsonl", "10 million rows"): _repeated(b'{"step": 3}\n', 10_000_000),
    ("bpe", "samples.jsonl", "10 million rows"): _repeated(b'{"step": 3}\n', 10_000_000),
    ("bpe", "metrics.jsonl", "a line of 200 MB"): _written(lambda: b" " * 200_000_000),
    ("bpe", "metrics.jsonl", "20 GB of nothing"): _sparse(20 * 2**30),
    ("bpe", f"{_MEASURES}.means.safetensors", "200 MB more"): _sparse(200 * 2**20),
    ("bpe", f"measures/neurons-{STEP:07d}.safetensors", "200 MB more"): _sparse(200 * 2**20),
    ("bpe", f"step-{STEP:07d}.safetensors", "15 GB more"): _sparse(15 * 2**30),
    ("bpe", f"step-{STEP:07d}.safetensors", "a million tensors"): _written(
        partial(_many_tensors, 1_000_000)
    ),
    ("bpe", f"resume/step-{STEP:07d}/state.safetensors", "15 GB more"): _sparse(15 * 2**30),
    ("bpe", "run.json", "a consistent model of 48 GB"): partial(
        _grown, d_model=3_000, d_ff=1_000_000
    ),
    ("bpe", "run.json", "a consistent model of 200 MB"): partial(_grown, d_ff=1_000_000),
    ("adapter", "adapter_config.json", "a rank of 100 million"): _changed(r=10**8),
    ("adapter", "adapter_config.json", "by pattern, a rank of 100 million"): _changed(
        rank_pattern={"q": 10**8}
    ),
    ("adapter", "adapter_config.json", "the token 100 million"): _changed(
        trainable_token_indices=[10**8]
    ),
    ("adapter", "adapter_model.safetensors", "15 GB more"): _sparse(15 * 2**30),
    ("tutorial", "model.pt", "a zip of 300 MB in 300 KB"): _saved(
        lambda: {"a": torch.zeros(75 * 10**6)}, deflated=True
    ),
    ("tutorial", "model.pt", "a tensor of 800 MB that fits nowhere"): _saved(
        lambda: tutorial_model().state_dict() | {"a": torch.zeros(2 * 10**8)}
    ),
    ("tutorial", "model.pt", "mappings with 2^60 paths"): _saved(_laughs),
    ("tutorial", "model.pt", "15 GB of nothing"): _sparse(15 * 2**30),
    ("tutorial", "source.txt", "250 MB of nothing"): _sparse(250 * 2**20),
    ("traces", "trace.json", "2 million empty lists"): _written(
        lambda: b"[" + b"[]," * 2_000_000 + b"[]]"
    ),
    ("traces", "trace.json", "20 million numbers"): _written(
        lambda: b'{"encoder_stream":[' + b"0," * 20_000_000 + b"0]}"
    ),
    ("traces", "trace.json", "a text of 200 MB"): _written(
        lambda: b'{"run":"' + b"a" * 200_000_000 + b'"}'
    ),
    ("traces", "trace.json", "200 MB of nothing"): _sparse(200 * 2**20),
    ("traces", "trace.npz", "900 MB of nothing"): _sparse(900 * 2**20),
    ("traces", "trace.npz", "300 MB in 300 KB"): _bomb,
    ("t5", "model.safetensors", "15 GB more"): _sparse(15 * 2**30),
    ("t5", "model.safetensors", "10,000 tensors"): _written(partial(_many_tensors, 10_000)),
    ("t5", "model.safetensors", "a million tensors"): _written(partial(_many_tensors, 1_000_000)),
    ("m2m_100", "added_tokens.json", "300,000 added tokens"): _vocabulary(300_000, first=1_000),
    ("m2m_100", "vocab.json", "500,000 tokens"): _vocabulary(500_000),
    ("m2m_100", "vocab.json", "20,000 tokens"): _vocabulary(20_000),
    ("bert2bert", "vocab.txt", "8 million lines"): _repeated(b"a\n", 8_000_000),
    ("bart", "merges.txt", "8 million lines"): _repeated(b"a b\n", 4_000_000),
    ("m2m_100", "sentencepiece.bpe.model", "8 million tokens"): _written(
        lambda: b"\n\0" * 8_000_000
    ),
    ("m2m_100", "sentencepiece.bpe.model", "500,000 tokens"): _written(
        lambda: b"".join(b"\n\n\n\x08%08d" % i for i in range(500_000))
    ),
}
_PICKLED: dict[str, Callable[[], Any]] = {
    "a view of 4 GB": lambda: torch.ones(1).expand(10**9),
    "500 MB of bytes": _Bytes,
    "3 million numbers": lambda: [*range(3_000_000)],
}
for _name, _make in _PICKLED.items():
    for _before, _old in (("", False), ("before 1.6: ", True)):
        _OTHERS["tutorial", "model.pt", f"{_before}{_name}"] = _saved(
            lambda make=_make: {"a": make()}, old=_old
        )
QUICK = (
    "bpe/run.json: 200,000 empty lists as milestones",
    "bpe/counts.json: 2 million empty lists",
    "bpe/measures/pairs.json: 300,000 unknown keys",
    "bpe/metrics.jsonl: a line of 200 MB",
    "t5/config.json: d_model 10,000,000",
    "t5/config.json: num_heads 10,000,000",
    "t5/config.json: num_layers 1,000",
    "t5/tokenizer.json: 300,000 added tokens",
    "t5/tokenizer.json: 25 million tokens around a text",
    "t5/tokenizer.json: 1,000,000 empty lists as post_processor",
    "t5/tokenizer.json: padding to a billion tokens",
    "t5/model.safetensors: a million tensors",
    "bpe/run.json: a consistent model of 48 GB",
    "tutorial/model.pt: a view of 4 GB",
    "tutorial/model.pt: a zip of 300 MB in 300 KB",
    "tutorial/model.pt: 500 MB of bytes",
    "traces/trace.json: 20 million numbers",
    "traces/trace.npz: 300 MB in 300 KB",
)
"""Those that are tests of each run: one of each way to bound a file (of adapters, in
``tests/model/pretrained/test_adapters.py``)."""


def _cases() -> dict[str, Case]:
    found = {
        f"{folder}/{file}: {name}": Case(folder, file, damage)
        for folder, files in _JSON_FILES.items()
        for file in files
        for name, damage in _OF_JSON.items()
    }
    sizes = {(folder, name): _HUGE for folder, names in _SIZES.items() for name in names}
    for (folder, name), size in (sizes | _OTHER_SIZES).items():
        damage = _changed(**{name: size})
        found[f"{folder}/config.json: {name} {size:,}"] = Case(folder, "config.json", damage)
    tokenizers = [(folder, file) for folder in ("t5", "bart") for file in _OF_TOKENIZERS]
    for folder, file in [*tokenizers, ("m2m_100", "tokenizer_config.json")]:
        for name, damage in _OF_TOKENIZERS[file].items():
            found[f"{folder}/{file}: {name}"] = Case(folder, file, damage)
    for (folder, file, name), damage in _OTHERS.items():
        found[f"{folder}/{file}: {name}"] = Case(folder, file, damage)
    return found


CASES = _cases()
