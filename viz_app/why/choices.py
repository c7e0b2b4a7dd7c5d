"""What a person chooses on the page Why: what each part brought to a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from headwise.viz_app.session.choices import NamedPins, choice
from headwise.viz_app.why.sentences.patching import PatchMap

_WORD = {"why": "this word"}
_PARTS, _TOKENS, _ENCODER, _NEURONS = (
    _WORD | {"answer": answer} for answer in ("parts", "tokens", "encoder", "neurons")
)
_TWO = {"why": "two sentences"}
_PAIR = _TWO | {"other": "?"}
_PATCHED = _PAIR | {"patching": "true"}


@dataclass(frozen=True)
class WhyChoices:
    """The choices of the page Why; layers and neurons are counted from 1."""

    why: Literal["this word", "two sentences", "turn heads"] = "this word"
    """The section."""
    answer: Literal["parts", "tokens", "encoder", "neurons", "words", "training"] = choice(
        "parts", where=_WORD, opens=True
    )
    """What is shown of why the word was written."""
    account: Literal["bars", "waterfall"] = choice("bars", where=_PARTS)
    smallest: FiniteFloat = choice(0.1, where=_PARTS | {"account": "bars"})
    """Least magnitude of a part that has a bar of its own."""
    whole: bool = choice(False, where=_PARTS)
    """Whether the whole effects are computed and drawn beside the direct ones."""
    earlier: int | None = choice(None, of="target", where=_TOKENS)
    """A token of the target so far that is marked, counted from 0, which is the start token."""
    feed_forward: int | None = choice(None, of="run", where=_NEURONS)
    """The feed-forward whose neurons are drawn, by its layer."""
    neuron: int | None = choice(None, of="at step feed_forward", where=_NEURONS)
    """The neuron that is described."""
    encoder_feed_forward: int | None = choice(None, of="run", where=_ENCODER | {"column": "0"})
    """The feed-forward of the encoder whose neurons are drawn at the marked token."""
    encoder_neuron: int | None = choice(
        None, of="source step encoder_feed_forward", where=_ENCODER | {"column": "0"}
    )
    """The neuron of it that is described."""
    pinned: NamedPins = choice((), of="source", where={"why": "turn heads"})
    """Rows of attention weights that are set."""

    other: str | None = choice(None, of="run", where=_TWO)
    """The second sentence, B; None, until the section is seen, for that of a prepared pair."""
    changed_word: int | None = choice(None, of="sentence", where=_TWO)
    """The word of the sentence that is changed to make B."""
    in_its_place: str = choice("", of="sentence changed_word", where=_TWO | {"changed_word": "0"})
    """What B has in its place."""
    shared_by: Literal["A", "B"] = choice("A", of="sentence", where=_PAIR)
    """Whose target both sentences are given."""
    parting: int | None = choice(None, of="target step other", where=_PAIR)
    """The step at which two words compete, from 0; None for the one where the two translations
    part."""
    first_word: str = choice("", of="target step other shared_by parting", where=_PAIR)
    """One of the two words: empty for A's, a token of the list, or a typed one."""
    second_word: str = choice("", of="target step other shared_by parting", where=_PAIR)
    """The other one: empty for B's, and as the first."""
    patching: bool = choice(False, where=_PAIR)
    """Whether A is run with each thing of B in its place."""
    patch: str = choice(
        "", of="target other shared_by parting first_word second_word", where=_PATCHED
    )
    """The patch under which A is translated anew, by its name."""
    attributed: bool = choice(False, where=_PATCHED)
    """Whether attribution patching is drawn at every checkpoint."""
    attributed_map: PatchMap = choice("sublayers", where=_PATCHED | {"attributed": "true"})
    """Which map of attribution patching is drawn at every checkpoint."""
    compared: bool = choice(False, where=_PATCHED | {"attributed": "true"})
    """Whether every checkpoint's attribution patching is compared with exact passes."""
