"""A checkpoint as a person uses it from Python: texts in, texts and arrays out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict, Unpack, overload

from headwise.model.checkpoint import Checkpoint
from headwise.model.decoding.decoder_lens import decoder_lens
from headwise.model.decoding.translation import GREEDY, Decoding, translate
from headwise.model.files import write_bytes
from headwise.model.hooks import Edit, NamedEdit, edit, hook_names
from headwise.model.interface import Description, Head, HeadLike, Tokenizers, to_head, to_heads
from headwise.model.passes import Pass, Texts, run_with_cache
from headwise.model.runs import Run
from headwise.model.turned import Turned
from headwise.model.turning import ablate, turn
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.written import HeadDictionary, head_dictionary
from headwise.viz_app.heads.alike.maps import AlikeHeads, heads_alike
from headwise.viz_app.heads.composition.paths import PathEffects, path
from headwise.viz_app.heads.composition.scores import Composition, composition
from headwise.viz_app.heads.dictionary.scores import mean_values
from headwise.viz_app.heads.rows.query import RowQuery
from headwise.viz_app.heads.rows.search import FoundRows, find_rows
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.report import to_notebook, writer_for
from headwise.viz_app.trace import saved
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.why.sentences.patches import MOST_SECONDS, patch_texts
from headwise.viz_app.why.sentences.patching import Patching
from headwise.viz_app.why.word.account import Account, WholeEffects, run_account, word_to_compare
from headwise.viz_app.why.word.effects import run_contributions, run_whole_effects

_NONE: Mapping[HeadLike, float] = MappingProxyType({})
PinnedRow = tuple[HeadLike, int, int | None]
"""Head, row and the key that has all its weight, from 0; None spreads it over all keys alike."""


class TraceOptions(TypedDict, total=False):
    """How a sentence is traced before something is asked of it; ``trace`` says what each is."""

    target: str | Sequence[int] | None
    ablated: Collection[HeadLike]
    strengths: Mapping[HeadLike, float]
    pinned: Iterable[PinnedRow]
    top_k: int


@dataclass(frozen=True, repr=False, eq=False)
class OpenedTrace(Trace):
    """A ``Trace`` that a notebook draws as a map of all heads, and that has a file by one call."""

    @classmethod
    def of(cls, trace: Trace) -> OpenedTrace:
        """Return a trace with these abilities; the arrays are the same."""
        return cls(**{field.name: getattr(trace, field.name) for field in fields(Trace)})

    def save(self, path: Path | str) -> Path:
        """Write all of it to a file whose name ends in .npz or .json, or a page in .html.

        ValueError if the name ends otherwise, or there is no such folder. CheckpointError if the
        file cannot be written.
        """
        path = Path(path)
        write_bytes(path, writer_for(path)(self))
        return path

    def _repr_html_(self) -> str:
        return to_notebook(self)


def read_trace(path: Path | str) -> OpenedTrace:
    """Read a trace from an .npz or .json file that ``save`` or the app wrote.

    OSError if the file cannot be read. ValueError if it is not a saved trace, of another version,
    too large, or damaged.
    """
    return OpenedTrace.of(saved.read_trace(path))


@dataclass(frozen=True, repr=False)
class OpenedCheckpoint(Checkpoint):
    """A loaded model with the tokenizers of its run: texts in, texts and arrays out.

    It is a ``Checkpoint``: ``model``, ``run``, ``step`` and ``sha256`` are there too, and functions
    that want a model take ``checkpoint.model``. Layers and heads are named as in ``cross.2.4``,
    from 1, or as tuples from 0.
    """

    opened: Run
    """Where it is from."""

    def __repr__(self) -> str:
        return f"<checkpoint of {self.run}, step {self.step:,}, sha256 {self.sha256[:12]}>"

    @property
    def tokenizers(self) -> Tokenizers:
        """Return the vocabularies of source and target."""
        return self.opened.tokenizers

    @property
    def description(self) -> Description:
        """Return the properties of the model: layers, heads, widths, kinds of norms and so on."""
        return self.model.description

    @property
    def heads(self) -> list[Head]:
        """Return all heads, kind by kind, layer by layer."""
        return self.description.all_heads()

    @property
    def hook_names(self) -> list[str]:
        """Return the names of all tensors that can be read or replaced."""
        return hook_names(self.model)

    @overload
    def translate(self, texts: str, decoding: Decoding = ...) -> str: ...
    @overload
    def translate(
        self, texts: list[str] | tuple[str, ...], decoding: Decoding = ...
    ) -> list[str]: ...
    def translate(
        self, texts: str | list[str] | tuple[str, ...], decoding: Decoding = GREEDY
    ) -> str | list[str]:
        """Translate a text, or several, which gives a list."""
        if isinstance(texts, str):
            return translate(self.model, self.tokenizers, [texts], decoding=decoding)[0]
        return translate(self.model, self.tokenizers, list(texts), decoding=decoding)

    def trace(
        self,
        text: str,
        target: str | Sequence[int] | None = None,
        *,
        ablated: Collection[HeadLike] = (),
        strengths: Mapping[HeadLike, float] = _NONE,
        pinned: Iterable[PinnedRow] = (),
        top_k: int = 10,
    ) -> OpenedTrace:
        """Translate a sentence, or force a target, and record all arrays of the pass.

        The trace names run, step and sha256 of this checkpoint; a notebook shows it as a map.
        ValueError if source or target is empty or too long, there is no such head, or a strength or
        place is out of range.

        Args:
            text: the source.
            target: the translation to force, as a text or as ids from the start token on; None
                for the model's own, greedy.
            ablated: heads that are switched off, in decoding too.
            strengths: factors of the outputs of heads, from -1 to 3: 0 is off, 1 the model.
            pinned: rows of attention weights that are set, as for ``turn``.
            top_k: how many of the likeliest tokens are named at each step.
        """
        if not isinstance(text, str):
            raise ValueError(f"text: expected one text, got a {type(text).__name__}")
        of_heads: dict[HeadLike, float] = dict.fromkeys(to_heads(ablated), 0.0)
        of_heads |= {to_head(head): strength for head, strength in strengths.items()}
        turned = Turned.of(of_heads, pinned)
        made = run_trace(self.model, self.tokenizers, text, target, top_k=top_k, turned=turned)
        return OpenedTrace.of(made)

    def run_with_cache(
        self,
        sources: Texts,
        targets: Texts | None = None,
        *,
        names: str | Iterable[str] = "*",
        grad: bool = False,
    ) -> Pass:
        """Run once on sources and targets; return logits (B, T, V) and the tensors by hook point.

        ``help(headwise.model.passes.run_with_cache)`` has the details.
        """
        return run_with_cache(self.model, self.tokenizers, sources, targets, names=names, grad=grad)

    def edit(self, edits: Mapping[str, Edit | NamedEdit]) -> AbstractContextManager[None]:
        """Replace tensors by functions of them, within a ``with``: ``edit`` in ``model/hooks.py``.

        Keys are names of hook points or patterns such as ``decoder.*.weights``; a function gets the
        tensor and, if it takes two arguments, the name.
        """
        return edit(self.model, edits)

    def ablate(self, heads: Collection[HeadLike]) -> AbstractContextManager[None]:
        """Switch heads off, within a ``with``: their output is zero. ValueError without such a
        head.
        """
        return ablate(self.model, heads)

    def turn(
        self, strengths: Mapping[HeadLike, float] = _NONE, pinned: Iterable[PinnedRow] = ()
    ) -> AbstractContextManager[None]:
        """Turn heads and pin rows of attention weights, within a ``with``.

        Strengths are factors of the outputs of heads, from -1 to 3: 0 is off, 1 the model. What is
        pinned is head, row and the key that has all its weight, counted from 0; None in place of
        the key spreads it evenly. ValueError without such a head, or if one is out of range.
        """
        return turn(self.model, Turned.of(strengths, pinned))

    def why(
        self,
        text: str,
        at: int | str,
        *,
        instead: str | None = None,
        **options: Unpack[TraceOptions],
    ) -> Account:
        """Say why a word was written, and not another: a sum over what each part wrote.

        ``dict(account.named())`` has the parts, in nats of the difference of the two logits. ``at``
        is which token of the translation, from 1, or its text if that is there once; ``instead``
        the token to compare with: None for the likeliest other one, "mean" for the mean of all
        logits. Text, options and errors are those of ``trace``; ValueError, too, without such a
        token.
        """
        return run_account(self.model, *self._asked(text, at, instead, options))

    def whole_effects(
        self,
        text: str,
        at: int | str,
        *,
        instead: str | None = None,
        **options: Unpack[TraceOptions],
    ) -> WholeEffects:
        """Say what the difference that ``why`` takes apart loses without each part, by stack.

        ``why(…).arrays(whole_effects(…))`` has both under the names of files. Arguments and errors
        are those of ``why``.
        """
        return run_whole_effects(self.model, *self._asked(text, at, instead, options))

    def _asked(
        self, text: str, at: int | str, instead: str | None, options: TraceOptions
    ) -> tuple[Trace, int, int | None]:
        trace = self.trace(text, **options)
        step = trace.step_of(at)
        return trace, step, word_to_compare(self.tokenizers, trace, step, instead)

    def contributions(self, text: str, target: str | Sequence[int] | None = None) -> Floats:
        """Say how much of each prediction comes from each source token, by ALTI+: (T, S).

        The rest of a row, to 1, comes from the target so far (Ferrando et al. 2022). Arguments and
        errors are those of ``trace``.
        """
        return run_contributions(self.model, self.trace(text, target))

    def decoder_lens(self, text: str) -> list[str]:
        """Translate from each layer of the encoder, its embedding first: the DecoderLens.

        The output of each takes the place of the encoder's (Langedijk et al. 2023); the last is the
        model's own translation, greedy. ValueError if the text is empty or too long.
        """
        sources, prefix = [self.tokenizers.encode_source(text)], self.tokenizers.prefix
        layers = range(self.description.n_encoder_layers + 1)
        ids = [decoder_lens(self.model, sources, layer, prefix)[0] for layer in layers]
        return [self.tokenizers.target.decode(of_layer) for of_layer in ids]

    def score_parts(
        self, text: str, head: HeadLike, row: int, **options: Unpack[TraceOptions]
    ) -> ScoreParts:
        """Take a row of a head's scores apart: parts of its query times parts of its keys.

        ``score_parts(…).tables()`` has what each pair of parts adds to the score of each key. The
        row is the query, from 0: a source token in the encoder, else a step of decoding. Text,
        options and errors are those of ``trace``; ValueError, too, without such a head or row.
        """
        trace = self.trace(text, **options)
        return score_parts(self.model, trace, to_head(head), row)

    def dictionary(
        self, head: HeadLike, pairs: Sequence[tuple[str, str]], *, named: int = 5
    ) -> HeadDictionary:
        """Say which target tokens a head raises most, and lowers most, by the token that it reads.

        The head is one of cross-attention or of the decoder's self-attention. Values of tokens are
        means over their places in pairs of (source, target) texts, whose targets are forced; at
        most ``named`` target tokens are named of either. ValueError without such a head, or words
        of what it writes, or any to be named; DataError if the model can take none of the pairs.
        """
        asked = to_head(head)
        values = mean_values(self.model, self._encoded(pairs), asked.kind)
        return head_dictionary(self.model, self.tokenizers, asked, values, named=named)

    def find_rows(self, query: RowQuery, pairs: Sequence[tuple[str, str]]) -> FoundRows:
        """Find the rows of attention maps in which a head has weight on something.

        A query is such as ``RowQuery("cross", "punctuation", least=0.5)``; targets of the pairs of
        (source, target) texts are forced. ValueError if the model does not have what is asked for;
        DataError if it can take none of the pairs.
        """
        return find_rows(self.model, self._encoded(pairs), query)

    def heads_alike(
        self, head: HeadLike, pairs: Sequence[tuple[str, str]], other: Checkpoint | None = None
    ) -> AlikeHeads:
        """Compare the maps of a head with those of all heads of its kind, nearest first.

        They are those of ``other``, a checkpoint of the same tokenizer, or of this one; targets of
        the pairs of (source, target) texts are forced. ValueError without such a head; DataError if
        the model can take none of the pairs.
        """
        return heads_alike(self.model, self._encoded(pairs), to_head(head), other)

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> Sentences:
        return Sentences.of(self.tokenizers, pairs, max_length=self.description.max_length)

    def composition(self) -> Composition:
        """Compare what each head writes with what later ones read, by their weights."""
        return composition(self.model)

    def path(
        self, text: str, earlier: HeadLike, later: HeadLike, **options: Unpack[TraceOptions]
    ) -> PathEffects:
        """Take what a head wrote out of only the queries, keys or values of a later one.

        Heads are such as ``cross.2.4``. Text, options and errors are those of ``trace``;
        ValueError, too, if the later head reads nothing of the earlier one.
        """
        trace = self.trace(text, **options)
        return path(self.model, trace, to_head(earlier), to_head(later))

    def patch(
        self,
        text: str,
        other: str,
        *,
        target: str | Sequence[int] | None = None,
        at: int | str | None = None,
        words: tuple[str, str] | None = None,
        attribution: bool = False,
        most_seconds: float = MOST_SECONDS,
    ) -> Patching:
        """Say what of another sentence brings its answer back, put into this one.

        ``help(headwise.viz_app.why.sentences.patches.patch_texts)`` has the arguments and errors.
        """
        return patch_texts(
            self.model,
            self.tokenizers,
            text,
            other,
            target=target,
            at=at,
            words=words,
            attribution=attribution,
            most_seconds=most_seconds,
        )
