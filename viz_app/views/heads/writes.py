"""What the chosen head writes: its dictionary, how good that is, and both through training."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import Head, Kind, head_name
from headwise.model.training.data import Pair
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.dictionary import (
    HELD_NOTE,
    best_other,
    copying_sentence,
    dictionary_arrays,
    entry_text,
    precision_sentence,
    token_names,
)
from headwise.viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from headwise.viz_app.figures.checkpoint_lines import measure_lines
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.dictionaries import (
    MOST_FREQUENT,
    chosen_values,
    head_dictionary,
    no_dictionary,
    values_in,
)
from headwise.viz_app.records.dictionary import HeadDictionary, TokenValues, WritingScores
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.caches import Run, translation_of, weights_of
from headwise.viz_app.views.heads.dictionaries import (
    frequent_values,
    lexicon_for,
    logits_bytes,
    mean_values_of,
    scores_of,
)
from headwise.viz_app.views.heads.sentences import examples_of
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.download import offer_arrays
from headwise.viz_app.views.shared.head_choice import choices_for, chosen_head, head_label
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.slices import NoteDone, in_slices
from headwise.viz_app.views.shared.view import change_view, control, view
from headwise.viz_app.views.shared.widgets import (
    THE_HEAD_ALONE,
    choose_one,
    open_page,
    show_figure,
    show_heading,
)

_MOST_SHOWN = 40
"""Tokens that the table shows; the file has all."""
_MOST_STEPS = 40
"""Checkpoints that are scored; of more, some that are spread evenly."""


@panel("head_writes")
def show_writes(selection: Selection, measures: Measures) -> None:
    """Draw the dictionary of the chosen head, and say how good it is."""
    show_heading("What this head writes")
    head = chosen_head(selection.run.description, view())
    if why := no_dictionary(selection.run.description, head):
        st.caption(why)
        return
    values = _choose_tokens(selection, measures, head.kind)
    if values is None:
        return
    found = _dictionary_of(selection, head, values)
    _show_table(selection, measures, head, found)
    only = None if view().heads.dictionary_training else head
    scores = scores_of(selection.run, selection.step, measures, head.kind, only)
    st.markdown(f"**{head_label(head)}**: {_in_words(selection.run, measures, scores, head)}")
    _show_training(selection, measures, head)


# --- tokens and their values ---------------------------------------------------------------------


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
        return frequent_values(run, step, measures, kind)
    if of == "typed" and not typed:
        return None
    source = typed if of == "typed" and kind == "cross" else selection.text
    target = translation_of(run, step, source)
    if of == "typed" and kind != "cross":
        target = tuple(run.tokenizers.encode_target(typed))
    pair = EncodedPair(
        0, Pair(source, ""), run.tokenizers.encode_source(source.strip()), list(target)
    )
    here = values_in(weights_of(run, step).model, [pair], kind)
    return here if of == "sentence" else _with_means(run, step, measures, kind, here)


def _with_means(
    run: Run, step: int, measures: Measures, kind: Kind, here: TokenValues
) -> TokenValues:
    """Return means in place of the values of typed tokens that the example sentences have."""
    vocabulary = run.tokenizers.target if kind == "decoder_self" else run.tokenizers.source
    ids = list(dict.fromkeys(id for id in here.ids.tolist() if id not in vocabulary.control_ids))
    means, alone = mean_values_of(run, step, measures, kind), chosen_values(here, ids)
    counts, values = np.zeros(len(ids), np.int64), alone.values.copy()
    for place, id in enumerate(ids):
        if id in means.ids:
            of_token = chosen_values(means, [id])
            counts[place], values[:, :, place] = of_token.counts[0], of_token.values[:, :, 0]
    return TokenValues(alone.ids, counts, values)


# --- the dictionary ------------------------------------------------------------------------------


def _dictionary_of(selection: Selection, head: Head, values: TokenValues) -> HeadDictionary:
    weights = weights_of(selection.run, selection.step)
    return cached(
        "dictionary",
        (weights.sha256, head, values.ids.tobytes(), values.values.tobytes()),
        lambda: head_dictionary(weights.model, head, values),
        facts=lambda found: {"run": selection.run.name, "tokens": len(found.ids)},
        needs=logits_bytes(selection.run),
    )


def _show_table(
    selection: Selection, measures: Measures, head: Head, found: HeadDictionary
) -> None:
    run, of = selection.run, view().heads.dictionary_of
    read = token_names(run.tokenizers, head.kind, found.ids.tolist())
    sides = ((found.raised, found.raised_by), (found.lowered, found.lowered_by))
    written = [
        (token_names(run.tokenizers, None, ids), values)
        for side in sides
        for ids, values in zip(side[0].tolist(), side[1], strict=True)
    ]
    texts = [entry_text(names, values) for names, values in written]
    count = len(read)
    rows = [
        Row(
            str(place),
            (
                read[place],
                _seen(int(found.counts[place]), of),
                MarkedText((TextPart(texts[place]),), run.target_language),
                MarkedText((TextPart(texts[count + place]),), run.target_language),
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
    more = (
        f"The {len(rows)} first of {count} tokens; the file has all. " if count > len(rows) else ""
    )
    st.caption(
        f"{more}{HELD_NOTE} A value is the mean over the places of a token in the "
        f"{measures.examples_corpus.sentences:,} example sentences, so that contexts are averaged; "
        "“here” is its value in this sentence, “alone” that of a typed word that none of them has."
    )
    offer_arrays(
        "The dictionary",
        lambda ending: dictionary_arrays(found, run.tokenizers, head.kind),
        run=run.name,
        step=selection.step,
        of=f"writes-{head_name(head)}",
    )


def _seen(count: int, of: str) -> str:
    if of == "sentence":
        return "here"
    return f"{count:,} place{'s' * (count != 1)}" if count else "alone"


def _open(selection: Selection, measures: Measures, head: Head, token: int) -> None:
    """Open the first example sentence with a token, or else the sentence at hand, on Translate."""
    shown: dict[str, object] = {"sentence": selection.text}
    for pair in examples_of(selection.run, measures):
        if token in (pair.target if head.kind == "decoder_self" else pair.source):
            shown = {"sentence": pair.pair.source, "target": pair.pair.target}
            break
    open_page("translate", **shown, **choices_for(head), **THE_HEAD_ALONE)


# --- how good it is ------------------------------------------------------------------------------


def _in_words(run: Run, measures: Measures, scores: WritingScores, head: Head) -> str:
    if scores.tokens < 2:
        return "no score, since the example sentences give too few tokens."
    other = best_other(scores, head)
    score = "" if other is None else f"{scores.values[other.layer, other.head]:.2f}"
    beside = (
        "" if other is None else f" The largest of the other heads is {score}, {head_label(other)}."
    )
    if head.kind == "decoder_self":
        return f"{copying_sentence(scores, head)}{beside}"
    aligner = lexicon_for(run, measures)[1]
    return (
        f"{precision_sentence(scores, head)}{beside} The lexicon has the source words of one token "
        f"and the tokens to which most links of {head_label(aligner)} at checkpoint "
        f"{run.steps()[-1]:,} lead in the example sentences, two at least: it is the model's "
        "own, no person's."
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
    steps = sorted({selection.step, *spread(run.steps(), _MOST_STEPS)})

    def compute(note: NoteDone) -> list[WritingScores]:
        found = []
        for done, step in enumerate(steps, 1):
            found.append(scores_of(run, step, measures, head.kind))
            note(done, len(steps))
        return found

    scores = in_slices(
        "Scoring checkpoints",
        compute,
        key="dictionary-progress",
        stop=lambda: change_view(dictionary_training=False),
    )
    if scores is None:
        return
    at = head.layer, head.head
    others = [
        np.delete(each.values.ravel(), np.ravel_multi_index(at, each.values.shape))
        for each in scores
    ]
    lines = {
        "this head": [float(each.values[at]) for each in scores],
        "by chance": [float(each.chance[at]) for each in scores],
    }
    if others[0].size:
        lines["largest of the other heads"] = [float(each.max()) for each in others]
    show_figure(
        measure_lines(
            lines, steps=steps, theme=selection.theme, marked=steps.index(selection.step)
        ),
        key="dictionary_lines",
        alt=f"What {head_label(head)} writes, scored at {len(steps)} checkpoints",
        name=f"writes-{head.kind}-{head.layer + 1}-{head.head + 1}",
    )
