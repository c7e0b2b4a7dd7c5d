"""What is said of what the shipped weights do: copying, and which token counts for a prediction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import get_args

import numpy as np
import torch

from benchmarks.claims.of_logs import curve, run_of
from benchmarks.claims.record import Found, exact_interval
from headwise.model.checkpoint import load_weights
from headwise.model.decoding.translation import translate
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Head
from headwise.model.masks import PADDING, pad
from headwise.model.training.copy_task import LONGEST, copy_task
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.model.turning import ablate
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.head_ranking import rank_correlation
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.lessons.question import first_difference
from headwise.viz_app.measuring.alignments import read_alignments
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    PaddedIds,
    attention_maps,
    batches_by_length,
    target_scores,
)
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.head_alignments import AlignedRows, MapsOf, cross_maps
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION
from headwise.viz_app.measuring.tensor_files import read_neurons
from headwise.viz_app.measuring.words import (
    align_batch,
    count_correct_links,
    source_word_numbers,
    word_numbers,
)
from headwise.viz_app.model.angles import encodings
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate.given import unrelated
from headwise.viz_app.why.sentences.correspondence import corresponding
from tests.shipped import SHIPPED

_LEFT_OUT = 50
"""Sentences of which each source token is left out."""
_UNSEEN, _BATCH = 128, 32
"""Validation pairs on which the model is asked how sure it is, and how many at once."""
_PLACES = 512
"""Places that are compared, more than any sentence has."""


@cache
def newest(name: str) -> Transformer:
    """Load the last checkpoint of a run."""
    run = run_of(name)
    return load_weights(run, run.steps()[-1]).model


@cache
def _copied() -> tuple[list[str], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the unseen sequences, their ids, and at which rows a symbol is predicted."""
    run, texts = run_of("copy"), copy_task("test")
    source = pad([run.tokenizers.encode_source(text) for text in texts])
    target = pad([run.tokenizers.encode_target(text) for text in texts])
    symbols = torch.arange(LONGEST + 1) < torch.tensor([[len(text.split())] for text in texts])
    return texts, source, target, symbols


@cache
def copies_what_it_has_not_seen() -> Found:
    """Copy 1,000 sequences that were not trained on, letter by letter."""
    texts = copy_task("test")
    copies = translate(newest("copy"), run_of("copy").tokenizers, texts)
    right = sum(one == other for one, other in zip(copies, texts, strict=True))
    unseen = not set(texts) & set(copy_task("train"))
    counts = {"right": f"{right:,}", "all": f"{len(texts):,}"}
    return Found(counts | exact_interval(right, len(texts), 1), unseen and right == len(texts))


@cache
@torch.inference_mode()
def looks_at_the_copied_symbol() -> Found:
    """Count the rows whose largest weight is on the symbol that is copied, head by head.

    Row t, which predicts symbol t, has it on key t.
    """
    _, source, target, symbols = _copied()
    model = newest("copy")
    names = [f"decoder.layers.{layer}.cross_attention.weights" for layer in range(2)]
    with capture(model, names) as seen:
        model(source, target[:, :-1])
    at = torch.cat([seen[name][0] for name in names], dim=1).argmax(dim=-1)  # (B, L H, T)
    right = (at == torch.arange(LONGEST + 1)) & symbols[:, None]
    counts, rows = right.sum(dim=(0, 2)).tolist(), int(symbols.sum())  # (L H)
    shares = [count / rows for count in counts]
    return Found(
        {"rows": f"{rows:,}"},
        counts[0] == rows and min(shares) > 0.95,
        "by head: " + ", ".join(f"{share:.1%}" for share in shares),
    )


@torch.inference_mode()
def _right_tokens(off: Sequence[Head]) -> float:
    """Return the share of tokens of unseen sequences that are the likeliest without some heads."""
    _, source, target, _ = _copied()
    model = newest("copy")
    with ablate(model, off):
        logits = model(source, target[:, :-1])
    predicted = target[:, 1:]
    keep = predicted != PADDING
    return float((logits.argmax(dim=-1) == predicted)[keep].double().mean())


@cache
def two_heads_bring_the_same() -> Found:
    """Switch off heads 1 and 2 of the first layer's cross-attention, each alone and together."""
    one, two = Head("cross", 0, 0), Head("cross", 0, 1)
    alone, both = [_right_tokens([one]), _right_tokens([two])], _right_tokens([one, two])
    seen = f"tokens right without 1.1 {alone[0]:.1%}, 1.2 {alone[1]:.1%}, both {both:.1%}"
    return Found(holds=min(alone) > 0.98 and both < min(alone) - 0.05, seen=seen)


def costs_do_not_add_up() -> Found:
    """Compare what all heads of cross-attention in ``copy`` cost alone with the pair of layer 1."""
    run = run_of("copy")
    costs = read_measures(run.folder, run.steps()[-1]).values["cost"]["cross"][0]
    _, source, target, _ = _copied()

    @torch.inference_mode()
    def loss(off: Sequence[Head]) -> float:
        with ablate(newest("copy"), off):
            stream = forced_stream(newest("copy"), source, target[:, :-1])
        keep = target[:, 1:] != PADDING
        scores = log_probabilities(newest("copy"), stream[keep], target[:, 1:][keep])
        return -float(scores.double().mean())

    both = loss([Head("cross", 0, 0), Head("cross", 0, 1)]) - loss([])
    seen = f"1.1 {costs[0]:.3f}, 1.2 {costs[1]:.3f}, both {both:.3f} nats a token"
    return Found(holds=bool(both > 2 * costs.sum()), seen=seen)


@cache
def zero_and_mean_rank_alike() -> Found:
    """Correlate what heads cost by zero and by their means, over the corpus of each run."""
    found, moved = {}, 0
    for name in SHIPPED:
        run = run_of(name)
        values = read_measures(run.folder, run.steps()[-1]).values
        zero, mean = (
            np.concatenate([values[of][kind].ravel() for kind in KINDS]).tolist()
            for of in ("cost", MEAN_ABLATION)
        )
        found[name] = rank_correlation(zero, mean)
        moved += np.argmax(zero) != np.argmax(mean)
    ends = {"least": f"{min(found.values()):.2f}", "most": f"{max(found.values()):.2f}"}
    return Found(
        ends | {"moved": f"{moved}", "runs": f"{len(found)}"},
        seen=", ".join(f"{name}: {each:.4f}" for name, each in found.items()),
    )


@cache
@torch.inference_mode()
def strongest_source_token(name: str) -> Found:
    """Compare shares of source tokens with what leaving each out costs, prediction by prediction.

    Of the first 50 example sentences, with the run's own translations, by ALTI+ and by the mean of
    the last layer's cross-attention; the interval of the difference is over sentences.
    """
    run, model = run_of(name), newest(name)
    texts = [each.source for each in read_measures(run.folder, run.steps()[-1]).sentences]
    correlations: dict[str, list[float]] = {"alti": [], "cross": []}
    same: dict[str, list[list[bool]]] = {"alti": [], "cross": []}  # by sentence
    for text in texts[:_LEFT_OUT]:
        source = run.tokenizers.encode_source(text)
        [translation] = translate(model, run.tokenizers, [text])
        target = run.tokenizers.encode_target(translation)
        ids = PaddedIds.of([source], [target], model)
        of_head = attention_maps(model, ids)[0]["cross"][0]
        last = of_head.unflatten(0, model.description.shapes["cross"])[-1].mean(dim=0)
        shares = {"alti": contributions(model, ids).source[0].numpy(), "cross": last.numpy()}
        whole = _log_probabilities(model, source, target)
        lost = np.stack(
            [
                whole - _log_probabilities(model, source[:at] + source[at + 1 :], target)
                for at in range(len(source) - 1)  # all but </s>
            ],
            axis=1,
        )
        for way, found in shares.items():
            same[way].append([])
            for row, losses in zip(found[:, :-1], lost, strict=True):
                correlations[way].append(rank_correlation(row.tolist(), losses.tolist()))
                same[way][-1].append(bool(row.argmax() == losses.argmax()))
    figures = {f"rho_{way}": f"{np.nanmean(found):.2f}" for way, found in correlations.items()}
    lengths = np.array([len(found) for found in same["alti"]])
    hits = {way: np.array([sum(found) for found in of]) for way, of in same.items()}
    figures |= {f"same_{way}": f"{of.sum() / lengths.sum():.0%}" for way, of in hits.items()}
    drawn = np.random.default_rng(0).integers(len(lengths), size=(1_000, len(lengths)))
    apart = (hits["alti"] - hits["cross"])[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    low, high = np.percentile(100 * apart, (2.5, 97.5))
    return Found(
        figures
        | {"predictions": int(lengths.sum()), "sentences": _LEFT_OUT}
        | {"low": f"{low:.0f}", "high": f"{high:.0f}"},
        bool(low > 0),
    )


@torch.inference_mode()
def references_told_apart() -> Found:
    """Compare references of example sentences with unrelated sentences, each with each.

    By their log-probability a token, and by the source token that heads of cross-attention look at
    least: the largest weight that any has on it in any row. Intervals are over sources.
    """
    figures, seen, holds = {}, [], True
    for name in ("en-es", "de-en"):
        run, model = run_of(name), newest(name)
        sentences = Sentences.examples(run, read_measures(run.folder, run.steps()[-1]))
        pairs = sorted(sentences.pairs, key=lambda each: (len(each.target), each.number))
        likely, looked_at = [], []
        for each in (pairs, unrelated(pairs)):
            batches = [each[at : at + _BATCH] for at in range(0, len(each), _BATCH)]
            looked_at.append(np.concatenate([_least_looked_at(model, batch) for batch in batches]))
            scores = torch.cat([target_scores(model, batch) for batch in batches]).double().numpy()
            likely.append(scores / [len(pair.target) - 1 for pair in each])
        by_likelihood, by_weight = _higher(*likely), _higher(*looked_at)
        holds &= bool(by_likelihood.mean() > 0.999)
        drawn = np.random.default_rng(0).integers(len(pairs), size=(1_000, len(pairs)))
        ends = np.percentile([by_weight[np.ix_(at, at)].mean() for at in drawn], (2.5, 97.5))
        shares = zip(("share", "low", "high"), (by_weight.mean(), *ends), strict=True)
        figures |= {f"{of}_{name[:2]}": f"{value:.0%}" for of, value in shares}
        seen.append(f"{name}: {by_likelihood.mean():.4f} by likelihood, {len(pairs)} sentences")
    return Found(figures, holds, "; ".join(seen))


def _least_looked_at(model: Transformer, batch: Sequence[EncodedPair]) -> np.ndarray:
    """Return the largest weight on the source token that has the least, </s> aside: (B,)."""
    ids = PaddedIds.of_pairs(batch, model)
    allowed = ids.allowed("cross")
    weights = attention_maps(model, ids)[0]["cross"].masked_fill(~allowed[:, None], 0.0)
    most, content = weights.amax(dim=(1, 2)), allowed.any(dim=1)
    content &= ids.source != ids.special.end
    return np.asarray(most.masked_fill(~content, torch.inf).amin(dim=1).numpy())


@cache
@torch.inference_mode()
def _alignment_errors(name: str) -> dict[tuple[str, str, str], tuple[float, np.ndarray]]:
    """Return the lowest alignment error of a map, and the right links of the map by sentence.

    By which word rows go, what a cell is, and of what a map is. The sentences are those that were
    measured; of the reference alignments, which are of the whole corpus, those with a repeated
    source are not among them: the next one with the right numbers of words is taken.
    """
    run, model = run_of(name), newest(name)
    found, links = read_alignments(run.folder), {}
    assert found is not None
    references = iter([of for _, of in sorted(found.sentences.items())])
    sentences = read_neurons(run.folder, run.steps()[-1]).sentences
    pairs = [
        EncodedPair(number, Pair(of.source, of.reference), *_ids(name, of.source, of.reference))
        for number, of in enumerate(sentences)
    ]
    for pair in pairs:
        sizes = max(source_word_numbers(run.tokenizers, pair.source)) + 1
        words = max(word_numbers(run.tokenizers.target, pair.target)) + 1
        links[pair.number] = next(
            of for of in references if (of.source_words, of.target_words) == (sizes, words)
        )
    counts: dict[tuple[str, str, str], list[torch.Tensor]] = defaultdict(list)
    sizes_of: list[torch.Tensor] = []
    for batch in batches_by_length(pairs):
        aligned = align_batch(batch, run.tokenizers, lambda s: links[s.number], model.device)
        assert aligned is not None
        sizes_of.append(aligned.sizes)
        ids = PaddedIds.of_pairs(batch, model)
        for by, of in product(get_args(CellValue), get_args(MapsOf)):
            maps = cross_maps(model, ids, by=by, of=of)
            for rows in get_args(AlignedRows):
                right = count_correct_links(maps, aligned, getattr(aligned, rows))
                counts[rows, by, of].append(right)
    whole = torch.cat(sizes_of)
    errors = {}
    for key, parts in counts.items():
        right = torch.cat(parts)
        rates = 1 - 2 * right.sum(dim=0) / whole.sum()
        best = int(rates.argmin())
        errors[key] = float(rates[best]), (2 * right[:, best]).numpy()
    errors["", "", ""] = 0.0, whole.numpy()
    return errors


def _layers_apart(name: str, rows: str) -> tuple[float, float, float]:
    """Return the error of the best layer by norms less by weights, with its 95% interval."""
    errors = _alignment_errors(name)
    sizes = errors["", "", ""][1]
    # Fewer right links are a larger error.
    apart = errors[rows, "weight", "layers"][1] - errors[rows, "value norm", "layers"][1]
    drawn = np.random.default_rng(0).integers(len(sizes), size=(1_000, len(sizes)))
    low, high = np.percentile(apart[drawn].sum(1) / sizes[drawn].sum(1), (2.5, 97.5))
    return float(apart.sum() / sizes.sum()), float(low), float(high)


def aligned_by_norms(name: str, rows: str) -> Found:
    """Compare weights with norms of values, of heads and of layers, as Kobayashi et al. (2020)."""
    errors, measures = (
        _alignment_errors(name),
        read_measures(run_of(name).folder, run_of(name).steps()[-1]),
    )
    cells = [errors[rows, by, of][0] for of in get_args(MapsOf) for by in get_args(CellValue)]
    apart, low, high = (f"{value:+.3f}".replace("-", "−") for value in _layers_apart(name, rows))
    row = " | ".join([f"`{name}`", rows, *(f"{cell:.3f}" for cell in cells)])
    measured = float(measures.values[f"aer_{rows}"]["cross"].min())
    return Found(
        {"row": f"| {row} | {apart} ({low} to {high}) |"},
        abs(cells[0] - measured) < 2e-5,
        f"as measured, by weights of heads {measured:.5f}",
    )


def where_norms_align_better() -> Found:
    """Find where norms align better than weights, and what aligns worse than the diagonal."""
    names, ways = ("en-es", "de-en"), get_args(AlignedRows)
    of_layers = {(name, rows): _layers_apart(name, rows) for name in names for rows in ways}
    errors = {name: _alignment_errors(name) for name in names}
    better = [key for key, (_, _, high) in of_layers.items() if high < 0]
    unsure = all(
        low < 0 < high for (_, rows), (_, low, high) in of_layers.items() if rows == "predicted"
    )
    by_heads = [
        errors[name][rows, "value norm", "heads"][0] - errors[name][rows, "weight", "heads"][0]
        for name, rows in of_layers
    ]
    measures = read_measures(run_of("de-en").folder, run_of("de-en").steps()[-1])
    assert measures.alignment is not None
    diagonal = measures.alignment.diagonal
    lowest = min(of[0] for key, of in errors["de-en"].items() if key[0] == "consumed")
    return Found(
        {"diagonal": f"{diagonal:.3f}"},
        better == [("en-es", "consumed")]
        and unsure
        and min(by_heads) > -5e-4
        and lowest > diagonal,
        f"norms less weights of heads: {', '.join(f'{each:+.4f}' for each in by_heads)}",
    )


def _ids(name: str, source: str, target: str) -> tuple[list[int], list[int]]:
    tokenizers = run_of(name).tokenizers
    return tokenizers.encode_source(source), tokenizers.encode_target(target)


def _higher(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each with each whether it is higher, an equal one counting a half."""
    return np.asarray((np.sign(ones[:, None] - others) + 1) / 2)


def _log_probabilities(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> np.ndarray:
    ids = PaddedIds.of([list(source)], [list(target)], model)
    stream = forced_stream(model, ids.source, ids.target[:, :-1])
    return np.asarray(log_probabilities(model, stream[0], ids.predicted[0]).numpy())


def an_added_word_has_no_counterpart(name: str) -> Found:
    """Lay the two sentences of the lesson on a negation beside each other, token by token."""
    run = run_of(name)
    texts = ("She is at home.", "She is not at home.")
    a, b = (run_trace(newest(name), run.tokenizers, text).source for text in texts)
    alone = [
        "".join(b.texts[each.b.start : each.b.stop]).strip()
        for each in corresponding(a, b)
        if not each.fits
    ]
    return Found(holds=len(alone) == 1 and "not" in alone[0], seen=f"without one: {alone}")


def only_the_ending_is_open(name: str) -> Found:
    """Compare the two translations of the lesson on agreement: they part within one word."""
    tokenizers = run_of(name).tokenizers
    texts = ("Tres hombres viejos duermen.", "Tres hombres viejo duermen.")
    one, two = (tokenizers.encode_target(text) for text in texts)
    at, _ = first_difference(one, two)
    same = tokenizers.target.decode(one[1 : at + 1])
    return Found(holds=same.startswith("Tres hombres"), seen=f"the same up to “{same}”")


def neighbouring_places_look_alike() -> Found:
    """Compare the encodings of neighbouring places with those of all places further apart."""
    seen, holds = [], True
    for width in sorted({run_of(name).info.model.d_model for name in SHIPPED}):
        encoded = encodings(np.arange(_PLACES), width)
        cosines = cosine_similarity(encoded, encoded)[0]
        holds &= bool(cosines[1] > cosines[2:].max())
        seen.append(f"D = {width}: cosine {cosines[1]:.2f} at 1, {cosines[2:].max():.2f} beyond")
    return Found(holds=holds, seen="; ".join(seen))


@torch.inference_mode()
def surer_where_wrong(name: str) -> Found:
    """Follow the largest probability where it is not the reference's, since the loss was lowest.

    Of 128 validation pairs, which are kept beside the strongest sentences of neurons.
    """
    run, valid = run_of(name), curve(name, "valid_loss")
    kept = read_neurons(run.folder, run.steps()[-1])
    pairs = [
        (run.tokenizers.encode_source(each.source), run.tokenizers.encode_target(each.reference))
        for each in kept.sentences[:_UNSEEN]
    ]
    pairs.sort(key=lambda pair: len(pair[1]))
    sure = {}
    for step in (step for step in run.steps() if step >= min(valid, key=valid.__getitem__)):
        model = load_weights(run, step).model
        wrong = []
        for at in range(0, len(pairs), _BATCH):
            ids = PaddedIds.of(*zip(*pairs[at : at + _BATCH], strict=True), model)
            logits = model(ids.source, ids.target[:, :-1])
            largest, likeliest = logits.softmax(dim=-1).max(dim=-1)
            wrong.append(largest[ids.is_predicted & (likeliest != ids.predicted)])
        sure[step] = float(torch.cat(wrong).mean())
    seen = ", ".join(f"{value:.2f} at {step:,}" for step, value in sure.items())
    return Found(holds=list(sure.values()) == sorted(set(sure.values())), seen=seen)


def embeddings_leave_dimensions(name: str) -> Found:
    """Compare how symbols differ in the dimensions in which positions differ much, and hardly."""
    model = newest(name)
    symbols = [id_ for id_ in range(model.config.source_vocab_size) if id_ > 3]
    embedded = model.encoder.embedding.table.weight[symbols].detach().numpy()
    apart = encodings(np.arange(LONGEST + 2), embedded.shape[1]).std(axis=0)
    used, free = (embedded.std(axis=0)[which] for which in (apart > 0.4, apart < 0.1))
    seen = f"standard deviation at most {used.max():.3f} there, {free.min():.3f} and more elsewhere"
    return Found(holds=bool(used.max() < free.min()), seen=seen)
