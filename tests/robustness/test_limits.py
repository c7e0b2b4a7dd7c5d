"""Files and texts that are too large, or are none, are refused in time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwise.model.checkpoint import CheckpointError, TrainedRun, load_weights, open_trained_run
from headwise.model.decoding.translation import translate
from headwise.model.tokenizer import Tokenizer, TokenizerPair, WordTokenizer
from headwise.model.training.data import Pair, encode_pairs, first_distinct
from headwise.model.training.preparation import rare_words_as_tokens
from headwise.model.translate import TranslateArguments, translate_lines
from headwise.model.validation import LONGEST_TEXT
from headwise.viz_app.core.batches import LeftOutCounts, encode_pair
from headwise.viz_app.lessons.reading import LessonError, read_lesson
from headwise.viz_app.session.state import decode
from headwise.viz_app.trace.saved import read_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.imports import ROOT
from tests.robustness.damages import CASES, QUICK
from tests.robustness.limits import holds
from tests.robustness.read_run import read_run
from tests.robustness.test_corrupted_files import KINDS, limited
from tests.robustness.tiny_run import make_run


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux counts peaks")
def test_a_file_is_refused_within_2_s_and_200_mb_or_opens() -> None:
    command = [sys.executable, "-m", "tests.robustness.limits", "--only", *QUICK]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith(f"{len(QUICK)} cases, 0 not held\n")


def test_too_slow_too_large_dead_and_crashed_are_failures() -> None:
    assert {*QUICK} <= {*CASES}
    assert holds(1.9, 199, "refused: x")
    assert holds(9, 999, "opens")
    for ended in ((2.1, 1, "refused: x"), (1, 201, "refused: x"), (0, 0, "died (-6)")):
        assert not holds(*ended)
    assert not holds(1, 1, "failed: MemoryError: ")


FILES = sorted({kind.file for kind in KINDS.values() if kind.run == "bpe"})
_SECRET = "what visitors must not see"


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 * 2**30)


def _elsewhere(path: Path) -> None:
    """Lead to a file beside the run, of which all else could be right."""
    secret = Path(f"{path}.secret")
    secret.write_text(_SECRET)
    outside = next(each for each in path.parents if (each / "run").exists())
    path.symlink_to(secret.rename(outside / "secret"))


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": _sparse,
    "elsewhere": _elsewhere,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny run, ``bpe``; each test puts back what it changes."""
    folder: Path = tmp_path_factory.mktemp("root")
    (folder / "run").touch()
    make_run(folder / "runs", "bpe")
    return folder


@pytest.fixture
def replaced(root: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file of the run, moved away for the time of the test."""
    path: Path = root / "runs" / "bpe" / request.param
    kept = path.rename(root / "kept")
    yield path
    path.unlink()
    kept.rename(path)


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("replaced", FILES, indirect=True, ids=str)
def test_what_is_no_file_is_refused_at_once(replaced: Path, root: Path, strange: str) -> None:
    STRANGE[strange](replaced)
    with limited():
        found = read_run(root / "runs", "bpe", translating=False)
        if replaced.suffix == ".safetensors" and replaced.parent.name == "bpe":  # weights
            with pytest.raises(CheckpointError, match=replaced.name):
                open_trained_run("bpe", root=root / "runs").load(20)
            return
    assert CheckpointError in found.values()
    assert _SECRET[:10] not in str(found)


@pytest.mark.parametrize("strange", ["pipe", "device", "sparse"])
def test_lessons_and_saved_traces_are_files(tmp_path: Path, strange: str) -> None:
    for name, read in (("a.md", read_lesson), ("a.npz", read_trace), ("a.json", read_trace)):
        STRANGE[strange](tmp_path / name)
        with limited(), pytest.raises((LessonError, ValueError), match=name):
            read(tmp_path / name)


LONG = "a" * (LONGEST_TEXT + 1)
FITS = "The dog"


class Seen(Exception):  # noqa: N818
    """A tokenizer was asked about a text that it must not see."""


class _Native:
    """Stands for the tokenizer of the library, which is asked about short texts only."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.normalizer = SimpleNamespace(normalize_str=self._checked(str))
        self.pre_tokenizer = SimpleNamespace(pre_tokenize_str=self._checked(list))

    def encode(self, text: str, **settings: Any) -> Any:
        self._checked(str)(text)
        return self._inner.encode(text, **settings)

    @staticmethod
    def _checked(then: Callable[[str], Any]) -> Callable[[str], Any]:
        def check(text: str) -> Any:
            if len(text) > LONGEST_TEXT:
                raise Seen
            return then(text)

        return check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def guarded(trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> TrainedRun:
    """The tiny run, whose tokenizers note a text that is too long for them."""
    tokenizers = trained_run.tokenizers
    for side in {tokenizers.source, tokenizers.target}:
        monkeypatch.setattr(side, "_inner", _Native(side._inner))
    return trained_run


DOORS: dict[str, Callable[[TrainedRun, Any], object]] = {
    "sentence": lambda run, model: run_trace(model, run.tokenizers, LONG),
    "forced": lambda run, model: run_trace(model, run.tokenizers, FITS, LONG),
    "python": lambda run, model: translate(model, run.tokenizers, [FITS, LONG]),
    "command": lambda run, model: list(
        translate_lines(
            [FITS, LONG], run, SimpleNamespace(model=model), TranslateArguments(run="x")
        )
    ),
    "unknown": lambda run, model: run.tokenizers.source.unknown(LONG),
    "split": lambda run, model: run.tokenizers.source.split(LONG),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_text_before_it_is_tokenised(guarded: TrainedRun, door: str) -> None:
    model = load_weights(guarded, guarded.steps()[-1]).model
    expected = rf"at most {LONGEST_TEXT:,}.*{len(LONG):,}|{len(LONG):,}.*at most {LONGEST_TEXT:,}"
    with pytest.raises(ValueError, match=expected):
        DOORS[door](guarded, model)


@pytest.mark.parametrize("pair", [Pair(LONG, FITS), Pair(FITS, LONG)], ids=["source", "target"])
def test_pairs_with_such_a_text_are_left_out_and_counted(guarded: TrainedRun, pair: Pair) -> None:
    fits = Pair(FITS, FITS)
    examples = encode_pairs([pair, fits], guarded.tokenizers, max_tokens=10**6)
    assert (examples.pairs, examples.too_long) == ([fits], 1)
    left_out = LeftOutCounts()
    assert encode_pair(0, pair, guarded.tokenizers, max_length=10**6, left_out=left_out) is None
    assert left_out.too_long == 1
    assert first_distinct([pair, fits], 1, max_tokens=10**6) == [fits]


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_a_vocabulary_is_learned_without_them(kind: Any) -> None:
    pairs = [("The dog", "El perro")] * 3
    learned = [
        TokenizerPair.train(each, kind=kind, vocab_sizes=(300, 300), shared=True).source.to_text()
        for each in (pairs, [*pairs, (LONG, "El perro")])
    ]
    assert learned[0] == learned[1]
    tokenizer = {"bpe": Tokenizer, "word": WordTokenizer}[kind].train(["The dog"], 300)
    assert rare_words_as_tokens(tokenizer, [LONG]) == 0


def test_an_address_with_such_a_text_is_not_taken() -> None:
    view, unreadable = decode({"q": [LONG], "target": [FITS]})
    assert (view.sentence, view.target, unreadable) == (None, FITS, {"sentence": [LONG]})
