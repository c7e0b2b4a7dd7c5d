"""A few of the texts that ``python -m benchmarks.fuzz`` gives by thousands."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmarks() -> SimpleNamespace:
    """Modules of ``benchmarks/``, which is no installed package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        from benchmarks import drawings, fuzz, properties, texts

        return SimpleNamespace(drawings=drawings, fuzz=fuzz, properties=properties, texts=texts)


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_any_text_is_refused_clearly_or_traced_truly(
    benchmarks: SimpleNamespace, kind: str
) -> None:
    """With another seed than the command's, so that both together see more."""
    outcomes = Counter[str]()
    benchmarks.fuzz.fuzz_texts(
        benchmarks.fuzz.tiny_speaker(kind),
        examples=40,
        seed=7,
        seen=lambda outcome: outcomes.update([outcome]),
    )
    assert set(outcomes) == {"traced", "refused"}


def test_every_part_keeps_markup_as_text(benchmarks: SimpleNamespace) -> None:
    """Each with the worst of all texts, and not by chance."""
    model, tokenizers = benchmarks.fuzz.tiny_speaker("bpe")
    worst = [*benchmarks.texts.MARKUP, *benchmarks.texts.UNSEEN]
    pieces = tokenizers.target.vocab_size
    target = (2, *range(pieces - len(benchmarks.texts.MARKUP), pieces), 3)
    for number, part in enumerate(benchmarks.properties.PARTS):
        text = worst[number % len(worst)]
        case = benchmarks.properties.Case(f"a {text}"[:40], target, part=part)
        assert benchmarks.properties.check(case, model, tokenizers) == "traced", part
    for name in benchmarks.drawings.DRAWN:
        benchmarks.drawings.check_drawn(name, worst)
