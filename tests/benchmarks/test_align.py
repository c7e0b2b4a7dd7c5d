"""The parts of ``benchmarks/align.py`` that need no aligner."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from model.tokenizer import Tokenizer, WordTokenizer

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "align.py"
TEXT = "Where  is Zoë's  dog?"


@pytest.fixture(scope="module")
def align() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_align", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def test_words_are_those_of_the_tokenizer_even_if_it_does_not_know_them(align: ModuleType) -> None:
    pieces = Tokenizer.train(["Where is the dog?"] * 2, 400)
    words = align.words_of(pieces, TEXT)
    assert len(words) == len(pieces.words(pieces.encode(TEXT)))
    assert [word for word in words if word != "␣"] == ["Where", "is", "Zoë", "'", "s", "dog", "?"]
    whole = WordTokenizer.train(["where is 's dog"], 20)
    assert align.words_of(whole, TEXT) == ["where", "is", "Zoë", "'", "s", "dog", "?"]


def test_two_directions_are_put_together(align: ModuleType) -> None:
    """From (0, 0) and (2, 2), which both have, to their neighbours and on to theirs; not to (0, 2),
    whose words are linked by then. Far from all others, the forward link comes first."""
    forward = {(0, 0), (1, 1), (2, 2), (4, 4), (0, 2)}
    backward = {(0, 0), (2, 2), (4, 3), (3, 3)}
    assert align.symmetrise(forward, backward) == {(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (4, 4)}
    assert align.symmetrise({(0, 0), (3, 5)}, {(0, 0), (3, 4)}) == {(0, 0), (3, 5)}
    assert align.symmetrise({(0, 1)}, set()) == {(0, 1)}
