"""A few of the texts that ``python -m tests.robustness.fuzz`` gives by thousands."""

from __future__ import annotations

from collections import Counter

import pytest

from headwise.model.tokenizer import TokenizerKind
from tests.robustness.drawings import DRAWN, check_drawn
from tests.robustness.fuzz import fuzz_texts, tiny_model
from tests.robustness.properties import PARTS, Case, check
from tests.robustness.texts import MARKUP, UNSEEN


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_any_text_is_refused_or_traced(kind: TokenizerKind) -> None:
    """With another seed than the command's, so that both together see more."""
    outcomes = Counter[str]()
    fuzz_texts(
        *tiny_model(kind),
        examples=25,
        seed=7,
        seen=lambda outcome: outcomes.update([outcome]),
    )
    assert set(outcomes) == {"traced", "refused"}


def test_every_part_keeps_markup_as_text() -> None:
    """Each part gets hostile texts in every run, not only where chance brings them."""
    model, tokenizers = tiny_model("bpe")
    worst = [*MARKUP, *UNSEEN]
    tokens = tokenizers.target.vocab_size
    target = (2, *range(tokens - len(MARKUP), tokens), 3)
    for number, part in enumerate(PARTS):
        text = worst[number % len(worst)]
        case = Case(f"a {text}"[:40], target, part=part)
        assert check(case, model, tokenizers) == "traced", part
    for name in DRAWN:
        check_drawn(name, worst)
