"""Word alignments of a corpus; another aligner stands for eflomal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headwise.model.tokenizer import Tokenizer, WordTokenizer
from headwise.viz_app.measuring import align
from headwise.viz_app.measuring.align import AlignArguments, main, symmetrise, words_of
from headwise.viz_app.measuring.alignments import Links, read_alignments

TEXT = "Where  is Zoë's  dog?"


def test_words_are_those_of_the_tokenizer_even_if_unknown() -> None:
    tokens = Tokenizer.train(["Where is the dog?"] * 2, 400)
    words = words_of(tokens, TEXT)
    assert len(words) == len(tokens.words(tokens.encode(TEXT)))
    assert [word for word in words if word != "␣"] == ["Where", "is", "Zoë", "'", "s", "dog", "?"]
    whole = WordTokenizer.train(["where is 's dog"], 20)
    assert words_of(whole, TEXT) == ["where", "is", "Zoë", "'", "s", "dog", "?"]


def test_two_directions_are_combined() -> None:
    """From (0, 0) and (2, 2), which both have, to their neighbours and on to theirs; not to (0, 2),
    whose words are linked by then. Far from all others, the forward link comes first."""
    forward = {(0, 0), (1, 1), (2, 2), (4, 4), (0, 2)}
    backward = {(0, 0), (2, 2), (4, 3), (3, 3)}
    assert symmetrise(forward, backward) == {(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (4, 4)}
    assert symmetrise({(0, 0), (3, 5)}, {(0, 0), (3, 4)}) == {(0, 0), (3, 5)}
    assert symmetrise({(0, 1)}, set()) == {(0, 1)}


def test_without_eflomal_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(ValueError, match=r"eflomal is not installed; pip install .*\[align\]"):
        main(AlignArguments(run="en-es", data="valid.jsonl", checkpoints=tmp_path))


class OneToOne:
    """Stands for the aligner of eflomal: aligns the words of each pair in order."""

    def align(self, source: list[str], target: list[str], *files: str) -> None:
        pairs = zip(source, target, strict=True)
        shortest = [min(len(a.split()), len(b.split())) for a, b in pairs]
        for file in files:
            lines = [" ".join(f"{n}-{n}" for n in range(length)) for length in shortest]
            Path(file).write_text("\n".join(lines) + "\n")


def test_alignments_of_a_corpus_are_written(
    monkeypatch: pytest.MonkeyPatch,
    datasets_cache: Path,
    own_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = ModuleType("eflomal")
    module.Aligner = OneToOne
    monkeypatch.setitem(sys.modules, "eflomal", module)
    monkeypatch.setattr(align, "version", lambda name: "2.0")
    corpora = {"valid": [("The cat", "El gato rojo"), ("", "No")], "train": [("Dog", "Perro")]}
    for name, pairs in corpora.items():
        lines = [json.dumps({"en": source, "es": target}) for source, target in pairs]
        (own_root / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data, train = (str(own_root / f"{name}.jsonl") for name in corpora)
    main(AlignArguments(run="tiny", data=data, train=(train,), checkpoints=own_root))
    found = read_alignments(own_root / "tiny")
    assert found is not None
    assert found.sentences == {0: Links(2, 3, frozenset({(0, 0), (1, 1)}))}
    learnt = "learnt from valid.jsonl (2 pairs) + train.jsonl (1 pairs)"
    assert found.aligner == f"eflomal 2.0, both directions, grow-diag-final-and; {learnt}"
    assert "1 sentences; eflomal 2.0" in capsys.readouterr().out
