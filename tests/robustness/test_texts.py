"""Any text is refused with a clear message or traced correctly, and is never taken for markup.

The texts are in ``texts.py``. For every third trace something is drawn or saved too.
"""

from __future__ import annotations

import json
import re
import tempfile
import unicodedata
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, UNK
from headwise.model.interface import KINDS
from headwise.model.tokenizer import Tokenizer, TokenizerKind, TokenizerPair, count_words
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import make_visible, token_labels, word_labels
from headwise.viz_app.components.lines import Bundle, TokenColumn, line_data
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.records.trace import Tokens, Trace, Word
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import metadata, read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import OPERATIONS, assert_near
from tests.robustness.drawings import ParsedHtml, check_drawn
from tests.robustness.outcomes import outcomes_of
from tests.robustness.texts import MARKUP, TEXTS, UNSEEN
from tests.robustness.tiny_run import markup_model

CLEAR = re.compile(
    r"there is nothing to translate: type|the target is empty: type"
    r"|has [\d,]+ tokens, at most [\d,]+ are read; shorten it$"
    r"|^the text has [\d,]+ characters, at most 20,000 are read; shorten it$"
    r"|^character \d+ of the text is half a character \(a lone surrogate\); remove it$"
)
"""Messages for a text that cannot be used."""
_READING = GridOptions()
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
PARTS = ("saved", "report", "lines", "drawn")
"""What can be made from a trace: files, the report, lines, figures."""


@dataclass(frozen=True)
class Case:
    """What a person gives: a text, maybe a target, and how the maps are read."""

    text: str
    target: str | tuple[int, ...] | None
    reading: GridOptions = _READING
    part: str | None = None
    """One of ``PARTS``, made from the trace and checked too."""


def check(model: Transformer, tokenizers: TokenizerPair, case: Case) -> str:
    """Trace a text and check the result; return "refused" or "traced"."""
    try:
        trace = run_trace(model, tokenizers, case.text, case.target)
        trace = replace(trace, run=case.text[:30])
    except ValueError as error:
        if CLEAR.search(str(error)):
            return "refused"
        raise
    _check_weights(trace)
    _check_source(tokenizers.source, trace)
    for tokens in (trace.source, trace.consumed, trace.predicted):
        _check_words(tokens)
    labels = _check_labels(trace, case.reading)
    if case.part == "saved":
        _check_saved(trace)
    elif case.part == "report":
        _check_report(trace, case.reading)
    elif case.part == "lines":
        _check_lines(trace, case.reading)
    elif case.part is not None:
        # Names in files may be any text, too.
        check_drawn([*labels[:6], case.text[:200], trace.target_text[:200]])
    return "traced"


def _check_labels(trace: Trace, reading: GridOptions) -> list[str]:
    """Check that each label can be seen, and return all of them."""
    grids = [make_grid(trace, kind, reading) for kind in KINDS]
    labels = [*token_labels(trace.predicted), *word_labels(trace.source)]
    labels += [label for grid in grids for label in (*grid.columns, *grid.rows)]
    for label in labels:
        assert label, "a label is empty"
        assert not any(unicodedata.category(letter) in _INVISIBLE for letter in label), repr(label)
    return labels


def _check_weights(trace: Trace) -> None:
    for kind in KINDS:
        weights = trace.attention[kind]
        assert weights.shape[-2:] == (len(trace.queries_of(kind)), len(trace.keys_of(kind)))
        keys = weights.shape[-1]
        assert_near(weights.sum(axis=-1), 1, size=1, operations=max(OPERATIONS, keys))
    assert not np.triu(trace.attention["decoder_self"], 1).any()
    assert [check for check in trace.checks if not check.passed] == []


def _check_source(tokenizer: Tokenizer, trace: Trace) -> None:
    """Check that the tokens are exactly the text."""
    *ids, last = trace.source.ids
    text = trace.source_text
    assert last == EOS
    assert not {BOS, EOS} & set(ids), "a text became a special token"
    if tokenizer.kind == "bpe":
        assert tokenizer.decode(ids) == text
        return
    assert len(ids) == count_words(unicodedata.normalize("NFC", text).lower())
    unknown = tokenizer.unknown(text)
    assert len(unknown) == ids.count(UNK)
    at = 0
    for word in unknown:
        assert word
        at = text.index(word, at) + len(word)


def _check_words(tokens: Tokens) -> None:
    """Check that words are in order, and that each token is in one of them."""
    ends = [place for word in tokens.words for place in (word.start, word.stop)]
    assert ends == sorted(ends)
    assert ends[1:-1:2] == ends[2::2]
    assert (ends[0], ends[-1]) == (0, len(tokens))
    assert all(word.text and word.start < word.stop for word in tokens.words)


def _check_saved(trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for ending, write in ((".npz", to_npz), (".json", to_json)):
            path = Path(folder) / f"trace{ending}"
            path.write_bytes(write(trace))
            again = read_trace(path)
            assert metadata(again) == metadata(trace)
            for (name, saved), (_, was) in zip(again.arrays(), trace.arrays(), strict=True):
                np.testing.assert_array_equal(saved, was, err_msg=name)


def _check_report(trace: Trace, reading: GridOptions) -> None:
    page = ParsedHtml(to_html(trace, grid_options=reading).decode())
    plain = ParsedHtml(to_html(_plain(trace), grid_options=reading).decode())
    assert page.elements == plain.elements, "report: a text is markup"
    assert page.tokens == [*token_labels(trace.source), *token_labels(trace.predicted)]
    for text in (trace.source_text, trace.target_text):
        assert make_visible(text) in page.text or not text, "report: a text cannot be read"
    # Labels come back as they were from what Plotly is given.
    data = json.loads(next(text for text in page.text if text.startswith('{"encoder_self"')))
    for kind in KINDS:
        grid = make_grid(trace, kind, reading)
        for axis, labels in (("xaxis", grid.columns), ("yaxis", grid.rows)):
            drawn = data[kind]["large"]["layout"][axis]["labelalias"]
            for place, label in enumerate(labels):
                alias = unescape(drawn[str(place)])
                assert alias == label or (alias[-1] == "…" and label.startswith(alias[:-1]))


def _check_lines(trace: Trace, reading: GridOptions) -> None:
    for kind in KINDS:
        grid = make_grid(trace, kind, reading)
        columns = TokenColumn("key", grid.columns, "es"), TokenColumn("query", grid.rows, "es")
        bundle = Bundle("x", grid.apply(trace.attention[kind])[-1, 0], 1, 0)
        sent = orjson.loads(orjson.dumps(line_data(columns, [bundle], theme=LIGHT)))
        assert [tuple(column["labels"]) for column in sent["columns"]] == [grid.columns, grid.rows]


def _plain(trace: Trace) -> Trace:
    """Replace each text of a trace by as many letters x."""

    def letters(text: str) -> str:
        return "x" * max(1, len(text))

    def tokens(of: Tokens) -> Tokens:
        words = tuple(Word(letters(word.text), word.start, word.stop) for word in of.words)
        return replace(of, texts=tuple(map(letters, of.texts)), words=words)

    return replace(
        trace,
        run="x",
        source_text="x",
        target_text="x",
        source=tokens(trace.source),
        consumed=tokens(trace.consumed),
        predicted=tokens(trace.predicted),
        top_tokens=tuple(tuple(map(letters, row)) for row in trace.top_tokens),
    )


def cases(vocabulary: int) -> st.SearchStrategy[Case]:
    """Return what to draw from for a model with a target vocabulary of this size."""
    ids = st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=12)
    targets = st.one_of(st.none(), TEXTS, ids.map(lambda drawn: (2, *drawn)))
    readings = st.builds(
        GridOptions,
        st.sampled_from(("tokens", "words")),
        st.sampled_from(("predicted", "consumed")),
        st.just(True),
        st.just(False),
    )
    parts = st.sampled_from((*PARTS, *[None] * 2 * len(PARTS)))
    return st.builds(Case, TEXTS, targets, readings, parts)


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_any_text_is_refused_or_traced(kind: TokenizerKind) -> None:
    model, tokenizers = markup_model(kind)
    outcomes = outcomes_of(
        partial(check, model, tokenizers), cases(tokenizers.target.vocab_size), share=2
    )
    assert set(outcomes) == {"traced", "refused"}


def test_every_part_keeps_markup_as_text() -> None:
    """Each part gets hostile texts in every run, not only where chance brings them."""
    model, tokenizers = markup_model("bpe")
    worst = [*MARKUP, *UNSEEN]
    tokens = tokenizers.target.vocab_size
    target = (2, *range(tokens - len(MARKUP), tokens), 3)
    for number, part in enumerate(PARTS):
        text = worst[number % len(worst)]
        assert check(model, tokenizers, Case(f"a {text}"[:40], target, part=part)) == "traced", part
    check_drawn(worst)
