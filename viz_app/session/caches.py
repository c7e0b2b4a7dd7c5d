"""Gives the pages what they need of runs and models: checkpoints, traces, translations.

This is the only file of the pages that imports what runs models. Each function computes once what
it is asked for, for all sessions, and keeps it in a bounded cache (``cache.py``). All raise
``CheckpointError`` if a run or its weights cannot be used; those that take a sentence raise
``ValueError`` if it, or its target, is empty or too long, or a head does not exist.

Only ``continuation_of`` and ``beam_of`` decode; all others are given the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headwise.model.checkpoint import CHECKPOINTS as CHECKPOINTS
from headwise.model.checkpoint import Checkpoint
from headwise.model.decoding.beam import Beam as Beam
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.decoder_lens import decoder_lens
from headwise.model.decoding.greedy import greedy
from headwise.model.estimates import (
    costs_bytes,
    decoding_bytes,
    layer_bytes,
    logits_bytes,
    maps_bytes,
    trace_bytes,
)
from headwise.model.files import CheckpointError
from headwise.model.hooks import call_before_layers
from headwise.model.interface import Description, Kind, Languages, Seq2SeqModel, Side
from headwise.model.interventions import head_costs, mean_shapes
from headwise.model.placement import allow_threads
from headwise.model.runs import Run as Run
from headwise.model.runs import load_checkpoint, open_folder, read_log_file
from headwise.model.runs import log_file as log_file
from headwise.model.runs import steps_in as steps_in
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn
from headwise.viz_app.analysis.curves import LogRow as LogRow
from headwise.viz_app.measuring.tensor_files import HeadMeans as HeadMeans
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Floats, Tokens, Trace
from headwise.viz_app.served import served_models, served_placement
from headwise.viz_app.session import cache
from headwise.viz_app.session.cache import cached, is_cached, note_recipe, stamp_if_there, stamp_of
from headwise.viz_app.session.log import Facts
from headwise.viz_app.session.turns import stop_if_unwanted
from headwise.viz_app.trace.attention import AttentionTrace as AttentionTrace
from headwise.viz_app.trace.attention import next_log_probability as run_next_token
from headwise.viz_app.trace.attention import (
    run_attention,
    target_log_probability,
    to_numpy,
    to_tensor,
)
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import require_source, run_trace
from headwise.viz_app.trace.sentence import to_tokens as to_tokens

Ids = tuple[int, ...]
Result = TypeVar("Result")
_MOST_AHEAD = 6
"""How many checkpoints ahead another is loaded."""


def run_named(name: str, languages: Languages | None = None) -> Run:
    """Open one of the models that the app serves, for a choice of languages if it has several."""
    models = served_models()
    if name not in models:
        raise CheckpointError(f"there is no model {name!r}; there is: {', '.join(models)}")
    folder = models[name]

    def open_it() -> Run:
        run = open_folder(folder, name)
        return run if languages is None else run.for_languages(languages)

    stamps = (stamp_if_there(folder / file) for file in ("run.json", "config.json"))
    return cached(
        "run opened",
        (str(folder), name, languages, *stamps),
        open_it,
        facts=lambda _: {"run": name},
    )


def runs_beside(own: Run, suits: Callable[[Run], bool]) -> list[Run]:
    """Return the other runs that suit, can be opened, and have a checkpoint."""
    found = []
    for name in (name for name in served_models() if name != own.name):
        with suppress(CheckpointError):  # one that cannot be opened says so when it is chosen
            if suits(run := run_named(name)) and run.steps():
                found.append(run)
    return found


def log_of(folder: Path, name: str) -> Sequence[LogRow]:
    """Read the rows of a run's log; none where there is no log.

    A line that cannot be read is an error if it is not the last.
    """
    path = log_file(folder, name)
    return cached(
        "log read",
        (str(path), stamp_if_there(path)),
        lambda: tuple(read_log_file(path)),
        facts=lambda rows: {"run": folder.name, "file": name, "rows": len(rows)},
        says=f"Reading {name}",
    )


def samples_of(run: Run) -> list[LogRow]:
    """Return what was logged of sample sentences; none if it is damaged, which the frame says."""
    with suppress(CheckpointError):
        return [row for row in log_of(run.folder, "samples.jsonl") if row.get("source")]
    return []


def checkpoint_of(run: Run, step: int, *, says: bool = True) -> Checkpoint:
    """Load a checkpoint; the page ``says`` so if it takes long."""
    path = run.weights_path(step)
    if not path.exists():
        run.load(step)  # raises, naming the steps that are there

    def load() -> Checkpoint:
        allow_threads(run.parameters)
        checkpoint = load_checkpoint(run, step, served_placement())
        call_before_layers(checkpoint.model, stop_if_unwanted)
        return checkpoint

    return cached(
        "checkpoint loaded",
        (str(path), stamp_of(path)),
        load,
        model_bytes=served_placement().bytes_of(run.parameters),
        facts=lambda checkpoint: {"run": run.name, "step": step, "sha256": checkpoint.sha256[:12]},
        says=f"Loading the weights of checkpoint {step:,}" * says,
    )


def load_ahead(run: Run, step: int, following: Sequence[int]) -> None:
    """Have one of the following checkpoints loaded in a thread, if that of this step had to be.

    A thread that reads, hashes or converts weights leaves Python to the thread that decodes, and
    goes on while the browser draws. It fills no more than half of the models' cache.
    """
    path = run.weights_path(step)
    fit = cache.MODEL_BYTES // 2 // served_placement().bytes_of(run.parameters)
    ahead = min(fit, _MOST_AHEAD)
    if is_cached("checkpoint loaded", (str(path), stamp_if_there(path))):
        for later in following[ahead - 1 : ahead]:  # none if not even one fits
            cache.loader().load(partial(checkpoint_of, run, later, says=False))


@dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint, which are in memory only while something is computed from them.

    What is computed once has the hash in its key. So a page that has its results does not load a
    checkpoint again that others have driven out.
    """

    run: Run
    step: int
    sha256: str

    @property
    def model(self) -> Seq2SeqModel:
        """The model, which is loaded where it is not in memory any more.

        Raises:
            CheckpointError: if it cannot be, or its file was replaced since.
        """
        checkpoint = checkpoint_of(self.run, self.step)
        if checkpoint.sha256 != self.sha256:
            path = self.run.weights_path(self.step)
            raise CheckpointError(f"{path}: was replaced while it was in use; ask again")
        return checkpoint.model


def weights_of(run: Run, step: int) -> Weights:
    """Return the weights of a checkpoint, which is loaded once, so that they are known to be sound.

    (Once for each file that has been there: one that was replaced is loaded again.)
    """
    path = run.weights_path(step)
    sha256 = cached(
        "weights verified",
        (str(path), stamp_if_there(path)),
        lambda: checkpoint_of(run, step).sha256,
        facts=lambda _: {"run": run.name, "step": step},
    )
    return Weights(run, step, sha256)


def weights_sha256(run: Run, step: int) -> str:
    """Return the hash of the weights of a step, without loading them."""
    path = run.weights_path(step)
    return cached(
        "hash read",
        (str(path), stamp_of(path)),
        lambda: run.sha256(step),
        facts=lambda _: {"run": run.name, "step": step},
    )


def embedding_table(run: Run, step: int, side: Side) -> Floats:
    """Return the embeddings of the source or the target, (V, D), not scaled."""
    weights = weights_of(run, step)
    return cached(
        "embedding table",
        (weights.sha256, "" if run.description.tied == "all" else side),
        lambda: to_numpy(weights.model.embedding_table(side)),
        facts=lambda _: {"run": run.name, "step": step},
    )


def embeddings_of(run: Run, step: int, side: Side, ids: Ids) -> Floats:
    """Return the embeddings of some tokens of the source or the target, (n, D), not scaled."""
    weights = weights_of(run, step)
    return cached(
        "embeddings",
        (weights.sha256, side, ids),
        lambda: to_numpy(weights.model.embedding_table(side))[list(ids)],
        facts=lambda _: {"run": run.name, "step": step, "tokens": len(ids)},
    )


def tokens_of(run: Run, side: str, ids: Sequence[int]) -> Tokens:
    """Return the tokens that ids stand for on the side ``source`` or ``target`` of a run."""
    return to_tokens(getattr(run.tokenizers, side), ids)


def source_of(run: Run, text: str) -> Ids:
    """Return the ids of a source; a ``ValueError`` if the model cannot read it."""
    source = tuple(run.tokenizers.encode_source(text.strip()))
    require_source(run.description, text, source)
    return source


def trace_of(
    run: Run, step: int, text: str, target: Ids | None = None, *, turned: Turned = AS_IT_IS
) -> Trace:
    """Trace a sentence with a target's ids, or with ``translation_of`` the sentence.

    A translation that is also given as a target has one trace: only ``forced`` differs.
    """
    weights, forced = weights_of(run, step), target is not None
    source = source_of(run, text)
    ids = translation_of(run, step, source, turned=turned) if target is None else target
    name, sha256 = run.name, weights.sha256
    # The tokenizers of the run that is open: its files may be others by now.
    tokenizers = run.tokenizers_sha256

    def compute() -> Trace:
        trace = run_trace(weights.model, run.tokenizers, text, ids, turned=turned, read=source)
        return replace(trace, run=name, forced=False)  # the name under which the app lists it

    key = (name, tokenizers, step, sha256, text, ids, turned)
    trace = cached(
        "trace",
        key,
        compute,
        facts=lambda trace: {
            "run": name,
            "step": step,
            "heads_turned": len(turned.heads),
            "source": len(trace.source),
            "target": len(trace.predicted),
        },
        says="Recording the attention",
        needs=trace_bytes(run.description, len(source), len(ids) - 1),
    )
    found = replace(trace, forced=True) if forced else trace
    if is_cached("trace", key):  # else it would be computed anew each time
        note_recipe(found, partial(trace_of, run, step, text, target, turned=turned))
    return found


def layer_trace_of(run: Run, trace: Trace, kind: Kind, layer: int) -> LayerTrace:
    """Trace one layer in full, on the source, target and checkpoint of a trace of this run."""
    weights = weights_of(run, trace.step)
    return cached(
        "layer",
        (weights.sha256, trace.source.ids, trace.target_ids, trace.turned, kind, layer),
        lambda: run_layer_trace(weights.model, trace, kind, layer),
        facts=lambda _: {"run": run.name, "step": trace.step, "of": f"{kind} {layer + 1}"},
        needs=layer_bytes(run.description, len(trace.source), len(trace.predicted)),
    )


def translation_of(run: Run, step: int, text: str | Ids, *, turned: Turned = AS_IT_IS) -> Ids:
    """Translate a text, or ``source_of`` it, greedily, perhaps with heads turned; return ids."""
    return continuation_of(run, step, text, run.tokenizers.prefix, turned=turned)


def continuation_of(
    run: Run, step: int, text: str | Ids, prefix: Ids, *, turned: Turned = AS_IT_IS
) -> Ids:
    """Continue a target greedily from its first ids; return all ids, from ``<s>`` on."""

    def decode(model: Seq2SeqModel, source: Ids, prefix: Ids, turned: Turned) -> Ids:
        # Some models begin targets with the token that ends them.
        if len(prefix) > 1 and prefix[-1] in model.special_ids.ends:
            return prefix
        with turn(model, turned):
            return tuple(greedy(model, [source], prefix)[0])

    return _of_sentence(
        "translated",
        (run, step, text),
        (prefix, turned),
        decode,
        facts=lambda ids: {"target": len(ids) - 1},
        says="Translating",
        needs=decoding_bytes,
    )


def decoder_lens_of(run: Run, step: int, texts: tuple[str, ...], layer: int) -> None:
    """Translate sentences from a layer of the encoder, unless ``decoder_lens_so_far`` has them."""
    found = decoder_lens_so_far(run, step, texts)
    if layer in found:
        return
    weights, sources = weights_of(run, step), [source_of(run, text) for text in texts]

    def compute() -> list[str]:
        translated = decoder_lens(weights.model, sources, layer, run.tokenizers.prefix)
        return [run.tokenizers.target.decode(ids) for ids in translated]

    found[layer] = cached(
        "decoder lens",
        (weights.sha256, run.tokenizers_sha256, tuple(sources), layer),
        compute,
        facts=lambda _: {"run": run.name, "step": step, "sentences": len(texts), "layer": layer},
        needs=decoding_bytes(run.description, max(map(len, sources), default=0), len(sources)),
    )


def decoder_lens_so_far(run: Run, step: int, texts: tuple[str, ...]) -> dict[int, list[str]]:
    """Return the translations by encoder layer, 0 for its embedding, that were made up to now."""
    sources = tuple(source_of(run, text) for text in texts)
    key = weights_sha256(run, step), run.tokenizers_sha256, sources
    return cached("decoder lens, so far", key, dict)


def beam_of(run: Run, step: int, text: str, size: int, *, turned: Turned = AS_IT_IS) -> Beam:
    """Translate a sentence by a beam search of some width, perhaps with heads turned."""

    def search(model: Seq2SeqModel, source: Ids, prefix: Ids, size: int, turned: Turned) -> Beam:
        with turn(model, turned):
            return beam_search(model, [source], size=size, prefix=prefix)[0]

    return _of_sentence(
        "beam search",
        (run, step, text),
        (tuple(run.tokenizers.prefix), size, turned),
        search,
        facts=lambda _: {"width": size},
        says="Searching with a beam",
        needs=lambda model, source: decoding_bytes(model, source, size),
    )


def attention_of(run: Run, step: int, text: str, target: Ids) -> AttentionTrace:
    """Compute the attention maps of a sentence and a target's ids, without the rest of a trace."""
    return _of_sentence(
        "attention",
        (run, step, text),
        (target,),
        run_attention,
        needs=lambda model, source: maps_bytes(model, source, len(target) - 1),
    )


def log_probability_of(run: Run, step: int, text: str, target: Ids) -> Floats:
    """Return the log-probability of each token of a target's ids after ``<s>``, (T,), in nats."""
    return _of_sentence(
        "log-probability",
        (run, step, text),
        (target,),
        target_log_probability,
        needs=lambda model, source: logits_bytes(model, source, len(target) - 1),
    )


def next_log_probability(run: Run, step: int, text: str, prefix: Ids) -> Floats:
    """Return the log-probability of every token after the first ids of a target, (V,), in nats."""
    return _of_sentence("next token", (run, step, text), (prefix,), run_next_token)


def head_costs_of(
    run: Run, step: int, text: str, target: Ids, *, means: HeadMeans | None = None
) -> dict[Kind, Floats]:
    """Compute what ablating each head costs a target's ids, in nats: kind → (L, H).

    With the heads' means it is mean ablation, without them zero ablation.
    """

    def compute(model: Seq2SeqModel, source: Ids, target: Ids, _: str) -> dict[Kind, Floats]:
        arrays = means.means.items() if means is not None else ()
        instead = {kind: to_tensor(array) for kind, array in arrays} or None
        costs = head_costs(model, source, target, means=instead)
        return {kind: to_numpy(cost) for kind, cost in costs.items()}

    measured_on = "" if means is None else f"{means.corpus.sha256} {means.corpus.sentences}"
    return _of_sentence(
        "head costs",
        (run, step, text),
        (target, measured_on),
        compute,
        says="Switching off each head in turn",
        needs=lambda model, source: costs_bytes(model, source, len(target) - 1),
    )


def head_means_of(run: Run, step: int) -> HeadMeans | None:
    """Return the mean outputs of a checkpoint's heads over the measured corpus, if there are any.

    Raises:
        CheckpointError: if their file is damaged, or of other weights.
    """
    path = HeadMeans.path(run.folder, step)

    def read() -> HeadMeans | None:
        means = HeadMeans.read(run.folder, step)
        if means is None:
            return None
        shapes = {kind: array.shape for kind, array in means.means.items()}
        if means.sha256 != weights_sha256(run, step) or shapes != mean_shapes(run.description):
            raise CheckpointError(f"{path}: the means are of other weights; measure again")
        return means

    return cached(
        "head means read",
        (str(path), stamp_if_there(path), weights_sha256(run, step)),
        read,
        facts=lambda _: {"run": run.name, "step": step},
    )


def _of_sentence(
    what: str,
    sentence: tuple[Run, int, str | Ids],
    given: tuple[Any, ...],
    compute: Callable[..., Result],
    *,
    facts: Callable[[Result], Facts] | None = None,
    says: str = "",
    needs: Callable[[Description, int], int] = lambda model, source: 0,
) -> Result:
    """Compute something from a model, the ids of a source and what else is given, and cache it.

    ``sentence`` has the run, the step and the text, or its ids; ``needs`` is told the model's
    description and the source's length; all else is as for ``cached``. Without facts, a target is
    given first, whose length is logged.
    """
    run, step, text = sentence
    weights = weights_of(run, step)
    source = source_of(run, text) if isinstance(text, str) else text
    about: Facts = {"run": run.name, "step": step, "source": len(source)}

    def described(found: Result) -> Facts:
        return about | (facts(found) if facts else {"target": len(given[0]) - 1})

    return cached(
        what,
        (weights.sha256, source, *given),
        lambda: compute(weights.model, source, *given),
        facts=described,
        says=says,
        needs=needs(run.description, len(source)),
    )
