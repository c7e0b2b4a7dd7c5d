"""The section "translations" of the page Training: sentences as each checkpoint translates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from headwise.viz_app.analysis.labels import three_digits
from headwise.viz_app.components.row_table import Bar, Cell, MarkedText, Row, TextPart, row_table
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import LogRow, log_of, log_probability_of, translation_of
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control
from headwise.viz_app.session.vocabulary import special_tokens_of
from headwise.viz_app.session.widgets import choose_from_list, choose_one, open_page, use_step
from headwise.viz_app.training.checkpoints import at_each


def show_translations(selection: Selection) -> None:
    """Draw one sentence at all checkpoints, the person's own at first, or samples at one."""
    own, rows = selection.text.strip(), list[LogRow]()
    with show_user_errors():
        rows = [
            row
            for row in log_of(selection.run.folder, "samples.jsonl")
            if all(isinstance(row.get(name), str) for name in ("source", "translation"))
        ]
        if not rows:
            st.caption(
                "No sentence of the training's own has been translated yet."
                if selection.run.data is not None
                else "The training logged no translations of sample sentences."
            )
    by, source = _choose(own, [row["source"] for row in rows])
    if by == "one step":
        _show_step(selection, [row for row in rows if row["step"] == selection.step])
    elif source != own:
        _show_sentence(selection, [row for row in rows if row["source"] == source])
    else:
        references = (_reference(row) for row in rows if row["source"] == own)
        _show_own(selection, next(filter(None, references), ""))


def _choose(own: str, samples: Sequence[str]) -> tuple[str, str]:
    """Ask whether a sentence is drawn at all checkpoints or all samples at one, and for which."""
    if not samples:
        return "one sentence", own
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        by = choose_one(
            "Rows",
            ["one sentence", "one step"],
            key="samples_by",
            format_func={
                "one sentence": "one sentence, all checkpoints",
                "one step": "all samples, one checkpoint",
            }.__getitem__,
            show_label=False,
        )
        if by == "one step":
            return by, own
        return by, choose_from_list(
            "Sentence",
            list(dict.fromkeys([own, *samples])),
            key="sample",
            default=own,
            format_func=lambda source: f"yours: {source}" if source == own else source,
        )


def _show_sentence(selection: Selection, rows: Sequence[LogRow]) -> None:
    reference = _reference(rows[-1])
    lines: dict[int, Sequence[Cell]] = {
        row["step"]: [_translation(selection, row["translation"], reference), _score(score)]
        for row, score in zip(rows, _chrf_of(rows), strict=True)
    }
    titles = ["translation", "chrF"]
    if reference:
        st.text(f"Reference: {reference}")
    else:
        titles, lines = titles[:1], {step: cells[:1] for step, cells in lines.items()}
    _draw_by_step(selection, titles, lines, key="sample_table")


def _show_step(selection: Selection, rows: Sequence[LogRow]) -> None:
    if not rows:
        st.info(f"There are no translations of step {selection.step:,} in the log.")
        return
    run = selection.run
    lines = [
        Row(
            row["source"],
            (
                row["source"],
                MarkedText((TextPart(_reference(row)),), run.target_language),
                _translation(selection, row["translation"], _reference(row)),
                _score(score),
            ),
        )
        for row, score in zip(rows, _chrf_of(rows), strict=True)
    ]
    row_table(
        ["source", "reference", f"translation at step {selection.step:,}", "chrF"],
        lines,
        label=f"Sample sentences at step {selection.step:,}",
        theme=selection.theme,
        key="sample_table",
        on_click=lambda source: open_page("translate", sentence=source),
        action="Open on Translate",
    )


def _reference(row: LogRow) -> str:
    reference = row.get("reference")
    return reference if isinstance(reference, str) else ""


def _chrf_of(rows: Sequence[LogRow]) -> Sequence[float | None]:
    return _chrf(tuple((row["translation"], _reference(row)) for row in rows))


def _chrf(pairs: tuple[tuple[str, str], ...]) -> Sequence[float | None]:
    """Score translations by references, if there are any, by chrF (Popović 2015), 0 to 100."""

    def compute() -> tuple[float | None, ...]:
        from sacrebleu import CHRF  # takes time, and only this needs it

        chrf = CHRF()
        return tuple(
            chrf.sentence_score(translation, [reference]).score if reference else None
            for translation, reference in pairs
        )

    return cached("chrF", pairs, compute, facts=lambda found: {"pairs": len(found)})


@panel("own_translations")
def _show_own(selection: Selection, known_reference: str) -> None:
    table, steps = st.container(), selection.steps()
    typed = st.text_input(
        "Reference, if there is one",
        placeholder=known_reference or "a right translation, to measure by",
        help="Where the sentence is one of the samples and nothing is typed here, its reference "
        "is taken.",
        **control("own_reference", "Reference"),
    )
    reference = typed.strip() or known_reference
    run, text = selection.run, selection.text

    def translate(step: int) -> tuple[str, Floats]:
        """Return a translation and the log-probability of each of its tokens, (T,), in nats."""
        ids = translation_of(run, step, text)
        return run.tokenizers.target.decode(ids), log_probability_of(run, step, text, ids)

    found, problems = at_each(
        selection, translate, first=[selection.step, steps[-1], steps[0]], key="own"
    )
    scores = iter(_chrf(tuple((one, reference) for one, _ in found.values())) if reference else ())
    lines: dict[int, list[Cell]] = {step: [""] * (3 + bool(reference)) for step in steps}
    for step, (translated, log_probability) in found.items():
        numbers = [three_digits(each) for each in (log_probability.sum(), log_probability.mean())]
        lines[step] = [_translation(selection, translated, reference), *numbers]
        lines[step] += [_score(next(scores))] if reference else []
    titles = ["translation", "log-probability", "per token", *(["chrF"] if reference else [])]
    with table:
        _draw_by_step(selection, titles, lines, key="own_table")
    selection.say_steps(steps)
    said = "A model can be sure and wrong."
    if reference and len(found) == len(steps):
        right = [step for step, (one, _) in found.items() if one == reference]
        said = (
            f"As the reference, to the letter, first at step {min(right):,}."
            if right
            else "No checkpoint translates as the reference, to the letter."
        )
    end = escape_markdown(special_tokens_of(selection.run).end)
    st.caption(
        f"{said} Click a row to use its checkpoint.",
        help="Each checkpoint's greedy translation, and how likely it takes it to be: the sum of "
        f"log-probabilities over its tokens, {end} included, in nats, and their mean. ✓ marks the "
        "reference to the letter.",
    )
    others = [step for step in run.steps() if step != selection.step]
    if others:
        # The checkpoint before the selected one, or after the first.
        beside = max((step for step in others if step < selection.step), default=others[0])
        st.button(
            f"Compare step {selection.step:,} with another",
            key="to_compare",
            icon=":material/compare_arrows:",
            on_click=lambda: change_view(WHOLE_PAGE, training="compare", other_step=beside),
        )
    for problem in problems.values():
        st.error(problem)


def _translation(selection: Selection, text: str, reference: str) -> MarkedText:
    """Return a cell with a translation, and a tick where it is the reference to the letter."""
    tick = [TextPart(" ✓")] if text and text == reference else []
    return MarkedText((TextPart(text or "(no text)"), *tick), selection.run.target_language)


def _score(score: float | None) -> Cell:
    return "" if score is None else Bar(score, f"{score:.1f}", high=100.0)


def _draw_by_step(
    selection: Selection, titles: Sequence[str], lines: Mapping[int, Sequence[Cell]], *, key: str
) -> None:
    """Draw a row for each step; a click selects the checkpoint of its step."""
    row_table(
        ["step", *titles],
        [Row(str(step), (f"{step:,}", *cells)) for step, cells in lines.items()],
        label="Translations by step",
        theme=selection.theme,
        key=key,
        chosen=str(selection.step),
        on_click=lambda name: use_step(int(name), selection.run.steps()),
        action="Use this checkpoint",
    )
