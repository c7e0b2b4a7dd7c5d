"""Accuracy on contrastive pairs over training, the pairs that fail, and what heads are to them."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import streamlit as st

from headwise.viz_app.analysis.labels import OFF_NOTE, count_of
from headwise.viz_app.analysis.pairs import (
    AccuracyLoss,
    accuracy_curves,
    accuracy_losses,
    counterpart,
    failing_pairs,
)
from headwise.viz_app.components.row_table import Bar, MarkedText, Row, TextPart, row_table
from headwise.viz_app.figures.curves import accuracy_charts
from headwise.viz_app.measuring.pair_files import pairs_path, shipped_pairs
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs
from headwise.viz_app.session.cache import cached, stamp_if_there
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.head_choice import choices_for, head_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import list_steps, measure_command
from headwise.viz_app.session.pairs import RunPairs, pairs_of
from headwise.viz_app.session.panels import note_files, panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.vocabulary import token_name
from headwise.viz_app.session.widgets import (
    THE_HEAD_ALONE,
    choose_from_list,
    choose_one,
    clicked_value,
    open_page,
    show_figure,
    use_step,
)

_MOST_ROWS, _MOST_HEADS = 100, 6
"""Most pairs, and most heads, of a table."""


def show_pairs(selection: Selection) -> None:
    """Draw the accuracy at each checkpoint that was measured, and what fails at the chosen one."""
    note_files(pairs_path(selection.run.folder))
    with show_user_errors():
        found = pairs_of(selection.run)
        if found.measured is not None:
            charts, listed = st.columns([9, 11], gap="medium")
            with charts:
                _show_curves(selection, found.measured)
            with listed:
                _show_failing(selection, found.measured)
                _show_heads(selection, found.measured)
        _show_state(selection.run, found)


def _show_state(run: Run, found: RunPairs) -> None:
    said = []
    if found.measured is None and not found.stale:
        said.append(
            "Not measured yet: in which share of pairs of a right and a wrong translation this "
            "model finds the right one likelier."
        )
    elif found.missing:
        said.append(f"Not measured: step {list_steps(found.missing)}.")
    if found.stale:
        said.append(
            f"Of step {list_steps(found.stale)} the weights have changed since they were measured."
        )
    if said:
        shipped = shipped_pairs(run.source_language, run.target_language) is not None
        st.caption(f"{' '.join(said)} To measure, in a terminal:")
        command = measure_command(run, "--pairs", "shipped" if shipped else "FILE")
        st.code(command, language=None)


def _show_curves(selection: Selection, measured: MeasuredPairs) -> None:
    steps = choose_one("Steps", ["linear", "log"], key="steps_axis")
    curves = cached(
        "accuracy on pairs",
        (_file(selection.run), tuple(measured.checkpoints)),
        lambda: accuracy_curves(measured, measured.checkpoints),
        facts=lambda found: {"run": selection.run.name, "curves": len(found)},
    )
    ends = [
        f"{curve.phenomenon or 'all pairs'} from {curve.values[0].share:.0%} to "
        f"{curve.values[-1].share:.0%}"
        for curve in curves
    ]
    show_figure(
        accuracy_charts(
            curves, step=selection.step, theme=selection.theme, log_steps=steps == "log"
        ),
        key="pair_curves",
        alt=f"Accuracy on {len(measured.pairs):,} pairs over {len(measured.checkpoints)} "
        f"checkpoints, with 95% intervals: {'; '.join(ends)}. Chance is one half.",
        name="accuracy-on-pairs",
        on_select=lambda: _go_to_clicked(selection.run),
    )
    st.caption("Click a mark to list what fails at that checkpoint.")
    with st.expander("How accuracy is measured", key="how-accuracy", type="compact"):
        st.caption(
            f"The share of the {len(measured.pairs):,} pairs of {escape_markdown(measured.name)} "
            "in which log P of the whole right translation is higher than that of the wrong one; "
            "equal ones count a half. Bars are 95% intervals (Wilson) as of independent "
            "pairs, the dotted line is chance. "
            "The likelier of two given translations need not be what the model would write."
        )


def _file(run: Run) -> tuple[str, object]:
    return str(run.folder), stamp_if_there(pairs_path(run.folder))


def _go_to_clicked(run: Run) -> None:
    if (clicked := clicked_value("pair_curves")) is not None:
        step, phenomenon = clicked.split(",", 1)
        use_step(int(step), run.steps(), phenomenon=phenomenon)


# --- the pairs that fail -------------------------------------------------------------------------


@panel("pairs-that-fail")
def _show_failing(selection: Selection, measured: MeasuredPairs) -> None:
    names = measured.phenomena
    phenomenon = choose_from_list(
        "Pairs that fail",
        ["", *names],
        key="phenomenon",
        format_func=lambda name: name or "of all phenomena",
        width=320,
    )
    scores = measured.checkpoints.get(selection.step)
    if scores is None:
        st.info(f"The checkpoint of step {selection.step:,} was not measured on pairs.")
        return
    failing = failing_pairs(measured, scores, phenomenon)
    count = len(measured.places(phenomenon))
    if not failing:
        st.caption(f"At step {selection.step:,} none of these {count:,} pairs fails.")
        return
    shown = failing[:_MOST_ROWS]
    margins = scores.margins
    most = max(1e-3, *(float(-margins[place]) for place in shown))
    run = selection.run
    rows = []
    for place in shown:
        pair = measured.pairs[place]
        right, wrong = _marked(pair, run.target_language)
        bar = Bar(float(margins[place]), f"{margins[place]:+.2f}", low=-most, high=0.0)
        source = MarkedText((TextPart(pair.source),), run.source_language)
        rows.append(Row(str(place), (pair.phenomenon, source, right, wrong, bar)))
    row_table(
        ["phenomenon", "source", "right", "wrong", "right − wrong"],
        rows,
        label=f"Pairs that fail at step {selection.step:,}",
        theme=selection.theme,
        key="failing_pairs",
        on_click=lambda name: _open_pair(run, measured, int(name)),
        action="Ask why",
    )
    only = f" Shown are the first {_MOST_ROWS}." * (len(failing) > len(shown))
    st.caption(
        f"At step {selection.step:,}, {len(failing):,} of {count:,} pairs fail: the wrong "
        f"translation is at least as likely.{only} Click one to ask why. Last column: difference "
        "of log-probabilities, in nats."
    )


def _marked(pair: ContrastivePair, language: str) -> tuple[MarkedText, MarkedText]:
    """Return both translations with the words marked in which they differ."""
    right, wrong = pair.right.split(), pair.wrong.split()
    found: tuple[list[TextPart], list[TextPart]] = ([], [])
    for kind, *ends in SequenceMatcher(None, right, wrong, autojunk=False).get_opcodes():
        for side, words, (start, stop) in zip(
            found, (right, wrong), (ends[:2], ends[2:]), strict=True
        ):
            if text := " ".join(words[start:stop]):
                side.extend([TextPart(" ")] * bool(side))
                side.append(TextPart(text, "" if kind == "equal" else "key"))
    return MarkedText(tuple(found[0]), language), MarkedText(tuple(found[1]), language)


def _open_pair(run: Run, measured: MeasuredPairs, place: int) -> None:
    """Ask why the wrong translation is the likelier, where it leaves the right one.

    Where another pair has the same words the other way round, its source is the second sentence.
    """
    pair = measured.pairs[place]
    right, wrong = (run.tokenizers.encode_target(text) for text in (pair.right, pair.wrong))
    parting = next(
        (place for place, (a, b) in enumerate(zip(right, wrong, strict=False)) if a != b), None
    )
    asked: dict[str, Any] = {"at": 0, "instead": ""}
    if parting is not None:  # an unknown word may be written for both: then they part nowhere
        asked = {"at": parting - 1, "instead": token_name(wrong[parting])}
        if (other := counterpart(measured.pairs, pair)) is not None:
            asked |= {"why": "two sentences", "other": other.source, "parting": parting - 1}
            asked |= {"first_word": token_name(right[parting]), "second_word": asked["instead"]}
    open_page("why", sentence=pair.source, target=pair.right, **asked)


# --- heads ---------------------------------------------------------------------------------------


def _show_heads(selection: Selection, measured: MeasuredPairs) -> None:
    losses = cached(
        "heads on pairs",
        (_file(selection.run), measured.heads_step),
        lambda: accuracy_losses(measured),
        facts=lambda found: {"run": selection.run.name, "heads": len(found)},
    )
    if not losses or measured.heads_step is None:
        return
    step, first, count = measured.heads_step, losses[0], len(measured.pairs)
    # Accuracies are multiples of half a pair.
    largest = [each for each in losses if each.loss > first.loss - 0.25 / count]
    said = (
        "No head's absence lowers it."
        if first.loss < 0.25 / count
        else f"It falls most without {_named(largest)}: by {first.said}."
    )
    if sure := sum(each.low > 0 for each in losses):
        verb = "has" if sure == 1 else "have"
        said += (
            f" {sure:,} of them {verb} an interval above 0; if no head counted, some "
            f"{len(losses) * 0.025:.1f} would by chance."
        )
    else:
        said += " No interval is above 0: no single head carries these pairs, or they are too few."
    share = measured.checkpoints[step].outcomes.mean()
    st.markdown(
        f"At step {step:,} the accuracy on all pairs is {share:.1%}. {len(losses):,} heads were "
        f"switched off, one at a time. {said}"
    )
    most = max((abs(each.loss) for each in losses), default=0.0) or 1.0
    row_table(
        ["head", "accuracy without it", "fall in points", "95% interval of the fall"],
        [
            Row(
                str(place),
                (
                    head_label(each.head),
                    Bar(each.without.share, f"{each.without.share:.1%}"),
                    Bar(each.loss, f"{100 * each.loss:+.1f}", low=-most, high=most),
                    each.ends,
                ),
            )
            for place, each in enumerate(losses[:_MOST_HEADS])
        ],
        label=f"Heads without which the accuracy falls most at step {step:,}",
        theme=selection.theme,
        key="pair_heads",
        on_click=lambda name: open_page(
            "translate", step=step, **choices_for(losses[int(name)].head), **THE_HEAD_ALONE
        ),
        action="Open on Translate",
    )
    with st.expander("How heads are compared", key="how-heads", type="compact"):
        st.caption(
            f"{OFF_NOTE} A fall is in percentage points. The interval is that of the paired "
            "difference (Newcombe 1998), widened where pairs of the same two words fall together, "
            f"for one head; the largest of {len(losses):,} falls is likely to be smaller on other "
            "pairs."
        )


def _named(losses: list[AccuracyLoss]) -> str:
    names = [head_label(each.head) for each in losses[:3]]
    if len(losses) > len(names):
        names.append(f"any of {count_of(len(losses) - len(names), 'other')}")
    return " or ".join(names)
