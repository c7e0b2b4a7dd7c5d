"""Writes named arrays as files: .npz, .json, and .tsv where they are columns of one table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from headwise.viz_app.trace.saved import npz_of

Arrays = Mapping[str, NDArray[np.generic]]
ENDINGS = (".npz", ".json")
TABLES = (".tsv", *ENDINGS)
"""Endings of what has a form as a table."""


def check_out(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse, as a ``ValueError``, a file of arrays that could not be written, before any work."""
    if path.suffix not in endings:
        *most, last = endings
        named = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{path}: expected a name that ends in {named}")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent}: no such folder; create it first")


def written_as(ending: str, arrays: Arrays) -> bytes:
    """Return arrays as the ending of a file says.

    The columns of a table are the arrays (n,) and, numbered from 1, those of the arrays (n, k);
    others are left out.
    """
    if ending == ".npz":
        return npz_of(arrays)
    if ending == ".json":
        return orjson.dumps({name: array.tolist() for name, array in arrays.items()})
    columns: dict[str, list[str]] = {}
    for name, array in arrays.items():
        written = array.astype(np.str_)  # as few digits as the type has
        if array.ndim == 1:
            columns[name] = written.tolist()
        elif array.ndim == 2:
            columns |= {f"{name}_{n}": part.tolist() for n, part in enumerate(written.T, 1)}
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()
