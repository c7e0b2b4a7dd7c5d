"""What is said of heads, stages and pairs, from the files of measures."""

from __future__ import annotations

import math
import re

import numpy as np

import headwise
from benchmarks.claims.of_logs import run_of
from benchmarks.claims.record import ROOT, Found, exact_interval
from headwise.viz_app.analysis.pairs import accuracy, accuracy_losses
from headwise.viz_app.api.alignments import align
from headwise.viz_app.measuring.alignments import format_links
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.measuring.pairs import read_pairs
from headwise.viz_app.measuring.wording import LITTLE
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.pairs import MeasuredPairs
from tests.shipped import SHIPPED


def last_measures(name: str) -> Measures:
    """Read the measures of a run's last checkpoint."""
    run = run_of(name)
    return read_measures(run.folder, run.steps()[-1])


def _stages(name: str) -> dict[int, dict[str, float]]:
    run = run_of(name)
    return {step: dict(read_measures(run.folder, step).stages) for step in run.steps()}


def first_stage(name: str) -> Found:
    """Find the checkpoint with the least of the source, whose translations are likely as text.

    No other run has a checkpoint where both are so.
    """
    shown = {}
    for each in SHIPPED:
        stages = _stages(each)
        step = min(stages, key=lambda at, s=stages: s[at]["source_contribution"])
        if stages[step]["language_model"] > stages[step]["language_model_reference"]:
            shown[each] = step
    step = shown.get(name, 0)
    at = _stages(name)[step]
    ways = {"own": "language_model", "reference": "language_model_reference"}
    figures = {way: f"−{-at[figure]:.1f}" for way, figure in ways.items()}
    figures |= {"step": f"{step:,}", "chrf": f"{at['chrf']:.0f}"}
    seen = f"runs with such a checkpoint: {', '.join(shown)}"
    return Found(figures, list(shown) == [name], seen)


def no_stage_of_reordering() -> Found:
    """Find how far the order departs from the references' once chrF is half of what it becomes."""
    apart = {}
    for name in SHIPPED:
        stages = _stages(name)
        half = list(stages.values())[-1]["chrf"] / 2
        late = [each for each in stages.values() if each["chrf"] >= half]
        apart[name] = max(abs(e["reordering"] - e["reordering_reference"]) for e in late)
    seen = ", ".join(f"{name}: {most:.3f}" for name, most in apart.items())
    return Found({"most": f"{math.ceil(1000 * max(apart.values())) / 1000:.3f}"}, seen=seen)


def best_aligning_heads(name: str) -> Found:
    """Write a run's row: the heads with the lowest alignment errors, beside both baselines."""
    measures = last_measures(name)
    cells = []
    for way in ("predicted", "consumed"):
        rates = measures.values[f"aer_{way}"]["cross"]
        layer, head = np.unravel_index(int(rates.argmin()), rates.shape)
        cells.append(f"{rates.min():.3f} (layer {layer + 1}, head {head + 1})")
    assert measures.alignment is not None
    digits = 0 if name == "copy" else 3
    cells += [f"{rate:.{digits}f}" for rate in vars(measures.alignment).values()]
    return Found({"row": f"| `{name}` | {' | '.join(cells)} |"})


def which_word_heads_align() -> Found:
    """Compare the best head by the predicted and by the consumed word, run by run."""
    values = {name: last_measures(name).values for name in SHIPPED}
    best = {
        name: {way: found[f"aer_{way}"]["cross"].min() for way in ("predicted", "consumed")}
        for name, found in values.items()
    }
    by_consumed = [name for name in SHIPPED if best[name]["consumed"] < best[name]["predicted"]]
    rates = values["en-es"]["aer_consumed"]["cross"]
    seen = "; ".join(f"{k}: {v['predicted']:.2f}, {v['consumed']:.2f}" for k, v in best.items())
    holds = by_consumed == ["en-es"] and bool(rates[0].min() == rates.min())
    return Found(holds=holds, seen=seen)


def aligned_words(name: str) -> Found:
    """Align the words of the printed pair by the head that aligns best, as the command does."""
    pair = ("Where is my red book?", "¿Dónde está mi libro rojo?")
    [found] = align(headwise.open(name)[-1], [pair]).pairs
    return Found({"links": format_links(found.links) if found else ""})


def resting_heads_are_needed(name: str) -> Found:
    """Rank by cost the two cross-attention heads with most weight on ``</s>``."""
    values = last_measures(name).values
    end, cost = (values[of]["cross"].ravel() for of in ("end", "cost"))
    heaviest = np.argsort(-end)[:2]
    ranks = sorted(int((cost > cost[place]).sum()) + 1 for place in heaviest)
    numbers = ("first", "second", "third", "fourth", "fifth", "sixth")
    written = [numbers[rank - 1] if rank <= len(numbers) else f"{rank}th" for rank in ranks]
    seen = ", ".join(f"{end[place]:.2f} on </s> costs {cost[place]:.3f}" for place in heaviest)
    return Found(
        {"first": written[0], "second": written[1], "heads": len(cost)},
        bool(cost[heaviest].min() > LITTLE),
        seen,
    )


def maps_are_flat_at_first() -> Found:
    """Read the least entropy that a head of cross-attention has at step 0, over 512 sentences."""
    least = {
        name: float(read_measures(run_of(name).folder, 0).values["entropy"]["cross"].min())
        for name in SHIPPED
    }
    seen = "least entropy " + ", ".join(f"{name}: {value:.2f}" for name, value in least.items())
    return Found(holds=min(least.values()) > 0.85, seen=seen)


def sizes_of_measures(name: str) -> Found:
    """Add up the files of measures but for pairs, in kB."""
    folder = run_of(name).folder / "measures"
    total = sum(path.stat().st_size for path in folder.iterdir() if path.name != "pairs.json")
    return Found({"size": f"{round(total / 1000, -1):.0f}", "steps": len(run_of(name).steps())})


def size_of_neurons(name: str) -> Found:
    """Read how large a file of neurons is, in kB."""
    [path] = (run_of(name).folder / "measures").glob("neurons-*.safetensors")
    config = run_of(name).info.model
    size = f"{round(path.stat().st_size / 1000, -1):.0f}"
    layers = config.n_encoder_layers, config.n_decoder_layers
    return Found({"size": size, "width": config.d_ff, "name": path.name}, layers == (3, 3))


def what_layers_wrote() -> Found:
    """Find how much of scores is neither of tokens nor of positions, above the first layer."""
    upper, last = [], []
    for name in SHIPPED:
        values = last_measures(name).values
        for kind in values["by_position"]:
            terms = (values[f"by_{what}"][kind] for what in ("position", "token", "both"))
            rest = 1 - sum(terms)
            upper.append(float(rest[1:].min()))
            last.append(float(rest[-1].min()))
    least = {"upper": min(upper), "last": min(last)}
    return Found({name: f"{math.floor(100 * of) / 100:.2f}" for name, of in least.items()})


def sentences_of_measures() -> Found:
    """Read on how many sentences the shipped runs are measured."""
    counts = {last_measures(name).corpus.sentences for name in SHIPPED}
    return Found({"sentences": ", ".join(map(str, sorted(counts)))})


# Pairs


def _pairs(name: str) -> MeasuredPairs:
    measured = read_measured_pairs(run_of(name).folder)
    assert measured is not None
    return measured


def numbers_of_pairs() -> Found:
    """Count the contrastive pairs that ship."""
    folder = ROOT / "viz_app" / "sentences"
    files = {"spanish": "en-es.pairs.jsonl", "english": "de-en.pairs.jsonl"}
    return Found({name: len(read_pairs(folder / file)) for name, file in files.items()})


def accuracy_on_pairs(name: str) -> Found:
    """Compute the accuracy at the last checkpoint, by phenomenon, and of what fails.

    Of the tense: the likelier target is in the present; of two sources with the same first noun,
    once the subject and once the object, the same translation is the likelier.
    """
    measured = _pairs(name)
    scores = measured.checkpoints[run_of(name).steps()[-1]]
    whole = accuracy(scores.outcomes)
    right = {each: int(scores.outcomes[measured.places(each)].sum()) for each in measured.phenomena}
    likelier = [
        pair.right if scores.right[place] > scores.wrong[place] else pair.wrong
        for place, pair in enumerate(measured.pairs)
    ]
    tense = [likelier[place] for place in measured.places("tense")]
    order = [likelier[place] for place in measured.places("subject and object")]
    present = all(re.search(r"\b(is|are|has|jumps)\b", text) for text in tense)
    same = {"negation": "pronoun", "tense": "subject and object"}
    alike = all(right[one] == right[other] for one, other in same.items())
    sure = [loss for loss in accuracy_losses(measured) if loss.low > 0]
    shares = {of: f"{getattr(whole, of):.0%}" for of in ("share", "low", "high")}
    counts = {"count": whole.count, "each": len(measured.places("article"))}
    ends = {
        f"{of}_{end}": text
        for of, count in right.items()
        for end, text in exact_interval(count, len(measured.places(of)), 0).items()
    }
    return Found(
        {**right, **shares, **counts, **ends},
        present and alike and order[::2] == order[1::2] and not sure,
        f"right by phenomenon: {right}; heads with an interval above 0: {len(sure)}",
    )
