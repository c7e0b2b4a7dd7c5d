"""What is said of the runs that ship is so, as computed from their files, and is said there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.claims import Claim, main, read_claims, texts_of


@pytest.mark.parametrize("claim", read_claims(), ids=lambda claim: f"{claim.where}: {claim.by}")
def test_a_claim_holds_and_is_said(claim: Claim) -> None:
    right, said, found = claim.find()
    assert right, (said, found)


def test_what_is_not_so_or_not_said_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    claims = [
        Claim("README.md", "by hand", "# Headwise"),
        Claim("README.md", "len(SHIPPED) - 1", "{found} trained models come with it"),
        Claim("README.md", "len(SHIPPED) == 3", "# Headwise"),
        Claim("README.md", '{"holds": False}', "# Headwise"),
    ]
    assert main(claims) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["corpus", "WRONG", "WRONG", "WRONG"]
    assert "3 trained models come with it" in lines[1]
    assert lines[-1] == "1 of 4 claims hold"


def test_texts_of_python_are_those_of_its_strings(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text('TEXT = ("Heads that rest " "look so.")  # a comment\n', encoding="utf-8")
    assert texts_of(path) == "Heads that rest look so."
