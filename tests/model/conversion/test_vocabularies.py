"""Vocabularies as tutorials save them are read, or refused with the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.model.checkpoint import open_trained_run
from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.conversion.from_torch import convert_from_torch
from headwise.model.conversion.vocabularies import USUAL, SpecialNames, read_vocabularies
from headwise.model.files import CheckpointError
from headwise.model.tokenizer import Tokenizer, WordTokenizer
from tests.model.conversion.tutorials import (
    ENGLISH,
    GERMAN,
    from_torch,
    tutorial_model,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer


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
