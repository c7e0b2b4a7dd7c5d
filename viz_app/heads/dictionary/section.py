"""Draw what the chosen head writes: its dictionary, how good that is, and both through training."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.written import (
    HeadDictionary,
    TokenValues,
    no_dictionary,
    values_here,
    written_bytes,
)
from headwise.viz_app.figures.checkpoint_lines import measure_lines
from headwise.viz_app.heads.dictionary.scores import (
    MOST_FREQUENT,
    Lexicon,
    WritingScores,
    aligning_head,
    copying,
    frequent,
    lexicon_of,
    lexicon_precision,
    mean_values,
    with_means,
)
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.asked import ask_sentences, ask_trace
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import Run, trace_of, weights_of
from headwise.viz_app.session.download import offer_record
from headwise.viz_app.session.head_choice import choices_for, chosen_head, head_label
from headwise.viz_app.session.measures import measures_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import each_in_slices
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.widgets import THE_HEAD_ALONE, choose_one, open_page, show_figure
from headwise.viz_app.session.written import dictionary_of

_HELD_NOTE = (
    "A head that looks at a token adds α v W_O to the stream. v W_O is taken through the norms "
    "after it and through the output matrix; the norms' divisors are held, and like α they only "
    "scale all logits of a token, so that they are given in standard deviations over the "
    "vocabulary. It is what the head writes where it looks, directly: whether it looks there, and "
    "what later layers make of it, this does not say."
)
_MOST_SHOWN = 40
"""Tokens that the table shows; the file has all."""


@panel("head_writes")
def show_writes(selection: Selection, measures: Measures) -> None:
    """Draw the dictionary of the chosen head, and say how good it is."""
    head = chosen_head(selection.run.description, view())
    if why := no_dictionary(selection.run.description, head):
        st.caption(why)
        return
    values = _choose_tokens(selection, measures, head.kind)
    if values is None:
        return
    found = dictionary_of(selection.run, selection.step, head, values)
    _show_table(selection, measures, head, found)
    only = None if view().heads.dictionary_training else head
    scores = _scores_of(selection.run, selection.step, measures, head.kind, only)
    st.markdown(f"**{head_label(head)}**: {_in_words(selection.run, measures, scores, head)}")
    _show_training(selection, measures, head)


def _choose_tokens(selection: Selection, measures: Measures, kind: Kind) -> TokenValues | None:
    """Ask of which tokens, and return their values; None if there are none yet."""
    run, step = selection.run, selection.step
    side = "target" if kind == "decoder_self" else "source"
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        of = choose_one(
            "Tokens that it reads",
            ["frequent", "sentence", "typed"],
            key="dictionary_of",
            format_func=lambda of: {"sentence": "this sentence", "typed": "typed"}.get(
                of, f"most frequent {MOST_FREQUENT}"
            ),
        )
        typed = ""
        if of == "typed":
            typed = st.text_input(
                f"Words of the {side}",
                placeholder="one or more words",
                **control("dictionary_words", "Words to look up"),
            ).strip()
    if of == "frequent":
        return frequent(_mean_values(run, step, measures, kind), run.tokenizers, run.counts)
    if of == "typed" and not typed:
        return None
    source = typed if typed and side == "source" else selection.text
    target = tuple(run.tokenizers.encode_target(typed)) if typed and side == "target" else None
    here = ask_trace(values_here, run, trace_of(run, step, source, target), kind)
    if of == "sentence":
        return here
    return with_means(here, _mean_values(run, step, measures, kind), run.tokenizers)


def _mean_values(run: Run, step: int, measures: Measures, kind: Kind) -> TokenValues:
    """Return the mean value of each token over the example sentences."""
    return ask_sentences(mean_values, run, step, Sentences.examples(run, measures), kind)


def _show_table(
    selection: Selection, measures: Measures, head: Head, found: HeadDictionary
) -> None:
    run, of = selection.run, view().heads.dictionary_of

    def written(names: NDArray[np.str_], logits: Floats) -> MarkedText:
        named = zip(names.tolist(), logits.tolist(), strict=True)
        text = "  ".join(f"{name} {logit:+.1f}" for name, logit in named)
        return MarkedText((TextPart(text),), run.target_language)

    def seen(places: int) -> str:
        if of == "sentence":
            return "here"
        return f"{places:,} place{'s' * (places != 1)}" if places else "alone"

    count = len(found.ids)
    rows = [
        Row(
            str(place),
            (
                str(found.token[place]),
                seen(int(found.places[place])),
                written(found.raises[place], found.raised_by[place]),
                written(found.lowers[place], found.lowered_by[place]),
            ),
        )
        for place in range(min(count, _MOST_SHOWN))
    ]
    row_table(
        ["token", "value of", "raises most", "lowers most"],
        rows,
        label=f"What {head_label(head)} writes, by the token that it reads",
        theme=selection.theme,
        key="dictionary_table",
        on_click=lambda place: _open(selection, measures, head, int(found.ids[int(place)])),
        action="Open a sentence with it on Translate",
    )
    more = f"The {len(rows)} first of {count} tokens; the file has all. " * (count > len(rows))
    with st.expander("What the numbers are", key="how-written", type="compact"):
        st.caption(
            f"{more}{_HELD_NOTE} A value is the mean over the places of a token in the "
            f"{measures.examples_corpus.sentences:,} example sentences, so that contexts are "
            "averaged; “here” is its value in this sentence, “alone” that of a typed word that "
            "none of them has."
        )
    of_head = f"writes-{head_name(head)}"
    offer_record("The dictionary", found, run=run.name, step=selection.step, of=of_head)


def _open(selection: Selection, measures: Measures, head: Head, token: int) -> None:
    """Open the first example sentence with a token, or else the sentence at hand, on Translate."""
    shown: dict[str, object] = {"sentence": selection.text}
    for pair in Sentences.examples(selection.run, measures).pairs:
        if token in (pair.target if head.kind == "decoder_self" else pair.source):
            shown = {"sentence": pair.pair.source, "target": pair.pair.target}
            break
    open_page("translate", **shown, **choices_for(head), **THE_HEAD_ALONE)


def _lexicon_for(run: Run, measures: Measures) -> Lexicon:
    """Return the lexicon that the last checkpoint makes of the example sentences.

    Its links are those of the head of the last checkpoint that aligns words best.
    """
    sentences, last = Sentences.examples(run, measures), run.steps()[-1]
    of_last = measures_of(run, [last]).by_step.get(last)
    errors = None if of_last is None else of_last.values["aer_predicted"]["cross"]
    if errors is not None and np.isfinite(errors).any():
        head = int(np.nanargmin(errors))
    else:
        head = ask_sentences(aligning_head, run, last, sentences)
    return ask_sentences(lexicon_of, run, last, sentences, head)


def _scores_of(
    run: Run, step: int, measures: Measures, kind: Kind, only: Head | None = None
) -> WritingScores:
    """Score all heads of a kind, or only one, at a checkpoint, by the example sentences."""
    weights = weights_of(run, step)
    lexicon = _lexicon_for(run, measures) if kind == "cross" else None
    tokens = MOST_FREQUENT if lexicon is None else len(lexicon.source)

    def compute() -> WritingScores:
        values = _mean_values(run, step, measures, kind)
        if lexicon is not None:
            return lexicon_precision(weights.model, values, lexicon, only=only)
        return copying(weights.model, frequent(values, run.tokenizers, run.counts), only=only)

    return cached(
        "what heads write",
        (str(run.folder), weights.sha256, measures.examples_corpus.sha256, kind, only),
        compute,
        facts=lambda _: {"run": run.name, "step": step},
        says="Scoring what heads write",
        needs=written_bytes(run.description, tokens),
    )


def _in_words(run: Run, measures: Measures, scores: WritingScores, head: Head) -> str:
    if scores.tokens < 2:
        return "no score, since the example sentences give too few tokens."
    said = scores.said(head)
    if (other := scores.best_other(head)) is not None:
        largest = f"{scores.values[other.layer, other.head]:.2f}"
        said += f" The largest of the other heads is {largest}, {head_label(other)}."
    if head.kind == "decoder_self":
        return said
    return (
        f"{said} The lexicon has the source words of one token and the tokens to which most links "
        f"of {head_label(_lexicon_for(run, measures).head)} at checkpoint {run.steps()[-1]:,} lead "
        "in the example sentences, two at least: it is the model's own, no person's."
    )


def _show_training(selection: Selection, measures: Measures, head: Head) -> None:
    run = selection.run
    if len(run.steps()) < 2:
        return
    if not st.toggle(
        "The score at every checkpoint, and of all heads",
        **control("dictionary_training", "Scores through training"),
    ):
        st.empty()
        return
    steps = selection.steps()
    selection.say_steps(steps)

    scores = each_in_slices(
        "Scoring checkpoints",
        steps,
        lambda step: _scores_of(run, step, measures, head.kind),
        key="dictionary-progress",
        stop=lambda: change_view(dictionary_training=False),
    )
    if scores is None:
        return
    at = head.layer, head.head
    lines = {
        "this head": [float(each.values[at]) for each in scores],
        "by chance": [float(each.chance[at]) for each in scores],
    }
    if scores[0].values.size > 1:
        place = np.ravel_multi_index(at, scores[0].values.shape)
        others = [np.delete(each.values, place) for each in scores]  # flat
        lines["largest of the other heads"] = [float(each.max()) for each in others]
    show_figure(
        measure_lines(
            lines, steps=steps, theme=selection.theme, marked=steps.index(selection.step)
        ),
        key="dictionary_lines",
        alt=f"What {head_label(head)} writes, scored at {len(steps)} checkpoints",
        name=f"writes-{head.kind}-{head.layer + 1}-{head.head + 1}",
    )
