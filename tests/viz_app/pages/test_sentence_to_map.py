"""From a typed sentence to the large map, what does not change is asked for once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headwise.model.interface import Description
from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.session import caches
from headwise.viz_app.trace import sentence
from tests.viz_app.pages.conftest import Start

PAGE = "app"


def test_a_typed_sentence_is_encoded_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    page = start()
    counts: Counter[str] = Counter()

    def count(place: Any, name: str, what: str = "") -> None:
        function: Callable[..., Any] = getattr(place, name)

        def counted(*given: Any, **named: Any) -> Any:
            counts[what or name] += 1
            return function(*given, **named)

        monkeypatch.setattr(place, name, counted)

    count(TokenizerPair, "encode_source")
    count(TokenizerPair, "encode_target")
    for place in (sentence, caches):
        count(place, "require_source")
    count(Description, "__init__", "descriptions")
    count(os, "stat")
    page.choose(sentence="Where is the old cat?")
    assert not page.errors
    assert page.charts["large"]
    assert counts["encode_source"] == counts["require_source"] == 1
    assert counts["encode_target"] == 0
    assert counts["descriptions"] <= 1
    assert counts["stat"] <= 70, counts
