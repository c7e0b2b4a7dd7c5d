"""Nothing is against any section of any page, on three screens and in both themes."""

from __future__ import annotations

from typing import Literal, get_args

import pytest

from headwise.viz_app.model.choices import Section
from headwise.viz_app.training.choices import Section as TrainingSection
from tests.browser.driver import NewApp
from tests.browser.faults import faults_of

pytestmark = pytest.mark.release

SENTENCE = "We saw three black cats on the white roof."
OTHER = "We saw three black dogs on the white roof."
PLACES: list[tuple[str, dict[str, str]]] = [
    ("/", {"style": "lines", "below": "steps", "sampling": "true", "column": "3"}),
    ("/", {"compare": "true", "below": "beam", "decoding": "beam"}),
    ("/", {"lesson": "rows"}),
    ("/why", {"account": "waterfall"}),
    ("/why", {"why": "two sentences", "other": OTHER}),
    ("/why", {"why": "turn heads"}),
    *(("/why", {"answer": answer}) for answer in ("tokens", "encoder", "words", "training")),
    *(
        ("/inside", {"inside": step})
        for step in ("projections", "scores", "heads", "residual", "feed forward", "score parts")
    ),
    ("/model", {"unfold": "everything", "section": "modules"}),
    *(("/model", {"section": section}) for section in get_args(Section)),
    *(("/training", {"training": section}) for section in get_args(TrainingSection)),
    *(
        ("/heads", {"heads": section, "measure": "entropy"})
        for section in ("atlas", "writes", "feeds", "search", "queries and keys", "off together")
    ),
    *(("/errors", {"errors": section}) for section in ("failing sentences", "pairs")),
    ("/learn", {}),
    ("/training", {"training": "embeddings", "followed": "vocabulary"}),
]
"""Addresses that have every section of every page, and a lesson."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 390])
def test_nothing_is_against_a_page(
    new_app: NewApp, width: int, scheme: Literal["light", "dark"]
) -> None:
    app, found = new_app(viewport={"width": width, "height": 6000}, color_scheme=scheme), {}
    for path, choices in PLACES:
        app.open(path, q=SENTENCE, **choices)
        if against := faults_of(app):
            found[path, *choices.values()] = against
    assert found == {}
