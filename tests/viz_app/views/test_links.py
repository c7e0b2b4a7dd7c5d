"""A link says which run it is of: another folder never opens another model without a word."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from headwise.viz_app.served import MODELS
from tests.viz_app.views.driver import CATS, Start, choose, errors, every_page, unescaped, widget


def asked(app: AppTest, name: str) -> str:
    """What the address has for a parameter; AppTest has it as a text or as a list of one."""
    value = app.query_params.get(name, "")
    return value if isinstance(value, str) else value[0]


@every_page
def test_the_address_names_a_run_that_nobody_chose(
    start_page: Start, own_root: Path, page: str, address: dict[str, str]
) -> None:
    assert asked(start_page(page, own_root, **address), "run") == "tiny"
    assert asked(start_page(page, own_root, q="", **address), "run") == "tiny"
    (own_root / "tiny" / "run.json").write_text("{")
    app = start_page(page, own_root, **address)
    assert len(errors(app)) == 1
    assert asked(app, "run") == "tiny"


def test_link_and_citation_name_it_too(start_page: Start, own_root: Path) -> None:
    app = start_page("translate", own_root, q=CATS)
    link, citation, bibtex = (code.value for code in app.code)
    assert parse_qs(urlsplit(link).query)["run"] == ["tiny"]
    for text in citation, bibtex:
        assert "run: tiny; " in text
    assert "view: run=tiny&" in citation
    assert r"view: run=tiny\&" in bibtex


def test_a_link_to_a_run_that_is_not_there_says_so(start_page: Start, own_root: Path) -> None:
    before = start_page("translate", own_root, q=CATS)
    link = {name: asked(before, name) for name in before.query_params}
    (own_root / "tiny").rename(own_root / "another")
    app = start_page("translate", own_root, **link)
    (note,) = app.warning
    assert "The address has run=tiny, which cannot be used here. Run: another." in unescaped(
        note.value
    )


def test_two_runs_of_one_name_are_told_apart(
    start_page: Start, own_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one" / "tiny", tmp_path / "two" / "tiny"
    for folder in (one, two):
        shutil.copytree(own_root / "tiny", folder)
    shutil.rmtree(two / "measures", ignore_errors=True)
    (two / "step-0000060.safetensors").unlink()
    monkeypatch.setenv(MODELS, f"tiny\t{one}\ntwo/tiny\t{two}")
    app = start_page("translate", tmp_path / "none")
    assert (asked(app, "run"), asked(app, "step")) == ("tiny", "60")
    choose(app, run="two/tiny")
    assert errors(app) == []
    assert (asked(app, "run"), asked(app, "step")) == ("two/tiny", "20")
    app.run()
    assert widget(app, "run").value == "two/tiny"
    app = start_page("heads", tmp_path / "none", run="two/tiny")
    assert asked(app, "run") == "two/tiny"
