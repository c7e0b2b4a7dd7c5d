"""A tiny run that knows six sentences, and traces of its model: L = 2, H = 3, K = 5, D = 14."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.config import DataSource, TransformerConfig
from headwise.model.files import append_log
from headwise.model.masks import PADDING, pad
from headwise.model.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme
from headwise.viz_app.records.trace import Tokens, Trace, Word
from headwise.viz_app.trace.sentence import run_trace
from tests.commands import run_module
from tests.tiny import write_run

ENGLISH = (
    "The old man gave the little girl a red apple.",
    "Don't worry, it's only the cat.",
    "The cats don't see the dog.",
    "Where is the old dog?",
    "She gave him a book.",
    "We don't know where he is.",
)
SPANISH = (
    "El viejo le dio una manzana roja a la niña.",
    "No te preocupes, es solo el gato.",
    "Los gatos no ven al perro.",
    "¿Dónde está el perro viejo?",
    "Ella le dio un libro.",
    "No sabemos dónde está.",
)
MILESTONES = (0, 20, 60)


@pytest.fixture(scope="session", autouse=True)
def checked_figures() -> Iterator[None]:
    """Have Plotly check each property of each figure that a test makes or a page draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwise.viz_app.figures.theme.CHECKED", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_browser() -> Iterator[None]:
    """Pages need not wait for a browser to draw: there is none.

    Nor does a thread drop what is kept since nobody is connected, whichever test runs meanwhile;
    and Python's garbage is not collected after each computation, nor looked for in what is loaded.
    """
    from headwise.viz_app.session import memory, turns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "PAUSE", 0.0)
        patch.setattr(memory, "_SWEEP", 10**6)
        patch.setitem(turns.Turns.__init__.__kwdefaults__, "free", lambda: None)
        gc.collect()
        gc.freeze()
        yield


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    """A tokenizer a language; their vocabularies differ in size."""
    return TokenizerPair(Tokenizer.train(ENGLISH * 2, 400), Tokenizer.train(SPANISH * 2, 420))


@pytest.fixture(scope="session")
def make_speaker(
    make_model: Callable[..., Transformer], tokenizers: TokenizerPair
) -> Callable[..., Transformer]:
    """An untrained tiny model for ``tokenizers``; takes changes of its configuration."""

    def make(**changes: Any) -> Transformer:
        return make_model(
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            **changes,
        )

    return make


@pytest.fixture(scope="session")
def run_root(
    make_config: Callable[..., TransformerConfig],
    tokenizers: TokenizerPair,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder of runs with one run, ``tiny``: steps 0, 20 and 60. Not to be changed."""
    root = tmp_path_factory.mktemp("checkpoints")
    _write_run(root / "tiny", make_config, tokenizers)
    return root


@pytest.fixture(scope="session")
def unequal_root(
    make_config: Callable[..., TransformerConfig],
    tokenizers: TokenizerPair,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """As ``run_root``, but the encoder has 3 layers and the decoder 2. Not to be changed."""
    root = tmp_path_factory.mktemp("unequal")
    _write_run(root / "tiny", make_config, tokenizers, n_encoder_layers=3, n_decoder_layers=2)
    return root


def _write_run(
    folder: Path,
    make_config: Callable[..., TransformerConfig],
    tokenizers: TokenizerPair,
    **changes: int,
) -> None:
    config = make_config(
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        **changes,
    )
    data = DataSource(
        name="six sentences",
        licence="CC0",
        attribution="nobody",
        train_file="train.jsonl",
        train_sha256="0",
        train_pairs=len(ENGLISH),
        valid_file="valid.jsonl",
        valid_sha256="0",
        longest_source=22,
    )
    torch.manual_seed(7)
    write_run(folder, _trained(Transformer(config).eval(), tokenizers), tokenizers, data=data)
    samples = (("negation", ENGLISH[2]), ("question", ENGLISH[3]))
    append_log(
        folder / "samples.jsonl",
        [{"step": 0, "shows": shows, "source": source} for shows, source in samples],
    )


def _trained(model: Transformer, tokenizers: TokenizerPair) -> dict[int, Transformer]:
    """Train a model, and return it as it is at each milestone."""
    milestones = {}
    source = pad([tokenizers.encode_source(text) for text in ENGLISH])
    target = pad([tokenizers.encode_target(text) for text in SPANISH])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(MILESTONES[-1] + 1):
        if step in MILESTONES:
            milestones[step] = deepcopy(model)
        logits = model(source, target[:, :-1]).transpose(1, 2)  # (B, V, T)
        loss = cross_entropy(logits, target[:, 1:], ignore_index=PADDING)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return milestones


@pytest.fixture
def own_root(run_root: Path, tmp_path: Path) -> Path:
    """A copy of ``run_root`` that a test may change."""
    return shutil.copytree(run_root, tmp_path / "checkpoints")


@pytest.fixture(scope="session")
def run(run_root: Path) -> TrainedRun:
    """The run ``tiny``."""
    return open_trained_run("tiny", root=run_root)


@pytest.fixture(scope="session")
def trained(run: TrainedRun) -> Transformer:
    """The model of its last step."""
    return load_weights(run, MILESTONES[-1]).model


@pytest.fixture(scope="session")
def precise(run: TrainedRun) -> Transformer:
    """The same model, computing in float64; what is recorded of it is rounded to float32, once."""
    return load_weights(run, MILESTONES[-1], torch.float64).model


@pytest.fixture(scope="session")
def trace(trained: Transformer, tokenizers: TokenizerPair) -> Trace:
    """The trace of a sentence and a forced target that differ in length."""
    texts = "Don't worry, she sees him.", "No te preocupes, ella lo ve."
    return replace(run_trace(trained, tokenizers, *texts), sha256="5ha")


@pytest.fixture(scope="session")
def make_tokens() -> Callable[..., Tokens]:
    """Tokens from the tokens of each word; ids count up from 4, but for those of special tokens."""

    def make(*words: Sequence[str]) -> Tokens:
        spans, start = [], 0
        for word in words:
            spans.append(Word("".join(word).strip(), start, start + len(word)))
            start += len(word)
        tokens = tuple(token for word in words for token in word)
        special = {token: id for id, token in enumerate(SPECIAL_TOKENS)}
        ids = tuple(special.get(token, 4 + index) for index, token in enumerate(tokens))
        return Tokens(ids, tokens, tuple(spans))

    return make


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.link"}


@pytest.fixture(scope="session")
def read_only() -> Callable[[Path], AbstractContextManager[list[str]]]:
    """Makes a folder read-only while it is entered; what was tried there comes back.

    Tests may run as root, whom no permission stops: Python itself refuses, by its audit events, to
    open for writing, make, rename or remove anything in the folder.
    """
    folders: list[Path] = []
    refused: list[str] = []

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        changes = event in _CHANGING or (event == "open" and args[2] & _WRITING)
        if not folders or not changes:
            return
        named = [each for each in args[:2] if isinstance(each, str | bytes | Path)]
        paths = [Path(os.fsdecode(each)) for each in named]
        if any(path.is_relative_to(folders[0]) for path in paths):
            refused.append(f"{event} {paths[0]}")
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(paths[0]))

    sys.addaudithook(refuse)  # for good: it does nothing where no folder is entered

    @contextmanager
    def enter(folder: Path) -> Iterator[list[str]]:
        refused.clear()
        folders.append(folder)
        try:
            yield refused
        finally:
            folders.clear()

    return enter


RunCommand = Callable[..., str]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run a module as ``python -m`` does and return the message with which it fails."""

    def run(name: str, *line: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *line])
        with pytest.raises(SystemExit) as ended:
            run_module(name, monkeypatch)
        message = ended.value.code
        assert isinstance(message, str)  # it is printed, and the status is 1
        assert "\n" not in message
        return message

    return run


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> Theme:
    """Each of the two themes."""
    chosen: Theme = request.param
    return chosen


class HtmlPage(HTMLParser):
    """Tags with their attributes, and texts by the elements that they stand in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data


@pytest.fixture(scope="session")
def read_html() -> Callable[[str], HtmlPage]:
    """Reads HTML as a browser does."""
    return HtmlPage


@pytest.fixture(scope="session")
def markup() -> str:
    """A text that would do harm if it were read as HTML or as a formula."""
    return '<b onclick="x">&lt;\'$x$</bdi></div></table></details><script>'
