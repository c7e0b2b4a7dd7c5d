"""What is said of why heads look where they do, and of what they write."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from benchmarks.claims.of_heads import last_measures
from benchmarks.claims.of_logs import run_of
from benchmarks.claims.record import Found
from headwise.model.checkpoint import load_weights
from headwise.model.interface import Head, Kind
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.composition.scores import composition
from headwise.viz_app.heads.dictionary.scores import (
    WritingScores,
    copying,
    frequent,
    lexicon_of,
    lexicon_precision,
    mean_values,
)
from headwise.viz_app.measuring.files import read_measures


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def copying_is_by_position() -> Found:
    """Find how far the decoder's first layer of the copying task looks by position."""
    folder = run_of("copy").folder
    last, first = (
        measures.values["by_position"]["decoder_self"][0]
        for measures in (last_measures("copy"), read_measures(folder, 0))
    )
    ends = {f"last_{n}": _signed(value) for n, value in enumerate(last)}
    return Found(ends | {f"first_{n}": _signed(value) for n, value in enumerate(first)})


def first_layer_by_position(name: str) -> Found:
    """Find the head of the encoder's first layer that looks most by position, and those above."""
    measures = last_measures(name)
    values = measures.values["by_position"]["encoder_self"]
    errors = measures.errors["by_position"]["encoder_self"]
    head = int(values[0].argmax())
    above = float(values[1:].max())
    return Found(
        {"most": f"{values[0, head]:.3f}", "error": f"{errors[0, head]:.3f}"},
        above <= 0.10,
        f"the largest above the first layer is {above:.3f}",
    )


@cache
def _scores(name: str, kind: Kind) -> WritingScores:
    run, measures = run_of(name), last_measures(name)
    model = load_weights(run, run.steps()[-1]).model
    sentences = Sentences.examples(run, measures)
    values = mean_values(model, sentences, kind)
    if kind == "cross":
        aligner = int(np.nanargmin(measures.values["aer_predicted"]["cross"]))
        return lexicon_precision(model, values, lexicon_of(model, sentences, aligner))
    return copying(model, frequent(values, run.tokenizers, run.counts))


def best_dictionary(name: str) -> Found:
    """Find the head of cross-attention whose dictionary agrees most with the lexicon."""
    scores = _scores(name, "cross")
    layer, head = divmod(int(scores.values.argmax()), scores.values.shape[1])
    best = Head("cross", layer, head)
    found, counts = scores.precision(best), {"right": scores.right(best), "tokens": scores.tokens}
    shares = {"share": scores.values[layer, head], "chance": scores.chance[layer, head]}
    shares |= {"low": found.low, "high": found.high}
    place = {"head": f"{layer + 1}.{head + 1}", "layer": layer + 1, "number": head + 1}
    return Found({**counts, **place, **{of: f"{share:.2f}" for of, share in shares.items()}})


def copying_heads(name: str) -> Found:
    """Find the head of the decoder that copies most, and the one that suppresses most."""
    scores = _scores(name, "decoder_self")
    figures = {}
    for which, place in (("copies", scores.values.argmax()), ("lowers", scores.values.argmin())):
        layer, head = divmod(int(place), scores.values.shape[1])
        figures |= {
            f"{which}_head": f"{layer + 1}.{head + 1}",
            which: f"{scores.values[layer, head]:.2f}",
            f"{which}_chance": f"{scores.chance[layer, head]:.2f}",
        }
    layer, number = str(figures["copies_head"]).split(".")
    return Found(figures | {"layer": layer, "number": number})


def copy_writes_all() -> Found:
    """Find whether the last layer of cross-attention writes what it reads in the copying task."""
    scores = _scores("copy", "cross")
    return Found(
        {}, bool((scores.values[-1] == 1).all()) and scores.tokens == 7, f"{scores.tokens} symbols"
    )


def edges_beyond_chance() -> Found:
    """Count the edges between heads more than three standard deviations from random matrices."""
    figures, seen, near = {}, [], False
    for name in ("en-es", "de-en", "books-small"):
        run = run_of(name)
        found = composition(load_weights(run, run.steps()[-1]).model)
        above, below = (int((sign * found.score > 3 * found.error).sum()) for sign in (1, -1))
        for which, count in (("above", above), ("below", below), ("edges", len(found.score))):
            figures[f"{which}_{name[:2]}"] = f"{count:,}"
        near = max(above, below) < 0.005 * len(found.score)  # of the last
        seen.append(f"{name}: {above} above, {below} below")
    return Found(figures, near, ", ".join(seen))


def edges_of_what_changed(name: str, other: str) -> Found:
    """Find how far a run's attention matrices are from step 0, and how the changes compose.

    The model of the changes has, in place of each matrix of attention, the matrix less that of step
    0; of norms it keeps the gains.
    """
    figures: dict[str, str | int] = {}
    for which, each in (("", name), ("other_", other)):
        run = run_of(each)
        model = load_weights(run, run.steps()[-1]).model
        last = dict(model.named_parameters())
        first = dict(load_weights(run, 0).model.named_parameters())
        matrices = [path for path in last if path.endswith("_projection.weight")]
        cosines = [
            float(torch.cosine_similarity(first[path].flatten(), last[path].flatten(), dim=0))
            for path in matrices
        ]
        figures |= {f"{which}least": f"{min(cosines):.2f}", f"{which}most": f"{max(cosines):.2f}"}
        if each == name:
            whole = composition(model).stands_out
            with torch.no_grad():
                for path in matrices:
                    last[path] -= first[path]
            changed = composition(model).stands_out
    return Found(
        figures | {"count": int(whole.sum()), "of": len(whole)},
        bool(changed.mean() > 0.5),
        f"of the changes {changed.mean():.0%} stand out",
    )
