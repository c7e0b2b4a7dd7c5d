"""Addresses and lessons of before go on opening what they showed."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode

import pytest

from headwise.viz_app.moved import moved
from headwise.viz_app.views.state import decode, encode


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("heads?failure=log_probability", "errors?failure=log_probability"),
        ("training?phenomenon=gender&step=20", "errors?phenomenon=gender&step=20"),
        ("training?step=20", "training?step=20&training=curves"),
        ("training?training=play", "training?training=watch&playing=head"),
        ("training?training=play&playing=all", "training?training=watch&playing=all"),
        (
            "training?training=play&phenomenon=x",
            "training?training=watch&phenomenon=x&playing=head",
        ),
        ("model?least=5", "model?least=5&all_pairs=true"),
        ("architecture?q=a", "model?q=a&section=diagram"),
        ("embeddings?q=a", "model?q=a&section=input"),
    ],
)
def test_an_address_of_before_opens_what_it_showed(asked: str, opened: str) -> None:
    page, _, query = asked.partition("?")
    now, found = moved(page, parse_qs(query))
    assert f"{now}?{urlencode(found, doseq=True)}" == opened
    view, unreadable = decode(found)
    assert unreadable == {}
    written = encode(view) | ({"training": ["curves"]} if now == "training" else {})
    assert moved(now, written) == (now, written)  # what is written of it is of today


@pytest.mark.parametrize(
    "address",
    [
        # As they are written since, where a choice of another page stays in the address.
        "heads?errors=pairs&failure=log_probability",
        "heads?heads=writes&failure=log_probability",
        "errors?failure=log_probability",
        "training?training=watch&phenomenon=gender",
        "?failure=log_probability",
    ],
)
def test_an_address_of_today_stays(address: str) -> None:
    page, _, query = address.partition("?")
    asked = parse_qs(query)
    assert moved(page, asked) == (page, asked)
