"""Room of the page Training: sentences as each checkpoint translates them, from garbage on."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from viz_app.figures.translations import Cell, Column, translation_table
from viz_app.views._events import tell_refusal
from viz_app.views._session import Row, Selection, log_of, own_translation
from viz_app.views._widgets import PROBLEMS, choose_one, plain, problems_in_place

_QUICK = 0.3
"""Seconds after which a person is shown how far it is."""


def show_translations(selection: Selection) -> None:
    """Draw the sample sentences, and the person's own."""
    st.markdown("##### Sample sentences")
    with problems_in_place():
        _show_samples(selection)
    st.markdown("##### Your sentence")
    with problems_in_place():
        _show_own(selection)


def _samples(selection: Selection) -> list[Row]:
    """Rows of the log that have all that is shown."""
    rows = log_of(selection.run.folder, "samples.jsonl")
    return [
        row for row in rows if all(isinstance(row.get(n), str) for n in ("source", "translation"))
    ]


def _show_samples(selection: Selection) -> None:
    rows = _samples(selection)
    if not rows:
        st.info("No sentence of the training's own has been translated yet.")
        return
    sources = list(dict.fromkeys(row["source"] for row in rows))
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        by = choose_one(
            "Rows", ["one sentence", "one step"], key="samples_by", default="one sentence"
        )
        if by == "one sentence":
            begin = sources.index(selection.text) if selection.text in sources else 0
            source = st.selectbox("Sentence", sources, index=begin, key="sample")
    if by == "one sentence":
        _show_sentence(selection, [row for row in rows if row["source"] == source])
    else:
        _show_step(selection, [row for row in rows if row["step"] == selection.step])


def _show_sentence(selection: Selection, rows: Sequence[Row]) -> None:
    """A sample sentence by steps."""
    reference = _reference(rows[-1])
    if reference:
        st.text(f"Reference: {reference}")
    info = selection.run.info
    columns = [Column("step", "number"), Column("translation", language=info.target_language)]
    lines: list[list[Cell]] = [[row["step"], row["translation"]] for row in rows]
    exact = set()
    if reference:
        columns.append(Column("chrF", "score"))
        for line, score in zip(lines, _scores(rows), strict=True):
            line.append(score)
        exact = {(at, 1) for at, row in enumerate(rows) if row["translation"] == reference}
    steps = [row["step"] for row in rows]
    used = steps.index(selection.step) if selection.step in steps else None
    _draw(selection, columns, lines, used=used, exact=exact, key="sample_table")


def _show_step(selection: Selection, rows: Sequence[Row]) -> None:
    """All sample sentences at the step in use."""
    if not rows:
        st.info(f"There are no translations of step {selection.step:,} in the log.")
        return
    info = selection.run.info
    columns = [
        Column("source", language=info.source_language),
        Column("reference", language=info.target_language),
        Column(f"translation at step {selection.step:,}", language=info.target_language),
        Column("chrF", "score"),
    ]
    lines: list[list[Cell]] = [
        [row["source"], _reference(row) or None, row["translation"], score]
        for row, score in zip(rows, _scores(rows), strict=True)
    ]
    exact = {(at, 2) for at, row in enumerate(rows) if row["translation"] == _reference(row)}
    _draw(selection, columns, lines, exact=exact, key="sample_table")


def _reference(row: Row) -> str:
    reference = row.get("reference")
    return reference if isinstance(reference, str) else ""


def _scores(rows: Sequence[Row]) -> list[float | None]:
    """chrF of each row that has a reference."""
    return _chrf(tuple((row["translation"], _reference(row)) for row in rows))


@st.cache_data(max_entries=64, show_spinner=False)
def _chrf(pairs: tuple[tuple[str, str], ...]) -> list[float | None]:
    """Of translations and references, sentence by sentence (Popović 2015), 0 to 100."""
    from sacrebleu import CHRF  # takes time, and only this needs it

    chrf = CHRF()
    return [
        chrf.sentence_score(translation, [reference]).score if reference else None
        for translation, reference in pairs
    ]


def _show_own(selection: Selection) -> None:
    """The sentence of the frame by all checkpoints."""
    known = {row["source"]: _reference(row) for row in _samples(selection)}
    known_reference = known.get(selection.text.strip(), "")
    typed = st.text_input(
        "Reference, if there is one",
        key="own_reference",
        placeholder=known_reference or "a right translation, to measure by",
        help="Where the sentence is one of the samples and nothing is typed here, its reference "
        "is taken.",
    )
    reference = typed.strip() or known_reference
    steps = selection.run.steps()
    lines, problems = _translate_by_all(selection, steps)
    columns = [
        Column("step", "number"),
        Column("translation", language=selection.run.info.target_language),
        Column("log-probability", "number", form=",.2f"),
        Column("per piece", "number", form=",.2f"),
    ]
    exact = set()
    if reference:
        columns.append(Column("chrF", "score"))
        texts = [str(line[1]) if line[2] is not None else "" for line in lines]
        scores = _chrf(tuple((text, reference) for text in texts))
        for line, score in zip(lines, scores, strict=True):
            line.append(score if line[2] is not None else None)
        exact = {(at, 1) for at, text in enumerate(texts) if text == reference}
    _draw(selection, columns, lines, used=steps.index(selection.step), exact=exact, key="own_table")
    st.caption(
        "Each checkpoint's greedy translation, and how likely it takes it to be: the sum over its "
        "pieces, `</s>` included, in nats, and the mean. A model can be sure and wrong."
    )
    for problem in problems:
        st.error(plain(problem))


def _translate_by_all(
    selection: Selection, steps: Sequence[int]
) -> tuple[list[list[Cell]], list[str]]:
    """Step, translation, log-probability and its mean by each checkpoint; what went wrong."""
    run, text = selection.run, selection.text
    lines: list[list[Cell]] = []
    problems = []
    begun, place = time.monotonic(), st.empty()
    for at, step in enumerate(steps):
        if time.monotonic() - begun > _QUICK:
            place.progress(at / len(steps), f"Translating by the checkpoint of step {step:,}")
        try:
            ids, log_probability = own_translation(run, step, text)
        except PROBLEMS as problem:
            tell_refusal(problem)
            problems.append(str(problem))
            lines.append([step, None, None, None])
            continue
        translation = run.tokenizers.target.decode(ids)
        total, mean = float(log_probability.sum()), float(log_probability.mean())
        lines.append([step, translation, total, mean])
    place.empty()
    return lines, problems


def _draw(
    selection: Selection,
    columns: Sequence[Column],
    lines: Sequence[Sequence[Cell]],
    *,
    key: str,
    used: int | None = None,
    exact: set[tuple[int, int]],
) -> None:
    with st.container(key=key):
        st.html(translation_table(columns, lines, theme=selection.theme, used=used, exact=exact))
