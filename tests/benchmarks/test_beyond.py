"""``benchmarks/beyond.py``: the inputs it makes from a corpus, what it counts, and its table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import beyond
from headwise.model.checkpoint import TrainedRun
from headwise.model.training.data import Pair

NAMES = ["Oyelaran", "Zubiaurre", "Quimper"]
PAIRS = [
    Pair("Tom has 3 dogs.", "Tom tiene 3 perros."),
    Pair("Ana saw Tom.", "Ana vio a Tom."),
    Pair("I bought 25 books.", "Compré 25 libros."),
    Pair("Ana has twelve cats.", "Ana tiene doce gatos."),
    Pair("The cat runs.", "El gato corre."),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer inputs, and none that is too long for a tiny model."""
    monkeypatch.setattr(beyond, "GROUPS", {2: 2})
    monkeypatch.setattr(beyond, "SENTENCES", 3)
    monkeypatch.setattr(beyond, "TEN", ("The dog sleeps.",))


@pytest.fixture
def measure(
    trained_root: Path, tmp_path: Path, datasets_cache: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Measures the tiny run on some pairs, as if it was trained on others; what is printed."""

    def run(pairs: Sequence[Pair], train: Sequence[Pair] = PAIRS) -> str:
        files = {name: str(tmp_path / f"{name}.jsonl") for name in ("data", "train")}
        for name, rows in (("data", pairs), ("train", train)):
            lines = [json.dumps({"en": pair.source, "es": pair.target}) for pair in rows]
            Path(files[name]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        beyond.main(beyond.BeyondArguments(run="tiny", checkpoints=trained_root, **files))
        return capsys.readouterr().out

    return run


def test_sources_are_joined_in_the_order_of_their_first_references() -> None:
    pairs = [Pair(f"s{i}", f"{which}{i}") for i in range(7) for which in ("first", "second")]
    groups = beyond.joined_groups(pairs, 2, 3, seed=0)
    sources = [group.source.split() for group in groups]
    assert [len(group) for group in sources] == [2, 2, 2]
    assert len({source for group in sources for source in group}) == 6
    for group, joined in zip(sources, groups, strict=True):
        assert joined.target == " ".join(f"first{source[1:]}" for source in group)
    assert (
        groups
        == beyond.joined_groups(pairs, 2, 3, seed=0)
        != beyond.joined_groups(pairs, 2, 3, seed=1)
    )


@pytest.mark.parametrize(
    ("source", "others", "near"),
    [
        ("The cat runs.", ["¡THE cát, runs!"], True),
        ("The cat runs.", ["A cat runs.", "no"], True),
        ("The cat runs.", ["The cat runs home."], True),
        ("The cat runs.", ["Cat runs"], True),
        ("The cat runs.", ["The runs cat.", "A cat ran.", "Runs.", "A cat runs home."], False),
        ("a b c", ["b c d"], False),  # one less, and one more
    ],
)
def test_a_source_is_near_but_for_one_word(source: str, others: list[str], near: bool) -> None:
    found = beyond.one_word_away([source, "Nothing like it at all"], others)
    assert found == ({source} if near else set())


def test_names_and_numbers_are_replaced_in_the_source(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = beyond.other_names(PAIRS, NAMES, trained_run, seed=0)
    assert len(found) == 3
    for sentence in found:
        assert not {"Tom", "Ana"} & set(re.findall(r"\w+", sentence.source))
        assert len(sentence.wanted) == (2 if "saw" in sentence.source else 1)
        assert all(wanted in sentence.source for wanted in sentence.wanted)
        assert {word for wanted in sentence.wanted for word in wanted.split()} <= set(NAMES)

    monkeypatch.setattr(beyond, "SENTENCES", 60)
    found = beyond.other_numbers(PAIRS * 40, trained_run, seed=0)
    assert len(found) == 60
    assert all(  # in each language's notation
        sentence.wanted[0].translate(str.maketrans(".,", ",.")) in sentence.source
        for sentence in found
    )
    sizes = {len(sentence.wanted[0].replace(".", "")) for sentence in found}
    assert sizes == {2, 3, 4, 5, 6}
    assert any("." in sentence.wanted[0] for sentence in found)


@pytest.mark.parametrize(
    ("wanted", "translation", "good"),
    [
        (["Quimper"], "Los quimperianos y Quimperville.", 0),
        (["Ana Quimper"], "Ana de Quimper.", 0),
        (["3.500"], "Son 3,500 libros.", 1),
        (["3500"], "Son 3.500.", 1),
        (["3.500"], "Son 13.500.", 0),
        (["Quimper", "12"], "Quimper tiene 21.", 0),
    ],
)
def test_only_whole_words_count_as_kept(wanted: list[str], translation: str, good: int) -> None:
    copied = [beyond.Copied("", wanted), *[beyond.Copied("", ["b"])] * 3]
    assert beyond.kept(copied, [translation, "x", "b", "x"]) == good + 1


def test_the_command_prints_a_table_and_translations(measure: Callable[..., str]) -> None:
    train = [
        Pair("The cat ran.", "Corrió."),
        Pair("Ana, Tom!", "Ve"),
        Pair("Tom!", PAIRS[4].target),
    ]
    lines = measure(PAIRS, train).splitlines()
    assert lines[0] == "tiny, step 8, data.jsonl, greedy"
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    assert [row[0].strip() for row in rows] == [
        "input",
        "as it is, 5 sources, all references",
        "one word from a training source, 2 sources, all references",
        "further from all of them, 3 sources, all references",
        "2 groups of 2 joined, one reference",
        "2 groups of 2 of those further joined, one reference",
        "3 sentences with names in no training text",
        "3 sentences with numbers of 2 to 6 digits",
    ]
    assert re.fullmatch(r" 0\.0 BLEU, length ratio [\d.]+ ", rows[4][1])  # of any resample
    assert rows[6][1] == " 0.0% kept (0.0% to 70.8%) "  # 1 - 0.025^(1/3)
    assert "* The dog sleeps." in lines


def test_names_of_the_training_text_are_not_used(
    measure: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each translation is its source, all names and numbers are kept."""
    seen: list[str] = []

    def translate(model: object, tokenizers: object, texts: Sequence[str]) -> list[str]:
        seen.extend(texts)
        return list(texts)

    monkeypatch.setattr(beyond, "translate", translate)
    monkeypatch.setattr(beyond, "NAMES", " ".join(NAMES))
    printed = measure(PAIRS, [Pair("Where is Quimper?", "¿Dónde está Quimper?")])
    words = {word for text in seen for word in re.findall(r"\w+", text)}
    assert words & set(NAMES) == {"Oyelaran", "Zubiaurre"}
    assert printed.count("| 100.0% kept (29.2% to 100.0%) |") == 2
