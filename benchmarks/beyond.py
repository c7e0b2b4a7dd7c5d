"""What a translation run does with input unlike its corpus: long input, names, numbers.

    python -m benchmarks.beyond --run en-es --data test.jsonl --train train.jsonl

derives from a corpus, by a seed, groups of sentences joined to one input, sentences with names that
are in no training text, and sentences with numbers of 2 to 6 digits; translates them greedily and
prints a table, and then ten sentences with their translations for a person to judge. What is of all
sources is printed beside those that are further than one word from any training source.
"""

from __future__ import annotations

import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
import tyro
from scipy.stats import binomtest

from headwise.model.checkpoint import (
    CHECKPOINTS,
    CheckpointError,
    TrainedRun,
    load_weights,
    open_trained_run,
)
from headwise.model.decoding.translation import translate
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError, Pair, bare, references_by_source, without_texts
from headwise.model.training.evaluation import evaluate, score_translations
from headwise.model.training.replacement import (
    common_words,
    draw_number,
    known_names,
    notations_of,
    places,
    with_changes,
)
from headwise.viz_app.analysis.labels import count_of, interval_text

GROUPS = {2: 150, 3: 150, 4: 150, 6: 100}
"""Sentences joined to one input, and how many such inputs there are."""

SENTENCES = 200
"""Sentences with names, and as many with numbers, or all that there are."""

_HERE = Path(__file__).parent
NAMES = (_HERE / "beyond_names.txt").read_text(encoding="utf-8")
"""Names of people and places, none of them among those that a training replaces names by."""

TEN = (_HERE / "beyond_sentences.txt").read_text(encoding="utf-8").splitlines()
"""Sentences from English that a person is to judge."""


@dataclass(frozen=True)
class BeyondArguments:
    """Measure a run beyond its corpus."""

    run: str
    """Name of the run."""
    data: str
    """A corpus that the run was not trained on."""
    train: str
    """The corpus it was trained on: names that occur in it are not used."""
    step: int | None = None
    """Step of the checkpoint; without it, the last."""
    split: str = "test"
    """Split of --data where it is a corpus by name."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""
    seed: int = 0
    """Of the drawing of groups, names and numbers."""


@dataclass(frozen=True)
class Copied:
    """A source with names or numbers put into it, and what its translation should have."""

    source: str
    wanted: list[str]


def one_word_away(sources: Iterable[str], others: Iterable[str]) -> set[str]:
    """The sources that one word more, less or other makes one of ``others``, or that are one.

    Words are compared as ``bare`` has them, without case, accents and punctuation.
    """
    found: set[str] = set()
    words = {source: tuple(bare(source).split()) for source in sources}
    near = defaultdict[tuple[str, ...], set[str]](set)
    for source, own in words.items():
        for form in (own, *_less(own), *_gapped(own)):
            near[form].add(source)
    for other in {tuple(bare(other).split()) for other in others}:
        for form in (other, *_gapped(other)):
            found |= near.get(form, set())
        for form in _less(other):
            found |= {source for source in near.get(form, ()) if words[source] == form}
    return found


def _less(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (words[:at] + words[at + 1 :] for at in range(len(words)))


def _gapped(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return ((*words[:at], "", *words[at + 1 :]) for at in range(len(words)))


def joined_groups(pairs: Sequence[Pair], size: int, count: int, seed: int) -> list[Pair]:
    """Groups of ``size`` distinct sources in random order, with the first translation of each."""
    distinct = [Pair(s, lines[0]) for s, lines in references_by_source(pairs).items()]
    random.Random(f"{seed}-{size}").shuffle(distinct)
    groups = [distinct[start : start + size] for start in range(0, len(distinct), size)]
    return [Pair(*map(" ".join, zip(*group, strict=True))) for group in groups[:count]]


def other_names(
    pairs: Sequence[Pair], names: Sequence[str], run: TrainedRun, *, seed: int
) -> list[Copied]:
    """Sources of pairs with a name in both sentences, each with one or two words of ``names``."""
    generator = random.Random(f"{seed}-names")
    is_common = common_words(text for pair in pairs for text in pair)
    found = []
    for pair in pairs:
        changes, wanted = [], []
        for place in places(*pair, languages=_languages(run), is_common=is_common):
            if place.kind == "name":
                name = " ".join(generator.sample(names, generator.choice((1, 1, 2))))
                changes += [(span, name) for span in place.source]
                wanted.append(name)
        if wanted:
            found.append(Copied(with_changes(pair.source, changes), wanted))
    return generator.sample(found, min(SENTENCES, len(found)))


def other_numbers(pairs: Sequence[Pair], run: TrainedRun, *, seed: int) -> list[Copied]:
    """Sources of pairs with a number in both sentences, each with another of 2 to 6 digits."""
    generator = random.Random(f"{seed}-numbers")
    notations = notations_of(_languages(run))
    numbers = [
        (pair.source, place.source)
        for pair in pairs
        for place in places(*pair, languages=_languages(run), is_common=lambda _: True)
        if place.kind == "number"
    ]
    found = []
    for source, spans in numbers * (SENTENCES // max(1, len(numbers)) + 1):
        number = target = ""
        while not 2 <= len(_without_groups(number)) <= 6:
            number, target = draw_number("number", generator, notations)
        changed = with_changes(source, [(span, number) for span in spans])
        found.append(Copied(changed, [target]))
    return generator.sample(found, min(SENTENCES, len(found)))


def _languages(run: TrainedRun) -> tuple[str, str]:
    return run.info.source_language, run.info.target_language


def _without_groups(text: str) -> str:
    """A text without marks between groups of three digits: 3,500 and 3.500 and 3 500 are alike."""
    return re.sub(r"(?<=\d)[.,  ](?=\d{3}(?!\d))", "", text)


def kept(copied: Sequence[Copied], translations: Sequence[str]) -> int:
    """How many of the translations have all names and numbers wanted, as whole words."""
    good = 0
    for sentence, translation in zip(copied, translations, strict=True):
        text = _without_groups(translation)
        good += all(
            re.search(rf"(?<!\w){re.escape(_without_groups(wanted))}(?!\w)", text)
            for wanted in sentence.wanted
        )
    return good


def _bleu_with_interval(scores: Mapping[str, Any]) -> str:
    """Return BLEU, with its interval where it has one."""
    ends = interval_text(scores["bleu_low"], scores["bleu_high"], ".1f")
    return f"{scores['bleu']:.1f} BLEU" + f" ({ends})" * bool(ends)


def main(arguments: BeyondArguments) -> None:
    """Measure and print, as Markdown."""
    run = open_trained_run(arguments.run, root=arguments.checkpoints)
    step = arguments.step if arguments.step is not None else run.steps()[-1]
    checkpoint = load_weights(run, step)
    source, target = _languages(run)
    pairs, train = (
        load_corpus(name, source=source, target=target, split=split).pairs
        for name, split in ((arguments.data, arguments.split), (arguments.train, "train"))
    )
    seen = set(re.findall(r"\w+", "\n".join(text for pair in train for text in pair)))
    names = [name for name in NAMES.split() if name not in seen and name not in known_names()]

    def translated(texts: Sequence[str]) -> list[str]:
        return translate(checkpoint.model, run.tokenizers, texts)

    # What stands in the data that are measured is left out of a training, as by --leave-out.
    unseen = without_texts(train, (text for pair in pairs for text in pair))
    near = one_word_away((pair.source for pair in pairs), (pair.source for pair in unseen))
    further = [pair for pair in pairs if pair.source not in near]
    print(f"{run.info.name}, step {step:,}, {Path(arguments.data).name}, greedy\n")
    print("| input | figure, 95% interval |\n|---|---|")
    for what, chosen in (
        ("as it is", pairs),
        ("one word from a training source", [pair for pair in pairs if pair.source in near]),
        ("further from all of them", further),
    ):
        if chosen:
            whole = evaluate(checkpoint.model, run.tokenizers, chosen)
            print(
                f"| {what}, {whole.sources:,} sources, all references | "
                f"{_bleu_with_interval(vars(whole))} |"
            )
    for what, chosen in (("", pairs), (" of those further", further)):
        for size, count in GROUPS.items():
            if not (groups := joined_groups(chosen, size, count, arguments.seed)):
                continue
            texts = translated([group.source for group in groups])
            targets = [group.target for group in groups]
            lengths = sacrebleu.BLEU().corpus_score(texts, [targets])
            score = score_translations(texts, [[target] for target in targets])
            print(
                f"| {len(groups)} groups of {size}{what} joined, one reference | "
                f"{_bleu_with_interval(score)}, "
                f"length ratio {lengths.sys_len / lengths.ref_len:.2f} |"
            )
    for what, copied in (
        ("names in no training text", other_names(pairs, names, run, seed=arguments.seed)),
        ("numbers of 2 to 6 digits", other_numbers(pairs, run, seed=arguments.seed)),
    ):
        if not copied:  # captions hardly have any
            print(f"| sentences with {what} | none in the data |")
            continue
        good = kept(copied, translated([sentence.source for sentence in copied]))
        exact = binomtest(good, len(copied)).proportion_ci(method="exact")
        print(
            f"| {count_of(len(copied), 'sentence')} with {what} | {good / len(copied):.1%} kept "
            f"({exact.low:.1%} to {exact.high:.1%}) |"
        )
    if source == "en":
        print()
        for text, translation in zip(TEN, translated(TEN), strict=True):
            print(f"* {text}\n  {translation}")


if __name__ == "__main__":
    try:
        main(tyro.cli(BeyondArguments))
    except (CheckpointError, DataError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
