"""Records: their arrays fit each other, and their tables have only the arrays of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from headwise.model.interface import Head
from headwise.viz_app.core.record import Record
from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class Made(Record):
    """A record with every form of field."""

    rows = "H"

    head: Annotated[Head, ""]
    cost: Annotated[Floats, "H"]
    each: Annotated[Floats, "H M"]
    maps: Mapping[str, Annotated[Floats, "H Q M"]]
    row: Annotated[Floats, "Q M"] | None
    note: str = "in no file"


HEAD = Head("cross", 1, 3)
ONES = np.ones((3, 3, 3), np.float32)


def test_arrays_have_the_names_of_fields_and_keys() -> None:
    made = Made(HEAD, ONES[0, 0], ONES[0], {"query": ONES}, None)
    found = made.arrays()
    assert list(found) == ["head", "cost", "each", "map_query"]
    assert found["head"] == "cross.2.4"


def test_a_table_has_the_arrays_of_its_rows_also_where_other_axes_are_as_long() -> None:
    made = Made(HEAD, ONES[0, 0], ONES[0], {"query": ONES}, ONES[0])
    assert made.file(".tsv").decode().splitlines() == [
        "head\tcost\teach_1\teach_2\teach_3",
        *["cross.2.4\t1.0\t1.0\t1.0\t1.0"] * 3,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"each": ONES[0, :2]}, r"Made\.each: expected \(H = 3, M\), got \(2, 3\)"),
        ({"cost": ONES[0]}, r"Made\.cost: expected \(H\), got \(3, 3\)"),
        ({"maps": {"a": ONES, "b": ONES[:, :2]}}, r"Made\.map_b: expected \(H = 3, Q = 3, M = 3\)"),
        ({"row": ONES[0, :, :2]}, r"Made\.row: expected \(Q = 3, M = 3\), got \(3, 2\)"),
    ],
)
def test_arrays_not_fitting_are_refused(change: dict[str, object], message: str) -> None:
    fields = {"head": HEAD, "cost": ONES[0, 0], "each": ONES[0], "maps": {"q": ONES}, "row": None}
    with pytest.raises(ValueError, match=message):
        Made(**(fields | change))  # type: ignore[arg-type]
