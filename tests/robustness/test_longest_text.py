"""A text that is too long is refused by its characters, before any tokenizer sees it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.translation import translate
from headwise.model.tokenizer import Tokenizer, TokenizerPair, WordTokenizer
from headwise.model.training.data import Pair, encode_pairs, first_distinct
from headwise.model.training.preparation import rare_words_as_tokens
from headwise.model.translate import TranslateArguments, translate_lines
from headwise.model.validation import LONGEST_TEXT
from headwise.viz_app.measuring.batches import LeftOutCounts, encode_pair
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.views.state import decode

LONG = "a" * (LONGEST_TEXT + 1)
FITS = "The dog"


class Seen(Exception):  # noqa: N818
    """A tokenizer was asked about a text that it must not see."""


class _Native:
    """Stands for the tokenizer of the library, which is asked about short texts only."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.normalizer = SimpleNamespace(normalize_str=self._checked(str))
        self.pre_tokenizer = SimpleNamespace(pre_tokenize_str=self._checked(list))

    def encode(self, text: str, **settings: Any) -> Any:
        self._checked(str)(text)
        return self._inner.encode(text, **settings)

    @staticmethod
    def _checked(then: Callable[[str], Any]) -> Callable[[str], Any]:
        def check(text: str) -> Any:
            if len(text) > LONGEST_TEXT:
                raise Seen
            return then(text)

        return check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def guarded(trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> TrainedRun:
    """The tiny run, whose tokenizers note a text that is too long for them."""
    tokenizers = trained_run.tokenizers
    for side in {tokenizers.source, tokenizers.target}:
        monkeypatch.setattr(side, "_inner", _Native(side._inner))
    return trained_run


DOORS: dict[str, Callable[[TrainedRun, Any], object]] = {
    "sentence": lambda run, model: run_trace(model, run.tokenizers, LONG),
    "forced": lambda run, model: run_trace(model, run.tokenizers, FITS, LONG),
    "python": lambda run, model: translate(model, run.tokenizers, [FITS, LONG]),
    "command": lambda run, model: list(
        translate_lines(
            [FITS, LONG], run, SimpleNamespace(model=model), TranslateArguments(run="x")
        )
    ),
    "unknown": lambda run, model: run.tokenizers.source.unknown(LONG),
    "split": lambda run, model: run.tokenizers.source.split(LONG),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_text_before_it_is_tokenised(guarded: TrainedRun, door: str) -> None:
    model = load_weights(guarded, guarded.steps()[-1]).model
    expected = rf"at most {LONGEST_TEXT:,}.*{len(LONG):,}|{len(LONG):,}.*at most {LONGEST_TEXT:,}"
    with pytest.raises(ValueError, match=expected):
        DOORS[door](guarded, model)


@pytest.mark.parametrize("pair", [Pair(LONG, FITS), Pair(FITS, LONG)], ids=["source", "target"])
def test_pairs_with_such_a_text_are_left_out_and_counted(guarded: TrainedRun, pair: Pair) -> None:
    fits = Pair(FITS, FITS)
    examples = encode_pairs([pair, fits], guarded.tokenizers, max_tokens=10**6)
    assert (examples.pairs, examples.too_long) == ([fits], 1)
    left_out = LeftOutCounts()
    assert encode_pair(0, pair, guarded.tokenizers, max_length=10**6, left_out=left_out) is None
    assert left_out.too_long == 1
    assert first_distinct([pair, fits], 1, max_tokens=10**6) == [fits]


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_a_vocabulary_is_learned_without_them(kind: Any) -> None:
    pairs = [("The dog", "El perro")] * 3
    learned = [
        TokenizerPair.train(each, kind=kind, vocab_sizes=(300, 300), shared=True).source.to_text()
        for each in (pairs, [*pairs, (LONG, "El perro")])
    ]
    assert learned[0] == learned[1]
    tokenizer = {"bpe": Tokenizer, "word": WordTokenizer}[kind].train(["The dog"], 300)
    assert rare_words_as_tokens(tokenizer, [LONG]) == 0


def test_an_address_with_such_a_text_is_not_taken() -> None:
    view, unreadable = decode({"q": [LONG], "target": [FITS]})
    assert (view.sentence, view.target, unreadable) == (None, FITS, {"sentence": [LONG]})
