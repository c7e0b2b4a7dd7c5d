"""What is said of the runs that ship is so, as computed from their files, and is said there."""

from __future__ import annotations

import pytest

from benchmarks.claims import __main__ as command
from benchmarks.claims import record
from benchmarks.claims.record import ROOT, Claim, Found, OfCorpora, on_one_line, texts_of
from benchmarks.claims.table import CLAIMS, OF_CORPORA


def named(claim: Claim | OfCorpora) -> str:
    return f"{claim.where}: {claim.words[:40]}"


@pytest.mark.parametrize("claim", CLAIMS, ids=named)
def test_a_claim_holds_and_is_said(claim: Claim) -> None:
    found = claim.find()
    assert found.holds, found.seen
    assert claim.said(found) in texts_of(ROOT / claim.where)


@pytest.mark.parametrize("claim", OF_CORPORA, ids=named)
def test_a_claim_of_other_data_is_said(claim: OfCorpora) -> None:
    assert on_one_line(claim.words) in texts_of(ROOT / claim.where)


def test_what_is_not_so_or_not_said_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = (
        Claim("# Headwise", "README.md", Found),
        Claim("{number} trained models come with it", "README.md", lambda: Found({"number": 3})),
        Claim("# Headwise", "README.md", lambda: Found(holds=False)),
    )
    monkeypatch.setattr(command, "CLAIMS", claims)
    assert command.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["holds", "WRONG", "WRONG"]
    assert "3 trained models come with it" in lines[1]
    assert lines[-1].startswith("1 of 3 claims hold")


def test_texts_of_python_are_those_of_its_strings(tmp_path: record.Path) -> None:
    path = tmp_path / "page.py"
    path.write_text('TEXT = ("Heads that rest " "look so.")  # a comment\n', encoding="utf-8")
    assert texts_of(path) == "Heads that rest look so."
