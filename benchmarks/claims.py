# ruff: noqa: F401 (claims.txt uses some of the names)
"""What pages, lessons and documents say about the runs that ship, each computed from the files.

``python -m benchmarks.claims`` prints the claims of ``claims.txt``, which says how they are
written, as they are computed now. Ends with 1 if one does not hold, or is not said where it should.
"""

from __future__ import annotations

import ast
import math
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from safetensors.numpy import load_file
from scipy.stats import binomtest

import headwise
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.decoding.translation import translate
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.masks import PADDING, pad
from headwise.model.presets import PRESETS
from headwise.model.training.corpora import LONGEST, copy_task
from headwise.model.training.data import Pair
from headwise.model.training.options import parse
from headwise.model.transformer import Transformer
from headwise.model.turning import ablate
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.head_ranking import rank_correlation
from headwise.viz_app.analysis.pairs import accuracy, accuracy_losses
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.api.alignments import align
from headwise.viz_app.core.batches import (
    EncodedPair,
    PaddedIds,
    attention_maps,
    batches_by_length,
    target_scores,
)
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
from headwise.viz_app.lessons.question import first_difference
from headwise.viz_app.measuring.alignments import Links, format_links, read_alignments
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.head_alignments import AlignedRows, MapsOf, cross_maps
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.measuring.pairs import read_pairs
from headwise.viz_app.measuring.tensor_files import read_neurons
from headwise.viz_app.measuring.wording import LITTLE
from headwise.viz_app.measuring.words import (
    align_batch,
    count_correct_links,
    source_word_numbers,
    word_numbers,
)
from headwise.viz_app.model.angles import encodings
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate.given import unrelated
from headwise.viz_app.why.sentences.correspondence import corresponding
from tests.shipped import SHIPPED

ROOT = Path(__file__).resolve().parents[1]
Figures = dict[str, Any]
"""What is found, by the names that ``claims.txt`` has in braces; ``holds`` is False if it is not
as claimed."""


@dataclass(frozen=True)
class Claim:
    """Something that is said about the runs that ship."""

    where: str
    """The file, from the root of the project."""
    by: str
    """An expression; or ``by`` and the command, which needs corpora that do not ship."""
    words: str

    def find(self) -> tuple[bool, str, object]:
        """Whether it holds and is said where it should; what is to be said; what was found."""
        found = {} if self.by.startswith("by ") else eval(self.by, globals())
        figures = found if isinstance(found, dict) else {"found": found, "holds": found}
        said = on_one_line(self.words.format(**figures))
        holds = bool(figures.get("holds", True))
        return holds and said in texts_of(ROOT / self.where), said, found


def read_claims() -> list[Claim]:
    """The claims of ``claims.txt``, in their order."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    claims = []
    for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        where, _, listed = section.partition("\n")
        found = re.findall(r"((?:^\S.*\n)+)((?: {4}.*\n)+)", listed, re.MULTILINE)
        claims += [Claim(where, on_one_line(by), words) for by, words in found]
    return claims


def main(claims: Sequence[Claim]) -> int:
    """Print what each claim says now, where, and what was found; 1 if one is wrong."""
    wrong = 0
    for claim in claims:
        right, said, found = claim.find()
        wrong += not right
        kind = "corpus" if claim.by.startswith("by ") else "holds " if right else "WRONG "
        seen = on_one_line(str(found or ""))
        print(kind, f"{claim.where}: {said} ({claim.by}{f': {seen}' * (seen not in said)})")
    print(f"{len(claims) - wrong} of {len(claims)} claims hold")
    return int(wrong > 0)


def on_one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())


@cache
def texts_of(path: Path) -> str:
    """Return what a file says on one line: all of it, or the texts in it if it is of Python."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        parts = (of.value for of in ast.walk(ast.parse(content)) if isinstance(of, ast.Constant))
        content = "\n".join(each for each in parts if isinstance(each, str))
    return on_one_line(content)


def exact_interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95% interval of a share (Clopper and Pearson 1934)."""
    ends = binomtest(count, of).proportion_ci(method="exact")
    return float(ends.low), float(ends.high)


def signed(value: float, form: str) -> str:
    """Return a number with a true minus sign."""
    return format(value, form).replace("-", "−")


@cache
def run(name: str) -> TrainedRun:
    """Open a run that ships."""
    return open_trained_run(name)


@cache
def model(name: str) -> Transformer:
    """Load the last checkpoint of a run."""
    return load_weights(run(name), run(name).steps()[-1]).model


@cache
def measures(name: str, step: int | None = None) -> Measures:
    """Read the measures of a checkpoint, or of the last one."""
    return read_measures(run(name).folder, run(name).steps()[-1] if step is None else step)


@cache
def curve(name: str, of: str) -> dict[int, float]:
    """Return a figure of a run's log by step."""
    return {row["step"]: row[of] for row in run(name).metrics() if of in row}


def size(name: str) -> Figures:
    """Count layers, heads, width, vocabularies, parameters and checkpoints."""
    own = run(name)
    parameters = sum(parameter.numel() for parameter in model(name).parameters()) / 1e6
    source, target = own.tokenizers.source.vocab_size, own.tokenizers.target.vocab_size
    counts = {"source": source, "target": target, "symbols": source - 4, "parameters": parameters}
    return asdict(own.info.model) | counts | {"checkpoints": len(own.steps())}


def losses(name: str) -> Figures:
    """Read where validation loss begins, is lowest and ends, and the other losses at the end."""
    valid = [*curve(name, "valid_loss").values()]
    lowest = min(valid)
    return {
        **{"first": valid[0], "lowest": lowest, "last": valid[-1]},
        "best": [*curve(name, "valid_loss")][valid.index(lowest)],
        "train": [*curve(name, "train_sample_loss").values()][-1],
        "batches": [*curve(name, "train_loss").values()][-1],
        "words": run(name).tokenizers.target.vocab_size,
    }


def milestones(name: str, digits: int = 3) -> str:
    """Write the table of loss, BLEU and chrF, with alignment errors of en-es."""
    rows = []
    for step in run(name).steps():
        loss, bleu, chrf = (curve(name, of)[step] for of in ("valid_loss", "bleu", "chrf"))
        cells = [f"{step:,}", f"{loss:.{digits}f}", f"{bleu:.1f}", f"{chrf:.1f}"]
        if name == "en-es":
            values = measures(name, step).values
            by = (values[f"aer_{way}"]["cross"].min() for way in ("predicted", "consumed"))
            cells += [f"{float(rate):.2f}" for rate in by]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def loss_rises_while_bleu_does(name: str) -> Figures:
    """Compare where loss and BLEU are best."""
    valid, bleu = curve(name, "valid_loss"), curve(name, "bleu")
    best, most = min(valid, key=valid.__getitem__), max(bleu, key=bleu.__getitem__)
    after = [loss for step, loss in valid.items() if step >= best]
    within = min(valid) < best < max(valid)
    holds = within and after == sorted(after) and most > best and bleu[most] > bleu[best] + 1
    return {"best": best, "bleu": bleu[best], "most": bleu[most], "at": most, "holds": holds}


def command(name: str) -> list[str]:
    """Return the options of the command of ``docs/training.md`` that made a run."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").replace("\\\n", " ")
    section = text.partition("## How the shipped runs were made")[2]
    [line] = re.findall(rf"^\S+ -m headwise.model.train .*--run {name}\b.*", section, re.MULTILINE)
    return shlex.split(line)[3:]


def unlike(one: Any, other: Any) -> set[str]:
    """Return the settings in which two configurations differ, upper limits aside."""
    differing = {key for key, value in asdict(one).items() if value != asdict(other)[key]}
    return differing - {"source_vocab_size", "target_vocab_size"}


def made_by_the_command(name: str) -> tuple[int, int] | None:
    """Count checkpoints that ship, and those of the command; None if ``run.json`` is unlike it."""
    info, given = run(name).info, parse(command(name))
    kept, made = set(info.training.all_milestones), set(given.training.all_milestones)
    other = unlike(given.training, info.training) - {"milestones"} | unlike(given.model, info.model)
    return None if other or not kept <= made else (len(kept), len(made))


def first_stage(name: str) -> Figures:
    """Find the checkpoint with the least of the source, whose translations are likely as text.

    No other run has a checkpoint where both are so.
    """
    shown = {}
    for each in SHIPPED:
        steps = run(each).steps()
        step = min(steps, key=lambda at, of=each: measures(of, at).stages["source_contribution"])
        of = measures(each, step).stages
        if of["language_model"] > of["language_model_reference"]:
            shown[each] = step
    of = measures(name, shown[name]).stages
    ways = {"own": -of["language_model"], "reference": -of["language_model_reference"]}
    return ways | {"step": shown[name], "chrf": of["chrf"], "holds": [*shown] == [name]}


def most_reordering() -> float:
    """Find how far the order departs from the references' once chrF is half of what it becomes."""
    apart = []
    for name in SHIPPED:
        found = [measures(name, step).stages for step in run(name).steps()]
        late = [each for each in found if each["chrf"] >= found[-1]["chrf"] / 2]
        apart += [abs(each["reordering"] - each["reordering_reference"]) for each in late]
    return math.ceil(1000 * max(apart)) / 1000


def least_errors(name: str) -> dict[str, float]:
    """Return the lowest alignment errors of cross-attention, by which word rows go."""
    values = measures(name).values
    return {way: float(values[f"aer_{way}"]["cross"].min()) for way in get_args(AlignedRows)}


def best_aligning_heads(name: str, digits: int = 3) -> str:
    """Write a run's row: the heads with the lowest alignment errors, beside both baselines."""
    cells = []
    for way, rate in least_errors(name).items():
        rates = measures(name).values[f"aer_{way}"]["cross"]
        layer, head = divmod(int(rates.argmin()), rates.shape[1])
        cells.append(f"{rate:.3f} (layer {layer + 1}, head {head + 1})")
    cells += [f"{rate:.{digits}f}" for rate in vars(measures(name).alignment).values()]
    return f"| `{name}` | {' | '.join(cells)} |"


def resting_heads(name: str) -> list[int] | None:
    """Rank by cost the two cross-attention heads with most weight on ``</s>``, if both cost."""
    end, cost = (measures(name).values[of]["cross"].ravel() for of in ("end", "cost"))
    costs = cost[np.argsort(-end)[:2]]
    return sorted(int((cost > each).sum()) + 1 for each in costs) if min(costs) > LITTLE else None


def size_of_measures(name: str) -> float:
    """Add up the files of measures but for pairs, in kB."""
    paths = [*(run(name).folder / "measures").iterdir()]
    return round(sum(p.stat().st_size for p in paths if p.name != "pairs.json") / 1000, -1)


def what_layers_wrote() -> Figures:
    """Find how much of scores is neither of tokens nor of positions, above the first layer."""
    upper, last = [], []
    for name, kind in product(SHIPPED, KINDS):
        values = measures(name).values
        if kind in values["by_position"]:
            rest = 1 - sum(values[f"by_{what}"][kind] for what in ("position", "token", "both"))
            upper.append(float(rest[1:].min()))
            last.append(float(rest[-1].min()))
    return {of: math.floor(100 * min(all)) / 100 for of, all in (("upper", upper), ("last", last))}


def accuracy_on_pairs(name: str) -> Figures:
    """Compute the accuracy at the last checkpoint, by phenomenon, and of what fails.

    Of the tense: the likelier target is in the present; of two sources with the same first noun,
    once the subject and once the object, the same translation is the likelier.
    """
    measured = read_measured_pairs(run(name).folder)
    assert measured is not None
    scores = measured.checkpoints[run(name).steps()[-1]]
    places = {each: measured.places(each) for each in measured.phenomena}
    right = {each: int(scores.outcomes[at].sum()) for each, at in places.items()}
    likelier = [
        pair.right if better else pair.wrong
        for pair, better in zip(measured.pairs, scores.right > scores.wrong, strict=True)
    ]
    order = [likelier[place] for place in places["subject and object"]]
    holds = (
        all(re.search(r"\b(is|are|has|jumps)\b", likelier[place]) for place in places["tense"])
        and right["negation"] == right["pronoun"]
        and right["tense"] == right["subject and object"]
        and order[::2] == order[1::2]
        and not any(loss.low > 0 for loss in accuracy_losses(measured))
    )
    ends = {f"{of}_ends": exact_interval(count, len(places[of])) for of, count in right.items()}
    whole = {"whole": accuracy(scores.outcomes), "each": len(places["article"])}
    return {**right, **ends, **whole, "holds": holds}


@cache
def writing(name: str, kind: Kind) -> WritingScores:
    """Score what heads write, over the example sentences of a run."""
    sentences = Sentences.examples(run(name), measures(name))
    values = mean_values(model(name), sentences, kind)
    if kind == "cross":
        aligner = int(np.nanargmin(measures(name).values["aer_predicted"]["cross"]))
        return lexicon_precision(model(name), values, lexicon_of(model(name), sentences, aligner))
    return copying(model(name), frequent(values, run(name).tokenizers, run(name).counts))


def extreme_head(name: str, kind: Kind, sign: int = 1) -> Figures:
    """Find the head with the highest score of what it writes, or the lowest."""
    scores = writing(name, kind)
    layer, head = at = divmod(int((sign * scores.values).argmax()), scores.values.shape[1])
    figures = {"layer": layer + 1, "head": head + 1, "right": scores.right(Head(kind, *at))}
    figures |= {"score": scores.values[at], "chance": scores.chance[at], "tokens": scores.tokens}
    return figures | {"interval": scores.precision(Head(kind, *at))}


def edges_beyond_chance() -> Figures:
    """Count the edges between heads more than three standard deviations from random matrices."""
    figures: Figures = {}
    for name in ("en", "de", "books"):
        found = composition(model({"en": "en-es", "de": "de-en"}.get(name, "books-small")))
        above, below = (int((sign * found.score > 3 * found.error).sum()) for sign in (1, -1))
        figures[name] = {"above": above, "below": below, "edges": len(found.score)}
    return figures | {"holds": max(above, below) < 0.005 * len(found.score)}  # of the last


@cache
def edges_of_what_changed(name: str, other: str) -> Figures:
    """Find how far attention matrices of two runs are from step 0; how one's changes compose.

    The model of the changes has, in place of each matrix of attention, the matrix less that of step
    0; of norms it keeps the gains.
    """
    figures: Figures = {}
    for which, each in (("own", name), ("other", other)):
        changed = load_weights(run(each), run(each).steps()[-1]).model
        last = dict(changed.named_parameters())
        first = dict(load_weights(run(each), 0).model.named_parameters())
        matrices = [path for path in last if path.endswith("_projection.weight")]
        pairs = [(first[path].flatten(), last[path].flatten()) for path in matrices]
        cosines = [float(torch.cosine_similarity(*pair, dim=0)) for pair in pairs]
        figures |= {f"{which}_least": min(cosines), f"{which}_most": max(cosines)}
        if each == name:
            with torch.no_grad():
                for path in matrices:
                    last[path] -= first[path]
            share = composition(changed).stands_out.mean()
    whole = composition(model(name)).stands_out
    return figures | {"count": int(whole.sum()), "of": len(whole), "holds": share > 0.5}


@cache
def copied() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the ids of unseen sequences and of targets, and at which rows a symbol is copied."""
    tokenizers, texts = run("copy").tokenizers, copy_task("test")
    source = pad([tokenizers.encode_source(text) for text in texts])
    target = pad([tokenizers.encode_target(text) for text in texts])
    symbols = torch.arange(LONGEST + 1) < torch.tensor([[len(text.split())] for text in texts])
    return source, target, symbols


@cache
def copies() -> Figures:
    """Copy 1,000 sequences that were not trained on, letter by letter."""
    texts = copy_task("test")
    made = translate(model("copy"), run("copy").tokenizers, texts)
    right = sum(one == other for one, other in zip(made, texts, strict=True))
    unseen, low = not set(texts) & set(copy_task("train")), exact_interval(right, len(texts))[0]
    return {"right": right, "all": len(texts), "low": low, "holds": unseen and right == len(texts)}


@cache
@torch.inference_mode()
def looks_at_the_copied_symbol() -> Figures:
    """Count the rows whose largest weight is on the symbol that is copied, head by head.

    Row t, which predicts symbol t, has it on key t.
    """
    source, target, symbols = copied()
    names = [f"decoder.layers.{layer}.cross_attention.weights" for layer in range(2)]
    with capture(model("copy"), names) as seen:
        model("copy")(source, target[:, :-1])
    at = torch.cat([seen[name][0] for name in names], dim=1).argmax(dim=-1)  # (B, L H, T)
    right = (at == torch.arange(LONGEST + 1)) & symbols[:, None]
    shares = (right.sum(dim=(0, 2)) / symbols.sum()).tolist()  # (L H)
    holds = shares[0] == 1 and min(shares) > 0.95
    return {"rows": int(symbols.sum()), "shares": shares, "holds": holds}


@cache
@torch.inference_mode()
def without_heads_of_layer_1(*numbers: int) -> tuple[float, float]:
    """Return the share of right tokens and the loss without some heads of cross-attention."""
    source, target, _ = copied()
    with ablate(model("copy"), [Head("cross", 0, number - 1) for number in numbers]):
        stream = forced_stream(model("copy"), source, target[:, :-1])
    keep = target[:, 1:] != PADDING
    predicted, logits = target[:, 1:][keep], model("copy").unembed(stream[keep])
    right = (logits.argmax(dim=-1) == predicted).double().mean()
    scores = log_probabilities(model("copy"), stream[keep], predicted)
    return float(right), -float(scores.double().mean())


def embeddings_leave_dimensions(name: str) -> Figures:
    """Compare how symbols differ in the dimensions in which positions differ much, and hardly."""
    embedded = model(name).encoder.embedding.table.weight[4:].detach().numpy().std(axis=0)
    apart = encodings(np.arange(LONGEST + 2), len(embedded)).std(axis=0)
    used, free = embedded[apart > 0.4].max(), embedded[apart < 0.1].min()
    return {"used": used, "free": free, "holds": used < free}


@cache
def zero_and_mean() -> Figures:
    """Correlate what heads cost by zero and by their means, over the corpus of each run."""
    found, moved = {}, 0
    for name in SHIPPED:
        values = measures(name).values
        zero, mean = (
            np.concatenate([values[of][kind].ravel() for kind in KINDS]).tolist()
            for of in ("cost", MEAN_ABLATION)
        )
        found[name] = rank_correlation(zero, mean)
        moved += np.argmax(zero) != np.argmax(mean)
    ends = {"least": min(found.values()), "most": max(found.values())}
    return ends | {"moved": moved, "runs": len(found)}


def scores_of(name: str, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """Return the log-probability of each token of a target."""
    ids = PaddedIds.of([list(source)], [list(target)], model(name))
    stream = forced_stream(model(name), ids.source, ids.target[:, :-1])
    return np.asarray(log_probabilities(model(name), stream[0], ids.predicted[0]).numpy())


def resampled(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the 95% interval of the ratio of two sums, by resampling sentences."""
    drawn = np.random.default_rng(0).integers(len(sizes), size=(1_000, len(sizes)))
    ratios = values[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return np.asarray(np.percentile(ratios, (2.5, 97.5)))


@torch.inference_mode()
def strongest_source_token(name: str, sentences: int) -> Figures:
    """Compare shares of source tokens with what leaving each out costs, prediction by prediction.

    Of the first example sentences, with the run's own translations, by ALTI+ and by the mean of
    the last layer's cross-attention; the interval of the difference is over sentences.
    """
    tokenizers, shapes = run(name).tokenizers, model(name).description.shapes["cross"]
    correlations, hits = defaultdict[str, list[float]](list), defaultdict[str, list[int]](list)
    lengths = []
    for text in [each.source for each in measures(name).sentences][:sentences]:
        source = tokenizers.encode_source(text)
        target = tokenizers.encode_target(translate(model(name), tokenizers, [text])[0])
        ids = PaddedIds.of([source], [target], model(name))
        last = attention_maps(model(name), ids)[0]["cross"][0].unflatten(0, shapes)[-1]
        whole = scores_of(name, source, target)
        shorter = [source[:at] + source[at + 1 :] for at in range(len(source) - 1)]  # all but </s>
        lost = np.stack([whole - scores_of(name, each, target) for each in shorter], axis=1)
        lengths.append(len(lost))
        for way, shares in (
            ("alti", contributions(model(name), ids).source[0]),
            ("cross", last.mean(dim=0)),
        ):
            found = shares[:, :-1].numpy()
            correlations[way] += map(rank_correlation, found.tolist(), lost.tolist())
            hits[way].append(int((found.argmax(axis=1) == lost.argmax(axis=1)).sum()))
    ends = resampled(np.subtract(hits["alti"], hits["cross"]), np.array(lengths))
    same = {f"same_{way}": sum(found) / sum(lengths) for way, found in hits.items()}
    rho = {f"rho_{way}": np.nanmean(found) for way, found in correlations.items()}
    return {**rho, **same, "predictions": sum(lengths), "ends": 100 * ends, "holds": ends[0] > 0}


@torch.inference_mode()
def references_told_apart() -> Figures:
    """Compare references of example sentences with unrelated sentences, each with each.

    By their log-probability a token, and by the source token that heads of cross-attention look at
    least: the largest weight that any has on it in any row. Intervals are over sources.
    """
    figures, holds = Figures(), True
    for name in ("en-es", "de-en"):
        sentences = Sentences.examples(run(name), measures(name))
        pairs = sorted(sentences.pairs, key=lambda each: (len(each.target), each.number))
        scores = []
        for each in (pairs, unrelated(pairs)):
            batches = [each[at : at + 32] for at in range(0, len(each), 32)]
            looked_at = torch.cat([least_looked_at(name, batch) for batch in batches])
            likely = torch.cat([target_scores(model(name), batch) for batch in batches]).double()
            scores.append((likely.numpy() / [len(pair.target) - 1 for pair in each], looked_at))
        by_likelihood, by_weight = (
            (np.sign(np.subtract.outer(ones, others)) + 1) / 2  # an equal one counts a half
            for ones, others in zip(*scores, strict=True)
        )
        holds &= bool(by_likelihood.mean() > 0.999)
        drawn = np.random.default_rng(0).integers(len(pairs), size=(1_000, len(pairs)))
        ends = np.percentile([by_weight[np.ix_(at, at)].mean() for at in drawn], (2.5, 97.5))
        figures[name[:2]] = (by_weight.mean(), *ends)
    return figures | {"holds": holds}


def least_looked_at(name: str, batch: Sequence[EncodedPair]) -> torch.Tensor:
    """Return the largest weight on the source token that has the least, </s> aside: (B,)."""
    ids = PaddedIds.of_pairs(batch, model(name))
    allowed = ids.allowed("cross")
    weights = attention_maps(model(name), ids)[0]["cross"].masked_fill(~allowed[:, None], 0.0)
    content = allowed.any(dim=1) & (ids.source != ids.special.end)
    return weights.amax(dim=(1, 2)).masked_fill(~content, torch.inf).amin(dim=1)


@cache
@torch.inference_mode()
def right_links(name: str) -> tuple[dict[tuple[str, str, str], np.ndarray], np.ndarray]:
    """Return twice the right links of each sentence's maps, and the links of both sides.

    By which word rows go, what a cell is, and of what a map is. Reference alignments are of the
    whole corpus, in which sources are repeated: the next one with the right numbers of words is
    that of a sentence that was measured.
    """
    tokenizers, found = run(name).tokenizers, read_alignments(run(name).folder)
    assert found is not None
    references = iter([of for _, of in sorted(found.sentences.items())])
    pairs, links = [], []
    for number, of in enumerate(read_neurons(run(name).folder, run(name).steps()[-1]).sentences):
        ids = tokenizers.encode_source(of.source), tokenizers.encode_target(of.reference)
        pairs.append(EncodedPair(number, Pair(of.source, of.reference), *ids))
        words = source_word_numbers(tokenizers, ids[0]), word_numbers(tokenizers.target, ids[1])
        sizes = tuple(max(each) + 1 for each in words)
        links.append(next(of for of in references if (of.source_words, of.target_words) == sizes))
    counts = defaultdict[tuple[str, str, str], list[np.ndarray]](list)
    for batch in batches_by_length(pairs):
        aligned = align_batch(
            batch, tokenizers, lambda each: links[each.number], model(name).device
        )
        assert aligned is not None
        counts["", "", ""].append(aligned.sizes.numpy())
        ids = PaddedIds.of_pairs(batch, model(name))
        for by, maps_of in product(get_args(CellValue), get_args(MapsOf)):
            maps = cross_maps(model(name), ids, by=by, of=maps_of)
            for rows in get_args(AlignedRows):
                right = count_correct_links(maps, aligned, getattr(aligned, rows))
                counts[rows, by, maps_of].append(2 * right.numpy())
    whole = {key: np.concatenate(parts) for key, parts in counts.items()}
    return whole, whole.pop(("", "", ""))


def lowest_error(name: str, rows: str, by: str, of: str) -> float:
    """Return the alignment error of the best map."""
    right, sizes = right_links(name)
    return float(1 - right[rows, by, of].sum(axis=0).max() / sizes.sum())


def layers_apart(name: str, rows: str) -> tuple[float, float, float]:
    """Return the error of the best layer by norms less by weights, with its 95% interval."""
    right, sizes = right_links(name)
    weights, norms = (right[rows, by, "layers"] for by in get_args(CellValue))
    best = (of[:, of.sum(axis=0).argmax()] for of in (weights, norms))
    apart = np.subtract(*best)  # fewer right links are a larger error
    low, high = resampled(apart, sizes)
    return float(apart.sum() / sizes.sum()), float(low), float(high)


def aligned_by_norms(name: str, rows: str) -> Figures:
    """Compare weights with norms of values, of heads and of layers, as Kobayashi et al. (2020)."""
    ways = product(get_args(MapsOf), get_args(CellValue))
    cells = [lowest_error(name, rows, by, of) for of, by in ways]
    apart, low, high = (signed(value, "+.3f") for value in layers_apart(name, rows))
    row = " | ".join([f"`{name}`", rows, *(f"{cell:.3f}" for cell in cells)])
    holds = abs(cells[0] - least_errors(name)[rows]) < 2e-5
    return {"row": f"| {row} | {apart} ({low} to {high}) |", "holds": holds, "cells": cells}


def where_norms_align_better() -> Figures:
    """Find where norms align better than weights, and what aligns worse than the diagonal."""
    keys = [*product(("en-es", "de-en"), get_args(AlignedRows))]
    better = [key for key in keys if layers_apart(*key)[2] < 0]
    unsure = [key for key in keys if layers_apart(*key)[1] < 0 < layers_apart(*key)[2]]
    cells = {key: aligned_by_norms(*key)["cells"] for key in keys}
    diagonal = vars(measures("de-en").alignment)["diagonal"]
    holds = (
        better == [("en-es", "consumed")]
        and {("en-es", "predicted"), ("de-en", "predicted")} <= {*unsure}
        and all(by_norm - by_weight > -5e-4 for by_weight, by_norm, *_ in cells.values())
        and min(cells["de-en", "consumed"]) > diagonal
    )
    return {"diagonal": diagonal, "holds": holds}


def without_counterpart(name: str, *texts: str) -> list[str]:
    """Lay two sources beside each other, token by token; the tokens of the second that are left."""
    a, b = (run_trace(model(name), run(name).tokenizers, text).source for text in texts)
    return [
        "".join(b.texts[each.b.start : each.b.stop]).strip()
        for each in corresponding(a, b)
        if not each.fits
    ]


def same_up_to(name: str, *texts: str) -> str:
    """Return what two translations begin with."""
    ids = [run(name).tokenizers.encode_target(text) for text in texts]
    return run(name).tokenizers.target.decode(ids[0][1 : first_difference(*ids)[0] + 1])


@torch.inference_mode()
def surer_where_wrong(name: str) -> Figures:
    """Follow the largest probability where it is not the reference's, since the loss was lowest.

    Of 128 validation pairs, which are kept beside the strongest sentences of neurons.
    """
    tokenizers, valid = run(name).tokenizers, curve(name, "valid_loss")
    pairs = [
        (tokenizers.encode_source(each.source), tokenizers.encode_target(each.reference))
        for each in read_neurons(run(name).folder, run(name).steps()[-1]).sentences[:128]
    ]
    pairs.sort(key=lambda pair: len(pair[1]))
    sure = {}
    for step in (each for each in valid if each >= min(valid, key=valid.__getitem__)):
        checkpoint, wrong = load_weights(run(name), step).model, []
        for at in range(0, len(pairs), 32):
            ids = PaddedIds.of(*zip(*pairs[at : at + 32], strict=True), checkpoint)
            logits = checkpoint(ids.source, ids.target[:, :-1])
            largest, likeliest = logits.softmax(dim=-1).max(dim=-1)
            wrong.append(largest[ids.is_predicted & (likeliest != ids.predicted)])
        sure[step] = float(torch.cat(wrong).mean())
    return {"sure": sure, "holds": [*sure.values()] == sorted(set(sure.values()))}


if __name__ == "__main__":
    sys.exit(main(read_claims()))
