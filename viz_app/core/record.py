"""Records: frozen dataclasses of arrays whose axes stand in the annotations.

``score: Annotated[Floats, "E"]`` says that ``score`` has one axis, which is as long as that of
every other array of the record with an axis ``E``. From the annotations follow the check of the
shapes, the files (``.npz``, ``.json``) and, where a record says which axis counts the rows of its
table, the ``.tsv``.

(jaxtyping checks shapes in the same way, but hides the type of the elements from type checkers;
xarray names axes too, but has no typed attributes, and loads pandas. Neither writes these files.)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import numpy as np
import orjson
from numpy.typing import NDArray

from headwise.model.interface import Head, head_name
from headwise.viz_app.trace.saved import npz_of

Arrays = Mapping[str, NDArray[np.generic]]
ENDINGS = (".npz", ".json")
TABLES = (".tsv", *ENDINGS)  # endings of what has a form as a table


class Record:
    """A base of frozen dataclasses; fields whose annotation names axes are in the files.

    An array may be optional, or one of several in a mapping, whose names in files are those of the
    field, in the singular, and the key: ``maps["query"]`` is ``map_query``. An axis with a star is
    another one for each key: in ``"L* H*"`` each has its own numbers of layers and heads. The axes
    of a single value are ``""``. ValueError if arrays do not have their axes, or one axis has two
    lengths.
    """

    rows: ClassVar[str] = ""  # the axis that counts the rows of the table

    def __post_init__(self) -> None:
        """Check the shapes."""
        lengths: dict[str, int] = {}
        for name, axes, array in self._named():
            known = tuple(lengths.get(axis) for axis in axes)
            if array.ndim != len(axes) or any(
                length is not None and length != size
                for length, size in zip(known, array.shape, strict=True)
            ):
                wanted = ", ".join(
                    axis if length is None else f"{axis} = {length}"
                    for axis, length in zip(axes, known, strict=True)
                )
                raise ValueError(
                    f"{type(self).__name__}.{name}: expected ({wanted}), got {array.shape}"
                )
            lengths |= dict(zip(axes, array.shape, strict=True))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays under the names that files have."""
        return {name: array for name, _, array in self._named()}

    def table(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns of the table, (rows,) or (rows, k) each. A single value, such as the
        head of which all is, stands in every row; other arrays are left out.
        """
        axes = {name: axes for name, axes, _ in self._named()}
        found = {
            name: array
            for name, array in self.arrays().items()
            if array.ndim == 0 or (array.ndim < 3 and axes.get(name, (self.rows,))[0] == self.rows)
        }
        rows = max((len(array) for array in found.values() if array.ndim), default=0)
        return {
            name: array if array.ndim else np.full(rows, array) for name, array in found.items()
        }

    def file(self, ending: str) -> bytes:
        """Return the content of a file with one of the ``TABLES``."""
        return written_as(ending, self.table() if ending == ".tsv" else self.arrays())

    def _named(self) -> Iterator[tuple[str, tuple[str, ...], NDArray[Any]]]:
        """Yield name, axes and array of all that is there."""
        for name, (axes, _) in array_fields(type(self)).items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                for key, each in value.items():
                    own = tuple(axis.replace("*", f" of {key}") for axis in axes)
                    yield f"{name.removesuffix('s')}_{key}", own, np.asarray(each)
            elif isinstance(value, Head):
                yield name, axes, np.array(head_name(value))
            elif value is not None:
                yield name, axes, np.asarray(value)


def array_fields(record: type[Any]) -> dict[str, tuple[tuple[str, ...], np.dtype[Any] | None]]:
    """Return the axes of each field that has any named, and the type of its numbers."""
    hashable: Any = record  # mypy does not know that a type is
    return _array_fields(hashable)


@cache
def _array_fields(record: Any) -> dict[str, tuple[tuple[str, ...], np.dtype[Any] | None]]:
    hints = get_type_hints(record, include_extras=True)
    found = {field.name: _annotated_in(hints[field.name]) for field in fields(record)}
    return {
        name: (tuple(axes.split()), _dtype(array))
        for name, (array, axes) in found.items()
        if axes is not None
    }


def _annotated_in(hint: Any) -> tuple[Any, str | None]:
    if get_origin(hint) is Annotated:
        return hint.__origin__, str(hint.__metadata__[0])
    inside = (_annotated_in(each) for each in get_args(hint))
    return next((each for each in inside if each[1] is not None), (None, None))


def _dtype(array: Any) -> np.dtype[Any] | None:
    """Return the type of the numbers of an annotation such as ``NDArray[np.float32]``."""
    if get_origin(array) is not np.ndarray:
        return None
    [number] = get_args(get_args(array)[1])
    return np.dtype(number)


def check_out(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse, as a ``ValueError``, a file of arrays that could not be written, before any work."""
    if path.suffix not in endings:
        *most, last = endings
        named = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{path}: expected a name that ends in {named}")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent}: no such folder; create it first")


def written_as(ending: str, arrays: Arrays) -> bytes:
    """Return arrays as the ending of a file says. The columns of a table are the arrays (n,) and,
    numbered from 1, those of the arrays (n, k); others are left out.
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
