"""Write a tiny run with a file of every kind; its weights are random, with large biases."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from headwise.model.checkpoint import load_weights, weights_path
from headwise.model.config import Counts, DataSource
from headwise.model.files import append_log
from headwise.model.tokenizer import Tokenizer, TokenizerKind, TokenizerPair
from headwise.model.training.resume import save_resume_state
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.alignments import Alignments, Links, write_alignments
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.measuring.pair_files import write_pairs
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples, write_neurons
from tests.robustness.texts import MARKUP
from tests.tiny import tiny_model, write_run
from tests.viz_app.measures import (
    made_up_costs,
    made_up_means,
    made_up_measures,
    made_up_neurons,
    made_up_pairs,
    made_up_resamples,
)

PAIRS = (
    ("The old man gave the little girl a red apple.", "El viejo le dio una manzana roja."),
    ("Don't worry, it's only the cat.", "No te preocupes, es solo el gato."),
    ("Where is the old dog?", "¿Dónde está el perro viejo?"),
)
STEP = 20
N_LAYERS, N_HEADS = 2, 3


def model_of(tokenizers: TokenizerPair, **shape: int) -> Transformer:
    """Build a tiny untrained model for tokenizers."""
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return tiny_model(noise=0.3, source_vocab_size=sizes[0], target_vocab_size=sizes[1], **shape)


def markup_model(kind: TokenizerKind) -> tuple[Transformer, TokenizerPair]:
    """Build an untrained model whose target vocabulary has tokens that are markup."""
    learned = TokenizerPair.train(
        PAIRS * 2, kind=kind, vocab_sizes=(300, 300) if kind == "bpe" else (30, 30), shared=False
    )
    written = json.loads(learned.target.to_text())
    vocabulary = written["model"]["vocab"]
    for token in MARKUP:
        vocabulary[token] = len(vocabulary)
    tokenizers = TokenizerPair(learned.source, Tokenizer.from_text(json.dumps(written)))
    shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "n_heads": 2, "max_length": 71}
    return model_of(tokenizers, **shape), tokenizers


def make_run(root: Path, kind: TokenizerKind) -> Path:
    """Write a run named after its kind of tokenizer into a folder of runs; return its folder."""
    sizes = (400, 420) if kind == "bpe" else (30, 30)
    tokenizers = TokenizerPair.train(PAIRS * 2, kind=kind, vocab_sizes=sizes, shared=False)
    model = model_of(tokenizers)
    folder = root / kind
    run = write_run(
        folder,
        {STEP: model},
        tokenizers,
        counts=Counts(
            list(range(tokenizers.source.vocab_size)), list(range(tokenizers.target.vocab_size))
        ),
        data=DataSource("three", "CC0", "nobody", "train.jsonl", "0", 3, "valid.jsonl", "0", 22),
    )
    _sort_header(weights_path(folder, STEP))
    save_resume_state(folder, model, torch.optim.AdamW(model.parameters()), step=STEP, tokens=9)
    _write_logs(folder)
    sha256 = load_weights(run, STEP).sha256
    write_measures(folder, made_up_measures(STEP, run=kind, sha256=sha256))
    made_up_means(STEP, run=kind, sha256=sha256).write(folder)
    _sort_header(HeadMeans.path(folder, STEP))
    made_up_costs(STEP, run=kind, sha256=sha256).write(folder)
    _sort_header(SentenceCosts.path(folder, STEP))
    made_up_resamples(STEP, run=kind, sha256=sha256).write(folder)
    _sort_header(Resamples.path(folder, STEP))
    write_pairs(folder, made_up_pairs(sha256, run=kind), (0, STEP))
    write_neurons(folder, made_up_neurons(STEP, run=kind, sha256=sha256))
    links = {i: Links(3, 4, frozenset({(0, 0), (2, 3)})) for i in range(6)}
    write_alignments(folder, Alignments("valid.jsonl", "c0", "by hand", links))
    return folder


def _sort_header(path: Path) -> None:
    """Sort the header: the library orders it anew each time, corruptions are to be the same."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])


def _write_logs(folder: Path) -> None:
    rows: list[dict[str, float]] = []
    for step in range(1, STEP + 1):
        row = {"step": step, "tokens": 97 * step, "train_loss": 6 / step}
        rows.append(row | {"learning_rate": 1e-3, "gradient_norm": 0.5, "tokens_per_second": 12.5})
        if step % 5 == 0:
            rows.append({"step": step, "valid_loss": 7 / step, "bleu": 0.5, "chrf": 1.5})
    append_log(folder / "metrics.jsonl", rows)
    samples = [
        {"step": step, "source": s, "reference": r, "shows": s[:5], "translation": r[:step]}
        for step in (0, 10, STEP)
        for s, r in PAIRS
    ]
    append_log(folder / "samples.jsonl", samples)
