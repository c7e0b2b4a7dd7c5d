"""Gives the pages what they need of runs and models: checkpoints, traces, translations.

This is the only file of the pages that imports what runs models. Each function computes once what
it is asked for, for all sessions, and keeps it in a bounded cache (``shared/cache.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headwise.model.checkpoint import CHECKPOINTS as CHECKPOINTS
from headwise.model.checkpoint import Checkpoint
from headwise.model.decoding.beam import Beam as Beam
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.greedy import greedy
from headwise.model.files import CheckpointError
from headwise.model.interface import Head, Kind, Languages, Side
from headwise.model.interventions import head_costs
from headwise.model.placement import allow_threads
from headwise.model.runs import Run as Run
from headwise.model.runs import load_checkpoint, open_folder, read_log_file
from headwise.model.runs import log_file as log_file
from headwise.model.runs import steps_in as steps_in
from headwise.viz_app.analysis.curves import LogRow as LogRow
from headwise.viz_app.records.layer import LayerTrace
from headwise.viz_app.records.trace import Floats, Tokens, Trace
from headwise.viz_app.served import served_models, served_placement
from headwise.viz_app.trace.attention import AttentionTrace as AttentionTrace
from headwise.viz_app.trace.attention import next_log_probability as run_next_token
from headwise.viz_app.trace.attention import run_attention, target_log_probability, to_numpy
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import require_source, run_trace
from headwise.viz_app.trace.sentence import to_tokens as to_tokens
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.stamps import stamp_if_there, stamp_of


def run_named(name: str, languages: Languages | None = None) -> Run:
    """Open one of the models that the app serves, for a choice of languages if it has several.

    Raises:
        CheckpointError: if it cannot be opened.
    """
    models = served_models()
    if name not in models:
        raise CheckpointError(f"there is no model {name!r}; there is: {', '.join(models)}")
    folder = models[name]

    def open_it() -> Run:
        run = open_folder(folder, name)
        return run if languages is None else run.for_languages(languages)

    return cached(
        "run opened",
        (
            str(folder),
            name,
            languages,
            *(stamp_if_there(folder / file) for file in ("run.json", "config.json")),
        ),
        open_it,
        entries=8,
        facts=lambda _: {"run": name},
    )


def log_of(folder: Path, name: str) -> Sequence[LogRow]:
    """Read the rows of a run's log; none where there is no log.

    Raises:
        CheckpointError: if a line that is not the last cannot be read.
    """
    path = log_file(folder, name)
    return cached(
        "log read",
        (str(path), stamp_if_there(path)),
        lambda: tuple(read_log_file(path)),
        entries=24,
        facts=lambda rows: {"run": folder.name, "file": name, "rows": len(rows)},
        says=f"Reading {name}",
    )


def checkpoint_of(run: Run, step: int) -> Checkpoint:
    """Load a checkpoint.

    Raises:
        CheckpointError: if its file is missing or broken.
    """
    path = run.weights_path(step)
    if not path.exists():
        run.load(step)  # raises, naming the steps that are there

    def load() -> Checkpoint:
        allow_threads(run.parameters)
        return load_checkpoint(run, step, served_placement())

    return cached(
        "checkpoint loaded",
        (str(path), stamp_of(path)),
        load,
        model_bytes=served_placement().bytes_of(run.parameters),
        facts=lambda checkpoint: {
            "run": run.name,
            "step": step,
            "sha256": checkpoint.sha256[:12],
        },
        says=f"Loading the weights of step {step:,}",
    )


def weights_sha256(run: Run, step: int) -> str:
    """Return the hash of the weights of a step, without loading them.

    Raises:
        CheckpointError: if they are missing or broken.
    """
    path = run.weights_path(step)
    return cached(
        "hash read",
        (str(path), stamp_of(path)),
        lambda: run.sha256(step),
        entries=256,
        facts=lambda _: {"run": run.name, "step": step},
    )


def embedding_table(run: Run, step: int, side: Side) -> Floats:
    """Return the embeddings of the source or the target, (V, D), not scaled.

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    return to_numpy(checkpoint_of(run, step).model.embedding_table(side))


def tokens_of(run: Run, side: str, ids: Sequence[int]) -> Tokens:
    """Return the tokens that ids stand for on the side ``source`` or ``target`` of a run."""
    return to_tokens(getattr(run.tokenizers, side), ids)


def trace_of(
    run: Run,
    step: int,
    text: str,
    target: tuple[int, ...] | None = None,
    *,
    ablated: tuple[Head, ...] = (),
) -> Trace:
    """Trace a sentence with a target's ids, or with the model's own translation.

    A translation that is also given as a target has one trace: only ``forced`` differs.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence is empty or too long, or a head does not exist.
    """
    checkpoint, forced = checkpoint_of(run, step), target is not None
    name, sha256 = run.name, checkpoint.sha256
    # The tokenizers of the run that is open: its files may be others by now.
    tokenizers = run.tokenizers_sha256
    if target is None and not ablated:  # without these heads it would be another translation
        target = continuation_of(run, step, text, run.tokenizers.prefix)

    def compute() -> Trace:
        trace = run_trace(
            checkpoint.model,
            run.tokenizers,
            text,
            target,
            run=name,
            step=step,
            sha256=sha256,
            ablated=ablated,
        )
        return replace(trace, forced=False)

    trace = cached(
        "trace",
        (name, tokenizers, step, sha256, text, target, ablated),
        compute,
        facts=lambda trace: {
            "run": name,
            "step": step,
            "heads_off": len(ablated),
            "source": len(trace.source),
            "target": len(trace.predicted),
        },
        says="Recording the attention",
    )
    return replace(trace, forced=True) if forced else trace


def layer_trace_of(run: Run, trace: Trace, kind: Kind, layer: int) -> LayerTrace:
    """Trace one layer in full, on the source, target and checkpoint of a trace of this run.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the layer does not exist.
    """
    checkpoint = checkpoint_of(run, trace.step)
    return cached(
        "layer",
        (checkpoint.sha256, trace.source.ids, trace.target_ids, trace.ablated, kind, layer),
        lambda: run_layer_trace(checkpoint.model, trace, kind, layer),
        facts=lambda _: {
            "run": run.name,
            "step": trace.step,
            "of": f"{kind} {layer + 1}",
        },
    )


def attention_of(run: Run, step: int, text: str, target: tuple[int, ...]) -> AttentionTrace:
    """Compute the attention maps of a sentence and a target's ids, without the rest of a trace.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence or the target is empty or too long.
    """
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)
    return cached(
        "attention",
        (checkpoint.sha256, source, target),
        lambda: run_attention(checkpoint.model, source, target),
        facts=lambda _: _facts(run, step, source) | {"target": len(target) - 1},
    )


def continuation_of(run: Run, step: int, text: str, prefix: tuple[int, ...]) -> tuple[int, ...]:
    """Continue a target greedily from its first ids; return all ids, from ``<s>`` on.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence is empty or too long.
    """
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)
    require_source(checkpoint.model, text, source)
    # Some models begin targets with the token that ends them.
    if len(prefix) > 1 and prefix[-1] == checkpoint.model.special_ids.end:
        return prefix
    return cached(
        "translated",
        (checkpoint.sha256, source, prefix),
        lambda: tuple(greedy(checkpoint.model, [source], prefix)[0]),
        entries=64,
        facts=lambda ids: _facts(run, step, source) | {"target": len(ids) - 1},
        says="Translating",
    )


def greedy_translation(run: Run, step: int, text: str) -> tuple[tuple[int, ...], Floats]:
    """Translate a sentence greedily; return the ids and each token's log-probability, (T,).

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence is empty or too long.
    """
    target = continuation_of(run, step, text, run.tokenizers.prefix)
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)
    log_probability = cached(
        "log-probability",
        (checkpoint.sha256, source, target),
        lambda: target_log_probability(checkpoint.model, source, target),
        entries=64,
        facts=lambda _: _facts(run, step, source) | {"target": len(target) - 1},
    )
    return target, log_probability


def next_log_probability(run: Run, step: int, text: str, prefix: tuple[int, ...]) -> Floats:
    """Return the log-probability of every token after the first ids of a target, (V,), in nats.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence is empty or too long.
    """
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)
    return cached(
        "next token",
        (checkpoint.sha256, source, prefix),
        lambda: run_next_token(checkpoint.model, source, prefix),
        entries=24,
        facts=lambda _: _facts(run, step, source) | {"target": len(prefix)},
    )


def beam_of(run: Run, step: int, text: str, size: int) -> Beam:
    """Translate a sentence by a beam search of some width.

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence is empty or too long.
    """
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)
    prefix = tuple(run.tokenizers.prefix)
    return cached(
        "beam search",
        (checkpoint.sha256, source, prefix, size),
        lambda: beam_search(checkpoint.model, [source], size=size, prefix=prefix)[0],
        entries=24,
        facts=lambda _: _facts(run, step, source) | {"width": size},
        says="Searching with a beam",
    )


def head_costs_of(run: Run, step: int, text: str, target: tuple[int, ...]) -> dict[Kind, Floats]:
    """Compute what switching each head off costs a target's ids, in nats: kind → (L, H).

    Raises:
        CheckpointError: if the weights cannot be used.
        ValueError: if the sentence or the target is empty or too long.
    """
    checkpoint, source = checkpoint_of(run, step), _source_ids(run, text)

    def compute() -> dict[Kind, Floats]:
        costs = head_costs(checkpoint.model, source, target)
        return {kind: to_numpy(cost) for kind, cost in costs.items()}

    return cached(
        "head costs",
        (checkpoint.sha256, source, target),
        compute,
        entries=24,
        facts=lambda _: _facts(run, step, source) | {"target": len(target) - 1},
        says="Switching off each head in turn",
    )


def _source_ids(run: Run, text: str) -> tuple[int, ...]:
    return tuple(run.tokenizers.encode_source(text.strip()))


def _facts(run: Run, step: int, source: Sequence[int]) -> dict[str, str | int]:
    return {"run": run.name, "step": step, "source": len(source)}
