"""Two sentences, their target, the two words that compete at a step, and the patches as files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from headwise.model.files import lines_of
from headwise.model.interface import Description
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_slowly, ask_weights_of
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import Run, Weights, trace_of, weights_of
from headwise.viz_app.session.download import Files
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone
from headwise.viz_app.session.view import view
from headwise.viz_app.session.vocabulary import SideVocabulary, find_token, vocabulary_of
from headwise.viz_app.why.sentences.correspondence import (
    Stretch,
    corresponding,
    counterpart,
    parting,
    stretch_labels,
)
from headwise.viz_app.why.sentences.patches import require_time, run_attribution, run_patching
from headwise.viz_app.why.sentences.patching import PatchedPair, Patching

_FOLDER = Path(__file__).parents[3] / "sentences"
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class SentencePair:
    """Two sentences, A and B, are traced on one target, and each on a target of its own."""

    own_a: Trace
    """A with the target that the page shows: the model's, or one that is forced."""
    own_b: Trace
    """B with the model's translation."""
    a: Trace
    """A with the shared target."""
    b: Trace
    """B with the shared target."""

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Which tokens of the two correspond."""
        return corresponding(self.a.source, self.b.source)

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the stretches."""
        return stretch_labels(self.a.source, self.b.source, self.stretches)

    @property
    def parts_at(self) -> int | None:
        """The step at which the two translations part; None if no token of them differs."""
        return parting(self.own_a.predicted.ids, self.own_b.predicted.ids)

    @property
    def first_step(self) -> int:
        """The step that is asked about at first: where they part, or the odds differ most."""
        place = self.parts_at
        if place is not None and place < len(self.a.predicted):
            return place
        of_a, of_b = (each.predictions.log_probability for each in (self.a, self.b))
        return int(np.abs(of_a - of_b).argmax())

    def first_words(self, at: int) -> tuple[int, int]:
        """Return the words that compete at a step at first: A's, and the one that B has instead.

        Where the other sentence's translation has none in place of the shared target's, it is the
        token that is likeliest in that sentence besides.
        """
        if at == self.parts_at:
            return self.own_a.predicted.ids[at], self.own_b.predicted.ids[at]
        shared, of_a = self.a.predicted, self.own_a.target_ids == self.a.target_ids
        own, given = (self.own_b, self.b) if of_a else (self.own_a, self.a)
        word, other = shared.ids[at], counterpart(shared, own.predicted, at)
        if other is None:
            likeliest = given.predictions.top_ids[at].tolist()
            other = next(id for id in likeliest if id != word)
        return (word, other) if of_a else (other, word)

    def refused(self, model: Description, at: int) -> ValueError | None:
        """Return why exact patches at a step would take too long; None if they would not."""
        try:
            require_time(model, len(self.a.source), self.stretches, at + 1)
        except ValueError as problem:
            return problem
        return None


def second_sentence(selection: Selection) -> str:
    """Return B: what was chosen, or at first that of the prepared pair with this first sentence."""
    chosen = view().why.other
    if chosen is not None:
        return chosen.strip()
    text = selection.text.strip()
    return next((pair.b for pair in prepared_pairs(selection.run) if pair.a == text), "")


def pair_of(selection: Selection, trace: Trace, other: str) -> SentencePair:
    """Trace B, and both sentences with the target that they share."""
    run, step = selection.run, selection.step
    own = trace_of(run, step, other)
    shared = (trace if view().why.shared_by == "A" else own).target_ids
    a, b = (trace_of(run, step, text, shared) for text in (selection.text, other))
    return SentencePair(trace, own, a, b)


def chosen_words(
    selection: Selection, pair: SentencePair, at: int, vocabulary: SideVocabulary
) -> tuple[int, int]:
    """Return the two words that compete at a step: those of the view, or the first ones.

    ``ValueError`` if what was typed is no token, or both are the same.
    """
    chosen = (view().why.first_word, view().why.second_word)
    first, second = (
        own if name == "" else find_token(selection, vocabulary, name)
        for own, name in zip(pair.first_words(at), chosen, strict=True)
    )
    if first == second:
        raise ValueError("The two words are the same; choose another one.")
    return first, second


def question_of(selection: Selection, trace: Trace) -> tuple[SentencePair, int, tuple[int, int]]:
    """Return the pair of the view, whose first sentence is that of a trace, the step and the words.

    ``ValueError`` if there is no second sentence, or what was typed is no token.
    """
    other = second_sentence(selection)
    if not other:
        raise ValueError("expected a second sentence to compare with; type one on the page Why")
    pair = pair_of(selection, trace, other)
    at = view().why.parting
    at = pair.first_step if at is None or at >= len(pair.a.predicted) else at
    return pair, at, chosen_words(selection, pair, at, vocabulary_of(selection, "target"))


def patched_pair_of(selection: Selection, trace: Trace, note_done: NoteDone) -> PatchedPair:
    """Patch the sentence of a trace by the second one, as ``question_of`` has it.

    If ``note_done`` ends it, the next call goes on from there.
    """
    pair, at, words = question_of(selection, trace)
    weights = weights_of(selection.run, selection.step)
    found = patching_of(weights, pair, at, words, note_done)
    first, second = (vocabulary_of(selection, "target").labels[word] for word in words)
    return PatchedPair(found, tuple(pair.labels), (first, second))


def patching_of(
    weights: Weights, pair: SentencePair, at: int, words: tuple[int, int], note_done: NoteDone
) -> Patching:
    """Ask ``run_patching`` of a pair; if ``note_done`` ends it, the next call goes on there."""
    return ask_slowly(weights, run_patching, pair.a, note_done, pair.b.source, at, words)


def attribution_of(
    weights: Weights, pair: SentencePair, at: int, words: tuple[int, int]
) -> Patching:
    """Approximate ``patching_of`` by one backward pass."""
    return ask_weights_of(weights, run_attribution, pair.a, pair.b.source, at, words)


@dataclass(frozen=True)
class PreparedPair:
    """Two sentences that differ in one thing."""

    phenomenon: str
    a: str
    b: str


def prepared_pairs(run: Run) -> tuple[PreparedPair, ...]:
    """Return the pairs that come with Headwise in the source language of a run.

    Those with words that the run's vocabulary lacks are left out; so are all of other languages.
    """
    path = _FOLDER / f"two-{run.source_language}-{run.target_language}.jsonl"
    reader = TypeAdapter(PreparedPair)

    def read() -> tuple[PreparedPair, ...]:
        if not path.is_file():
            return ()
        rows = lines_of(path.read_bytes())
        pairs = (reader.validate_json(row) for row in rows)
        unknown = run.tokenizers.source.unknown
        return tuple(pair for pair in pairs if not (unknown(pair.a) or unknown(pair.b)))

    return cached("prepared pairs", (path.name, run.tokenizers_sha256), read)


def words_in(text: str) -> list[str]:
    """Return the words and marks of a text, in order."""
    return _WORD.findall(text)


def with_word(text: str, place: int, instead: str) -> str:
    """Return a text with one of ``words_in`` it replaced, or, by an empty one, left out."""
    found = list(_WORD.finditer(text))[place]
    changed = text[: found.start()] + instead.strip() + text[found.end() :]
    return changed if instead.strip() else " ".join(changed.split())


def files_of_patching(selection: Selection, trace: Trace) -> Files | None:
    """Return the file of the patches that are shown; None if none are, or a word is no token."""
    try:
        pair, at, words = question_of(selection, trace)
    except ValueError:  # the page has said so
        return None
    run = selection.run
    exact = pair.refused(run.description, at) is None
    if exact and not view().why.patching:
        return None

    def arrays() -> bytes:
        weights = weights_of(run, selection.step)
        if exact:
            found = patching_of(weights, pair, at, words, lambda done, of: None)
        else:
            found = attribution_of(weights, pair, at, words)
        return found.file(".npz")

    return Files(
        f"The patches that are shown, {'' if exact else 'to first order, '}as arrays of log-odds",
        f"headwise-{trace.run}-{trace.step}-{'patches' if exact else 'attribution'}-{at + 1}",
        {"npz": arrays},
    )
