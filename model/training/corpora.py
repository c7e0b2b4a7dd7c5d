"""Read parallel corpora from files, the Hugging Face hub, or the copy task."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.model.training.data import Corpus, DataError, Pair

LONGEST = 10
"""Number of symbols of the longest sequence to copy."""
_SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}


def copy_task(split: str) -> list[str]:
    """Return a split of the copy task of The Annotated Transformer: symbols, to be copied.

    Symbols are separated by spaces; no sequence is repeated. Differences: lengths vary from 1 to 10
    instead of being 10, the first symbol is free, and there are seven symbols, because four of the
    eleven entries of the vocabulary are special tokens.
    """
    if split not in _SIZES:
        raise DataError(f"copy: expected one of the splits {', '.join(_SIZES)}, got {split!r}")
    generator = random.Random(0)
    sequences: dict[str, None] = {}
    while len(sequences) < sum(_SIZES.values()):
        length = generator.randint(1, LONGEST)
        sequences[" ".join(generator.choices("abcdefg", k=length))] = None
    ends = dict(zip(_SIZES, accumulate(_SIZES.values()), strict=True))
    return list(sequences)[ends[split] - _SIZES[split] : ends[split]]


if TYPE_CHECKING:
    import datasets

HUB_CORPORA = {"opus_books": "Helsinki-NLP/opus_books", "multi30k": "bentrevett/multi30k"}
"""Short names of corpora on the Hugging Face hub that can be loaded by name."""

COPY = "copy"
"""Name of the corpus of the copy task."""

_SLICE = re.compile(r"(?P<file>.+\.\w+)(?P<slice>\[[^\[\]]*\])")


@dataclass(frozen=True)
class CorpusStream:
    """A ``Corpus`` that is read lazily; ``pairs`` can be iterated once."""

    name: str
    sha256: str
    pairs: Iterator[Pair]


CorpusRow = tuple[str, Mapping[str, Any]]
"""Position of a row, for error messages ("line 3"), and its columns."""


def load_corpus(
    name: str,
    *,
    source: str,
    target: str,
    split: str = "train",
    columns: tuple[str, str] | None = None,
) -> Corpus:
    """Load a whole corpus; names, formats, arguments and errors are those of ``stream_corpus``."""
    stream = stream_corpus(name, source=source, target=target, split=split, columns=columns)
    return Corpus(stream.name, stream.sha256, list(stream.pairs))


def stream_corpus(
    name: str,
    *,
    source: str,
    target: str,
    split: str = "train",
    columns: tuple[str, str] | None = None,
) -> CorpusStream:
    """Open a corpus: a local file, a corpus of the hub by its short name, or the copy task.

    The format of a file follows from its suffix: ``.jsonl`` (an object a line), ``.tsv`` (a header
    line, fields separated by tabs, quotes are text), ``.csv`` (a header line, fields separated by
    commas, semicolons or tabs, quotes as in RFC 4180) or ``.parquet``. Text is UTF-8. Each row has
    a column for each language, such as "en", or has these within "translation", as in opus_books. A
    short name may be followed by a colon and a split, in the syntax of ``datasets``:
    ``opus_books:train[:99%]``; a file by a slice in the same syntax: ``pairs.tsv[:99%]``.
    ``split`` is that of a corpus that has several, if the name gives none. ``columns`` are the
    names of the two columns, if they are not the languages; their numbers from 1 on, if a .tsv or
    .csv file has no header line.

    Raises:
        DataError: naming file, line, what was expected and what to do; errors in a row are raised
            when the iteration over ``pairs`` reaches it.
    """
    short_name, _, given_split = name.partition(":")
    wanted = columns or (source, target)
    if wanted[0] == wanted[1]:
        raise DataError(
            f"{name}: expected two columns, got '{wanted[0]}' twice; name those of source and "
            "target by --columns"
        )
    if short_name == COPY:
        texts = copy_task(given_split or split)
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        return CorpusStream(name, digest, (Pair(text, text) for text in texts))
    rows: Iterator[CorpusRow]
    if short_name in HUB_CORPORA:
        data = _load_from_hub(short_name, source, target, given_split or split)
        rows = ((f"row {number}", row) for number, row in enumerate(data, start=1))
        digest = str(getattr(data, "_fingerprint", ""))
    elif (sliced := _SLICE.fullmatch(name)) and not Path(name).is_file():
        whole = load_corpus(sliced["file"], source=source, target=target, columns=columns)
        pairs = whole.pairs[_slice(name, sliced["slice"], len(whole.pairs))]
        digest = hashlib.sha256(f"{whole.sha256}{sliced['slice']}".encode()).hexdigest()
        return CorpusStream(Path(name).name, digest, iter(pairs))
    else:
        rows = read_rows(Path(name), wanted)
        with Path(name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return CorpusStream(Path(name).name, digest, _pairs(rows, name, wanted))


def _slice(name: str, wanted: str, count: int) -> slice:
    """Return which of a file's pairs are wanted, in the syntax of ``datasets``: ``[:95%]``."""
    import datasets  # takes seconds, and most files are read whole

    try:
        [part] = datasets.ReadInstruction.from_spec(f"all{wanted}").to_absolute({"all": count})
    except ValueError as error:
        raise DataError(
            f"{name}: expected a slice such as [:95%], [95%:] or [:1000], got {wanted} ({error})"
        ) from error
    if part.from_ >= part.to:
        raise DataError(f"{name}: none of the {count:,} pairs is in {wanted}; ask for more")
    return slice(part.from_, part.to)


def _pairs(rows: Iterable[CorpusRow], name: str, columns: tuple[str, str]) -> Iterator[Pair]:
    empty = True
    for place, row in rows:
        nested = row.get("translation")
        sides = nested if isinstance(nested, dict) else row
        _require(columns, sides, f"{name}, {place}")
        texts = [sides[column] for column in columns]
        if not all(isinstance(text, str | None) for text in texts):
            raise DataError(
                f"{name}, {place}: expected two texts, got {texts[0]!r} and {texts[1]!r}"
            )
        pair = Pair(*((text or "").strip() for text in texts))
        try:
            "".join(pair).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{name}, {place}: expected text, got half a character (a lone surrogate); remove "
                "it"
            ) from error
        empty = False
        yield pair
    if empty:
        raise DataError(
            f"{name}: no pairs in it; expected rows with the columns '{columns[0]}' and "
            f"'{columns[1]}'"
        )


def _require(columns: tuple[str, ...], there: Collection[str], place: str) -> None:
    for column in columns:
        if column not in there:
            raise DataError(
                f"{place}: expected a column '{column}', got "
                f"{', '.join(map(repr, there)) or 'none'}; name the right ones "
                "by --columns SOURCE TARGET"
            )


def _load_from_hub(name: str, source: str, target: str, split: str) -> datasets.Dataset:
    repository = HUB_CORPORA[name]
    # opus_books has one configuration a language pair, its languages in alphabetical order.
    configuration = "-".join(sorted([source, target])) if name == "opus_books" else None
    import datasets  # takes seconds, and only the hub needs it

    try:
        return datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # the library raises many kinds, network ones among them
        raise DataError(
            f"{repository}: could not load split '{split}' from the hub ({error}); check the "
            "connection or give a local file"
        ) from error


def read_rows(path: Path, columns: tuple[str, ...] = ()) -> Iterator[CorpusRow]:
    """Read rows as ``stream_corpus`` does; a header of .tsv or .csv must have ``columns``."""
    if not path.is_file():
        raise DataError(
            f"{path}: no such file, and not one of the corpora known by name "
            f"({', '.join([*HUB_CORPORA, COPY])})"
        )
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path}: expected a file that ends in {', '.join(_READERS)}, got "
            f"'{path.suffix or path.name}'"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; expected a pair of sentences a line")
    return reader(path, columns)


def _lines(path: Path) -> Generator[str]:
    """Yield the lines of a file as text, line ends included; only a line feed ends a line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                wrong = 0 if "\0" in text else None  # as in UTF-16
            except UnicodeDecodeError as error:
                wrong = error.object[error.start]
            if wrong is not None:
                raise DataError(
                    f"{path}, line {number}: expected UTF-8, got byte 0x{wrong:02x}; save the file "
                    "as UTF-8"
                )
            yield text


def _read_jsonl(path: Path, _: tuple[str, ...]) -> Iterator[CorpusRow]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: expected a JSON object ({error})") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object, got {line.strip()}")
        yield f"line {number}", row


def _read_tsv(path: Path, columns: tuple[str, ...]) -> Iterator[CorpusRow]:
    with closing(_lines(path)) as lines:
        fields = (line.rstrip("\r\n").split("\t") for line in lines)
        yield from _with_header(path, columns, enumerate(fields, start=1))


def _read_csv(path: Path, columns: tuple[str, ...]) -> Iterator[CorpusRow]:
    def numbered(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        first = next(lines, "")
        separator = max(",;\t", key=first.count)  # a comma, or what the first line has more
        reader = csv.reader(chain([first], lines), strict=True, delimiter=separator)
        last = 0
        try:
            for row in reader:
                last = reader.line_num
                yield last, row
        except csv.Error as error:
            raise DataError(
                f"{path}, line {last + 1}: expected fields between commas, those with quotes in "
                f"quotes and theirs doubled ({error})"
            ) from error

    with closing(_lines(path)) as lines:
        yield from _with_header(path, columns, numbered(lines))


def _with_header(
    path: Path, columns: tuple[str, ...], numbered: Iterable[tuple[int, Sequence[str]]]
) -> Iterator[CorpusRow]:
    """Name the fields of each row: as the first does, or by their numbers if these are wanted."""
    header: list[str] = []
    for number, fields in numbered:
        if not any(fields):
            continue
        are_numbers = bool(columns) and all(map(str.isdecimal, columns))
        if are_numbers and not header and not set(columns) <= set(fields):
            header = [str(place) for place in range(1, len(fields) + 1)]
            _require(columns, header, f"{path}, line {number}")
        elif not header:
            header = [field.strip() for field in fields]
            if len(set(header)) < len(header):
                raise DataError(f"{path}, line {number}: a column stands there twice: {header}")
            try:
                _require(columns, header, f"{path}, line {number}")
            except DataError as error:
                raise DataError(
                    f"{error}, or by their numbers, --columns 1 2, if this line has no names"
                ) from error
            continue
        if len(fields) != len(header):
            raise DataError(
                f"{path}, line {number}: expected {len(header)} fields as in the first line, got "
                f"{len(fields)}"
            )
        yield f"line {number}", dict(zip(header, fields, strict=True))


def _read_parquet(path: Path, _: tuple[str, ...]) -> Iterator[CorpusRow]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: expected Parquet ({error}); write the file anew") from error


_READERS: Mapping[str, Callable[[Path, tuple[str, ...]], Iterator[CorpusRow]]] = {
    ".jsonl": _read_jsonl,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
