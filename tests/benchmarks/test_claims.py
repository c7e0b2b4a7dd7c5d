"""What is said of the runs that ship is so, as computed from their files, and is said there."""

from __future__ import annotations

import pytest

from benchmarks.claims import record
from benchmarks.claims.__main__ import ClaimsArguments, main
from benchmarks.claims.of_corpora import OF_CORPORA
from benchmarks.claims.record import ROOT, Claim, Found, OfCorpora, on_one_line, texts_of
from benchmarks.claims.table import CLAIMS


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


def test_the_list_that_is_kept_has_every_claim() -> None:
    """By ``python -m benchmarks.claims``; last digits of what was seen may differ."""
    kept = (ROOT / "benchmarks" / "claims.md").read_text(encoding="utf-8").replace("\\|", "|")
    for claim in CLAIMS:
        said = claim.title or claim.said(claim.find()).strip("| ")
        assert said in kept
        assert f"| `{claim.function}` |" in kept
    assert all(each.words.strip("| ") in kept for each in OF_CORPORA)


def test_what_is_not_so_or_not_said_is_named(
    tmp_path: record.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def three() -> Found:
        return Found({"number": 3})

    def untrue() -> Found:
        return Found(holds=False)

    claims = (
        Claim("`en-es` translates texts of 60 words and more whole", "README.md", Found),
        Claim("{number} trained models come with it", "README.md", three),
        Claim("`en-es` translates texts", "README.md", untrue),
    )
    monkeypatch.setattr("benchmarks.claims.__main__.CLAIMS", claims)
    out = tmp_path / "claims.md"
    assert main(ClaimsArguments(out)) == 1
    said = capsys.readouterr()
    assert "1 of 3 claims hold" in said.out
    assert [line.split(":")[1].split()[0] for line in said.err.splitlines()] == [
        "three()",
        "untrue()",
    ]
    assert "| 3 trained models come with it | `README.md` | `three()` |" in out.read_text()


def test_texts_of_python_are_those_of_its_strings(tmp_path: record.Path) -> None:
    path = tmp_path / "page.py"
    path.write_text('TEXT = ("Heads that rest " "look so.")  # a comment\n', encoding="utf-8")
    assert texts_of(path) == "Heads that rest look so."
