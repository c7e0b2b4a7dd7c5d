"""Every file of a tokenizer × every kind of damage: the message names the file."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from headwise.model.files import CheckpointError
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.pretrained.tokenizer_files import panics_as_errors
from headwise.model.pretrained.tokenizers import PretrainedVocabulary, load_tokenizer
from tests.model.pretrained.tiny import MakeFolder, change_json

FILES = [
    *(("marian_separate", name) for name in ("config.json", "tokenizer_config.json")),
    *(("marian_separate", name) for name in ("vocab.json", "target_vocab.json")),
    *(("marian_separate", name) for name in ("source.spm", "target.spm")),
    *(("m2m_100", name) for name in ("vocab.json", "sentencepiece.bpe.model")),
    ("t5", "tokenizer.json"),
    ("bart", "tokenizer.json"),
    ("bart", "tokenizer_config.json"),
]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda _: b"\xff\xfe{}",
    "null": lambda _: b"null",
    "a list": lambda _: b"[1, 2]",
    "a number": lambda _: b"7",
    "nested": lambda _: b"[" * 100_000,
}
SETTINGS = {
    "extra_special_tokens": 3,
    "additional_special_tokens": {"a": 1},
    "added_tokens_decoder": {"x": {"content": "a"}},
    "unk_token": 5,
    "eos_token": ["</s>"],
    "model_max_length": "many",
    "separate_vocabs": "yes",
    "tokenizer_class": {"a": 1},
}
IDS: dict[str, object] = {
    "no tokens": {},
    "negative": {"a": -1},
    "twice": {"a": 1, "b": 1},
    "text": {"a": "1"},
    "huge": {"a": 10**12},
}


def refused(folder: Path, file: str) -> str:
    """Return the message with which a folder's tokenizer is refused; it names only this file."""
    with pytest.raises(CheckpointError) as error:
        load_tokenizer(folder, 1_000)
    message = str(error.value)
    assert message.startswith(f"{folder / file}: ")
    return message.removeprefix(f"{folder / file}: ")


@pytest.mark.parametrize(("model", "file"), FILES)
def test_a_damaged_file_is_named(
    make_folder: MakeFolder, tmp_path: Path, model: str, file: str
) -> None:
    folder = shutil.copytree(make_folder(model), tmp_path / model)
    content = (folder / file).read_bytes()
    for name, damage in DAMAGE.items():
        if file.endswith((".spm", ".model")) and name == "cut off":
            continue  # a part of a model of SentencePiece can be one
        (folder / file).write_bytes(damage(content))
        assert re.search("expected|not |No |EOF|Invalid", refused(folder, file)), name
    (folder / file).write_bytes(content)
    load_tokenizer(folder, 1_000)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_separators_are_tokens_of_a_vocabulary(tmp_path: Path, end: str) -> None:
    special, words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["the", "x\x85y", "a", "b"]
    lines = [*special, "\u2028", "\x85", *words]  # of both, the library makes the empty token
    (tmp_path / "vocab.txt").write_bytes("".join(f"{line}{end}" for line in lines).encode())
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    found = load_tokenizer(tmp_path, 1_000)
    assert found.encode("the a b", add_special_tokens=False) == [7, 9, 10]
    vocabulary = PretrainedVocabulary(
        found, threading.Lock(), languages={}, is_target=False, size=len(lines)
    )
    assert vocabulary.tokens(range(7, 11)) == [f" {word}" for word in words]
    with (tmp_path / "vocab.txt").open("a") as file:
        file.write("the\n")
    assert "a token in each line, got some twice" in refused(tmp_path, "vocab.txt")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_another_type_is_named(
    make_folder: MakeFolder, tmp_path: Path, setting: str
) -> None:
    folder = shutil.copytree(make_folder("marian"), tmp_path / "marian")
    change_json(folder / "tokenizer_config.json", **{setting: SETTINGS[setting]})
    assert refused(folder, "tokenizer_config.json").startswith(setting)


@pytest.mark.parametrize("ids", IDS)
def test_ids_that_cannot_be_are_named(make_folder: MakeFolder, tmp_path: Path, ids: str) -> None:
    folder = shutil.copytree(make_folder("m2m_100"), tmp_path / "m2m")
    (folder / "vocab.json").write_text(json.dumps(IDS[ids]))
    assert "expected" in refused(folder, "vocab.json")


def test_a_pattern_that_is_tried_in_too_many_ways_is_refused_with_the_text() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+b"), "isolated")
    with pytest.raises(ValueError, match=r"gave up on this text .*retry-limit"), panics_as_errors():
        tokenizer.encode("a" * 40)
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt


def test_a_training_whose_configuration_is_broken_says_that(training: Path) -> None:
    path = training / "checkpoint-100" / "config.json"
    path.write_text("{")
    run = PretrainedRun(training, "out")
    for part in ("description", "tokenizers"):
        with pytest.raises(CheckpointError, match=re.escape(f"{path}: not JSON")):
            getattr(run, part)
