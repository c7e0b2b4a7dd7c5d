"""Align the words of a corpus with eflomal, as the reference for alignment error rates.

    pip install -e ".[align]"
    python -m headwise.viz_app.measuring.align --run en-es --data valid.jsonl --train train.jsonl

writes ``checkpoints/<run>/alignments.jsonl`` for the corpus given as --data, from which
viz_app/measure.py computes error rates. eflomal (Östling and Tiedemann 2016, "Efficient word
alignment with Markov Chain Monte Carlo") aligns both directions and learns from --train and --data
together, without the model; the two directions are combined by grow-diag-final-and (Koehn et al.
2003). It samples without a fixed seed: running this again gives slightly different links.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headwise.model.checkpoint import CHECKPOINTS
from headwise.model.interface import DEFAULT_LANGUAGES, Languages, Vocabulary
from headwise.model.runs import choose_languages, open_run, require_languages
from headwise.model.training.corpora import load_corpus
from headwise.viz_app.core.options import run_command
from headwise.viz_app.measuring.alignments import (
    Alignments,
    Links,
    alignments_path,
    parse_links,
    symmetrise,
    write_alignments,
)


@dataclass(frozen=True)
class AlignArguments:
    """Align the words of a corpus, as a run's tokenizers make them."""

    run: str
    """Name of the run, folder of a model or of a training, or name on the Hugging Face hub, whose
    tokenizers divide the words."""
    data: str
    """The corpus to align: a file, or a name that headwise.model.evaluate knows."""
    train: tuple[str, ...] = ()
    """Further corpora of the same languages to learn from."""
    split: str = "validation"
    """Split of --data where it is a corpus by name; --train is read in its split "train"."""
    columns: tuple[str, str] | None = None
    """Names of the two columns of the data, where they are not the languages."""
    languages: Languages = DEFAULT_LANGUAGES
    """Languages or task of a model that knows several."""
    checkpoints: Path = CHECKPOINTS
    """Folder of the runs."""


def words_of(vocabulary: Vocabulary, text: str) -> list[str]:
    """Split a text into written words as a vocabulary does; unknown words are kept as written."""
    ids = [id for id in vocabulary.encode(text) if id not in vocabulary.control_ids]
    unknown = iter(vocabulary.unknown(text))
    words = []
    for word in vocabulary.words(ids):
        read = vocabulary.decode(ids[word.start : word.stop])
        if read in ("", "<unk>"):
            read = next(unknown, read)
        words.append("".join(read.split()) or "␣")  # a space would make two words of it
    return words


def main(arguments: AlignArguments) -> None:
    try:
        import eflomal
    except ModuleNotFoundError:
        raise ValueError('eflomal is not installed; pip install -e ".[align]"') from None

    run = open_run(arguments.run, root=arguments.checkpoints)
    run = choose_languages(run, arguments.languages)
    require_languages(run, arguments.columns)
    languages = {"source": run.source_language, "target": run.target_language}
    corpora = [
        load_corpus(name, split=split, columns=arguments.columns, **languages)
        for name, split in (
            (arguments.data, arguments.split),
            *((name, "train") for name in arguments.train),
        )
    ]
    sides: tuple[list[list[str]], list[list[str]]] = ([], [])
    numbers = []
    for corpus in corpora:
        for number, pair in enumerate(corpus.pairs):
            if pair.source and pair.target:
                sides[0].append(words_of(run.tokenizers.source, pair.source))
                sides[1].append(words_of(run.tokenizers.target, pair.target))
                if corpus is corpora[0]:
                    numbers.append(number)
    texts = [[" ".join(words) + "\n" for words in side] for side in sides]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("forward", "backward")]
        eflomal.Aligner().align(*texts, *map(str, files))
        directions = [
            [parse_links(line) for line in file.read_text().splitlines()[: len(numbers)]]
            for file in files
        ]
    sentences = {
        number: Links(len(source), len(target), frozenset(symmetrise(forward, backward)))
        for number, source, target, forward, backward in zip(
            numbers, *sides, *directions, strict=False
        )
    }
    aligner = f"eflomal {version('eflomal')}, both directions, grow-diag-final-and; learnt from "
    aligner += " + ".join(f"{corpus.name} ({len(corpus.pairs):,} pairs)" for corpus in corpora)
    alignments = Alignments(corpora[0].name, corpora[0].sha256, aligner, sentences)
    write_alignments(run.folder, alignments)
    print(f"{alignments_path(run.folder)}: {len(sentences):,} sentences; {aligner}")


if __name__ == "__main__":
    run_command(main, AlignArguments, "measuring.align")
