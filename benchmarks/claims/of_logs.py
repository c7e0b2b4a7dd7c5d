"""What is said of sizes, settings and training curves, from ``run.json``, weights and logs."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from functools import cache
from typing import Any

from safetensors import safe_open

from benchmarks.claims.record import ROOT, Found
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.presets import PRESETS
from headwise.model.training.corpora import LONGEST, copy_task
from headwise.model.training.options import parse
from headwise.viz_app.measuring.files import read_measures
from tests.shipped import SHIPPED

_MILESTONE = ("valid_loss", "train_sample_loss", "bleu", "chrf")


@cache
def run_of(name: str) -> TrainedRun:
    """Open a run that ships."""
    return open_trained_run(name)


def curve(name: str, of: str) -> dict[int, float]:
    """Return a figure of a run's log by step."""
    return {row["step"]: row[of] for row in run_of(name).metrics() if of in row}


def how_many_ship() -> Found:
    """Count the folders with weights that git does not ignore."""
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    named = re.findall(r"^!/?checkpoints/([\w-]+)/?$", ignored, re.MULTILINE)
    words = {4: "Four"}
    return Found({"number": words.get(len(named), len(named))}, sorted(named) == sorted(SHIPPED))


def size(name: str) -> Found:
    """Count layers, heads, width, vocabularies, parameters and checkpoints."""
    run = run_of(name)
    model = load_weights(run, run.steps()[-1]).model
    config = run.info.model
    specials = 4
    layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    source, target = run.tokenizers.source.vocab_size, run.tokenizers.target.vocab_size
    tokens = {"source": f"{source:,}", "target": f"{target:,}", "symbols": source - specials}
    parameters = f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}"
    width = {"heads": config.n_heads, "width": config.d_model, "parameters": parameters}
    return Found({**layers, **tokens, **width, "checkpoints": len(run.steps())})


def trained_on(name: str) -> Found:
    """Read on how many pairs a run was trained."""
    return Found({"pairs": f"{run_of(name).info.data.train_pairs:,}"})


def units() -> Found:
    """Compare the tokenizers: byte pairs for two runs, whole words for the others."""
    kinds = {name: run_of(name).tokenizers.source.kind for name in SHIPPED}
    wanted = {"en-es": "bpe", "de-en": "bpe", "books-small": "word", "copy": "word"}
    return Found(holds=kinds == wanted, seen=", ".join(f"{k}: {v}" for k, v in kinds.items()))


def losses(name: str) -> Found:
    """Read where validation loss begins, is lowest and ends, and the other losses at the end."""
    valid, (first, *_, last) = curve(name, "valid_loss"), run_of(name).steps()
    best = min(valid, key=valid.__getitem__)
    losses = {
        "first": valid[first],
        "lowest": valid[best],
        "last": valid[last],
        "train": curve(name, "train_sample_loss")[last],
        "batches": list(curve(name, "train_loss").values())[-1],
    }
    words = f"{run_of(name).tokenizers.target.vocab_size:,}"
    shown = {what: f"{loss:.2f}" for what, loss in losses.items()}
    return Found({**shown, "best": f"{best:,}", "words": words})


def losses_of_batches(name: str) -> Found:
    """Read the loss of training batches, a mean over the steps since the line before."""
    found = curve(name, "train_loss")
    at = {"a": 1_000, "b": 2_000, "c": 5_000, "d": 7_000, "e": 19_000, "last": max(found)}
    shown = {what: f"{found[step]:.{2 if step < 5_000 else 4}f}" for what, step in at.items()}
    jump = max(loss for step, loss in found.items() if step > 7_000)
    return Found({**shown, "jump": f"{jump:.2f}"})


def table_of_milestones(name: str) -> Found:
    """Write the table of loss, BLEU and chrF, with alignment errors of en-es."""
    rows = []
    for step in run_of(name).steps():
        loss, _, bleu, chrf = (curve(name, of)[step] for of in _MILESTONE)
        digits = 2 if name == "en-es" else 3
        cells = [f"{step:,}", f"{loss:.{digits}f}", f"{bleu:.1f}", f"{chrf:.1f}"]
        if name == "en-es":
            values = read_measures(run_of(name).folder, step).values
            by = (values[f"aer_{way}"]["cross"].min() for way in ("predicted", "consumed"))
            cells += [f"{float(rate):.2f}" for rate in by]
        rows.append(f"| {' | '.join(cells)} |")
    return Found({"rows": "\n".join(rows)})


def best_by(name: str) -> Found:
    """Compare where loss and BLEU are best: the loss rises while the translations get better."""
    valid, bleu = curve(name, "valid_loss"), curve(name, "bleu")
    steps = list(valid)
    best, most = min(valid, key=valid.__getitem__), max(bleu, key=bleu.__getitem__)
    after = [valid[step] for step in steps if step >= best]
    rises = after == sorted(after) and steps[0] < best < steps[-1]
    seen = f"loss lowest at {best:,}, with BLEU {bleu[best]:.1f}; BLEU {bleu[most]:.1f} at {most:,}"
    return Found(holds=rises and most > best and bleu[most] > bleu[best] + 1, seen=seen)


def by_heart(name: str) -> Found:
    """Read the loss on the sample of training pairs at the end: near 0."""
    last = list(curve(name, "train_sample_loss").values())[-1]
    return Found(holds=last < 0.01, seen=f"{last:.4f} nats a token")


def nothing_is_known_at_first() -> Found:
    """Compare the first checkpoints' translations with references: chrF of all runs below 10."""
    first = {name: next(iter(curve(name, "chrf").values())) for name in SHIPPED}
    seen = ", ".join(f"{name}: chrF {chrf:.1f}" for name, chrf in first.items())
    return Found(holds=max(first.values()) < 10, seen=seen)


def highest_bleu(name: str) -> Found:
    """Read the highest BLEU of any checkpoint on validation pairs."""
    return Found({"bleu": f"{max(curve(name, 'bleu').values()):.1f}"})


# How they were made


def made_as_said(name: str) -> Found:
    """Read the preset of the printed command; only one run has whole words and post-norm."""
    words = commands()[name]
    post = {each for each in SHIPPED if run_of(each).info.model.norm == "post"}
    whole_words = run_of(name).tokenizers.source.kind == "word"
    return Found(
        {"preset": words[words.index("--preset") + 1]},
        whole_words if name in post else name != "books-small",
        f"norm after each sublayer: {', '.join(sorted(post))}",
    )


def whose_data() -> Found:
    """Read of which corpora the runs are."""
    names = {name: run_of(name).info.data for name in SHIPPED}
    wanted = {"en-es": "Tatoeba", "books-small": "Tatoeba", "de-en": "Multi30k", "copy": "made up"}
    holds = all(data and data.name.startswith(wanted[name]) for name, data in names.items())
    return Found(holds=holds, seen=", ".join(f"{k}: {v.name}" for k, v in names.items() if v))


def joined_from(name: str) -> Found:
    """Read from which epoch on pairs are joined."""
    training = run_of(name).info.training
    return Found(
        {"epoch": {5: "fifth"}.get(training.plain_epochs + 1, training.plain_epochs + 1)},
        training.join > 0,
    )


def target_tokens(name: str) -> Found:
    """Read with how many target tokens a run was trained, in millions."""
    return Found({"tokens": f"{list(curve(name, 'tokens').values())[-1] / 1e6:.1f}"})


def stored_in_float16() -> Found:
    """Read the type of each tensor of all checkpoints."""
    types = set()
    for name in SHIPPED:
        for path in run_of(name).folder.glob("step-*.safetensors"):
            with safe_open(path, framework="numpy") as weights:
                keys = weights.keys()
                types |= {weights.get_slice(key).get_dtype() for key in keys}
    return Found(holds=types == {"F16"}, seen=", ".join(sorted(types)))


def commands() -> dict[str, list[str]]:
    """Return the commands of ``docs/training.md`` that made the runs that ship."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").replace("\\\n", " ")
    section = text.partition("## How the shipped runs were made")[2]
    found = {}
    for line in section.splitlines():
        if line.startswith(".venv/bin/python -m headwise.model.train"):
            words = shlex.split(line)
            found[words[words.index("--run") + 1]] = words[3:]
    return found


def made_by_the_command(name: str) -> Found:
    """Compare the options of the printed command with ``run.json``; some milestones do not ship."""
    info, given = run_of(name).info, parse(commands()[name])
    milestones, left = set(given.training.all_milestones), set(info.training.all_milestones)
    other = _unlike(given.training, info.training) - {"milestones"}
    other |= _unlike(given.model, info.model) - _UPPER_LIMITS
    numbers = {16: "Sixteen", 17: "seventeen"}
    counts = {"left": len(left), "all": len(milestones)}
    return Found(
        {which: numbers.get(count, count) for which, count in counts.items()},
        not other and left <= milestones,
        f"other than run.json: {sorted(other)}",
    )


_UPPER_LIMITS = {"source_vocab_size", "target_vocab_size"}
"""Settings of which less may come than was asked for."""


def _unlike(one: Any, other: Any) -> set[str]:
    names = [field.name for field in fields(one)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def unlike_the_preset(name: str, preset: str) -> Found:
    """List the settings that a run has otherwise than a preset."""
    info, of = run_of(name).info, PRESETS[preset]
    model, training = _unlike(info.model, of.model), _unlike(info.training, of.training)
    expected = {"steps", "schedule", "learning_rate", "warmup_steps", "decay_steps", "milestones"}
    expected |= {"max_tokens", "join", "replace", "address", "bpe_dropout", "plain_epochs"}
    return Found(
        holds=model <= _UPPER_LIMITS and training <= expected,
        seen=f"unlike: {', '.join(sorted(model | training))}",
    )


def sequences_of_the_copy_task() -> Found:
    """Read the made-up sequences: how long they are, and of which letters."""
    texts = [text.split() for part in ("train", "test") for text in copy_task(part)]
    lengths, letters = {len(text) for text in texts}, {each for text in texts for each in text}
    return Found(
        {"least": min(lengths), "most": max(lengths), "a": min(letters), "g": max(letters)},
        max(lengths) == LONGEST,
    )
