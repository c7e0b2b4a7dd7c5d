"""What is HTML: rows of tokens, batches, the lens, the tree of modules, settings."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from headwise.viz_app.figures.html import (
    comparison_table,
    lens_table,
    module_tree_html,
    padding_rows,
    token_row,
)
from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary


def texts(table: Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


# A row


def drawn_row(labels: list[str], **changes: Any) -> Element:
    return fromstring(token_row(labels, **({"theme": LIGHT} | changes)))


@pytest.mark.parametrize(
    ("language", "tag"),
    [("es", "es"), ("eng_Latn", "eng-Latn"), ("", ""), ("symbols", "zxx"), ('"', "zxx")],
)
def test_its_language_is_named_as_html_has_it(language: str, tag: str) -> None:
    assert drawn_row(["a"], language=language).get("lang") == tag


def style(token: Element) -> dict[str, str]:
    parts = (part.partition(":") for part in token.get("style", "").split(";"))
    return {name: value for name, _, value in parts}


def test_tokens_are_shaded_by_probabilities_which_stand_below_and_one_framed(theme: Theme) -> None:
    row = drawn_row(["a", "b"], theme=theme, probabilities=[0.0, 0.9], selected=1)
    borders = [style(token)["border"] for token in row.iter("bdi")]
    assert borders == [f"1px solid {theme.line}", f"1px solid {theme.accent}"]
    assert [number.text for number in row.iter("small")] == ["<.01", "0.90"]
    for token, p in zip(row.iter("bdi"), [0.0, 0.9], strict=True):
        assert style(token)["background"] == weight_colour(theme, p)
        assert style(token)["color"] == text_on_weight(theme, p)
        assert token.get("title") is None


# A padded batch


def padded(lengths: list[int]) -> Element:
    longest = max(lengths)
    allowed = np.arange(longest) < np.array(lengths)[:, None]
    tokens = [[f"{n}.{i}" if i < n else "<pad>" for i in range(longest)] for n in lengths]
    return fromstring(padding_rows(tokens, allowed, rows=[f"r{n}" for n in lengths]))


def test_padding_is_crossed_and_has_a_class_of_its_own() -> None:
    table = padded([3, 2, 5])
    assert texts(table) == [
        ["r3", "3.0", "3.1", "3.2", "<pad> ×", "<pad> ×"],
        ["r2", "2.0", "2.1", "<pad> ×", "<pad> ×", "<pad> ×"],
        ["r5", "5.0", "5.1", "5.2", "5.3", "5.4"],
    ]
    kinds = [cell.get("class") for cell in next(table.iter("tr"))][1:]
    assert kinds == ["allowed"] * 3 + ["masked"] * 2


def test_of_a_long_batch_columns_without_padding_are_left_out() -> None:
    rows = texts(padded([30, 31, 27]))
    assert rows[0][1:6] == ["30.0", "30.1", "30.2", "30.3", "… 22 more"]
    assert rows[0][6:] == ["30.26", "30.27", "30.28", "30.29", "<pad> ×"]
    assert [row[-1] for row in rows] == ["<pad> ×", "31.30", "<pad> ×"]
    assert {len(row) for row in rows} == {11}
    [alone], [short] = texts(padded([17])), texts(padded([16]))
    assert alone[1:] == ["17.0", "17.1", "17.2", "17.3", "… 12 more", "17.16"]
    assert len(short) == 17


# The lens

P = np.array([[0.0, 0.5], [0.9, 1.0], [0.2, 0.3]], np.float32)
ACTUAL = np.array([[False, True], [True, True], [False, False]])


def lens(**changes: Any) -> Element:
    named: dict[str, Any] = {
        "labels": [["a", "b"], ["c", "d"], ["e", "f"]],
        "probabilities": P,
        "actual": ACTUAL,
        "notes": [["na", "nb"], ["nc", "nd"], ["ne", "nf"]],
        "rows": ["r1", "r2", "r3"],
        "columns": ["embedding", "layer 1"],
        "row_title": "step",
        "theme": LIGHT,
    } | changes
    return fromstring(lens_table(named.pop("labels"), named.pop("probabilities"), **named))


def test_each_step_has_a_row_and_each_layer_a_column_shaded_by_probability(theme: Theme) -> None:
    table = lens(theme=theme)
    assert texts(table) == [
        ["step", "embedding", "layer 1"],
        ["r1", "a", "✓ b"],
        ["r2", "✓ c", "✓ d"],
        ["r3", "e", "f"],
        ["✓ at so many positions", "1 of 3", "2 of 3"],
    ]
    cells = list(table.iterfind(".//tbody//td"))
    assert [cell.get("title") for cell in cells] == ["na", "nb", "nc", "nd", "ne", "nf"]
    assert [cell.get("class") == "actual" for cell in cells] == ACTUAL.ravel().tolist()
    for cell, p in zip(cells, P.ravel().tolist(), strict=True):
        expected = f"background:{weight_colour(theme, p)};color:{text_on_weight(theme, p)}"
        assert cell.get("style") == expected


# The tree of modules


def module(
    path: str, *children: ModuleNode | HookPointNode, weights: tuple[Parameter, ...] = ()
) -> ModuleNode:
    return ModuleNode(path, f"title of {path}", f"what of {path}", f"f({path})", weights, children)


def point(path: str) -> HookPointNode:
    summary = HookSummary(path, (1, 3, 7, 1_013), -0.12345, 1234.5, -0.0004)
    return HookPointNode(summary, f"meaning {path}")


def example() -> ModuleNode:
    table = module("a.table", weights=(Parameter("a.table.weight", (11, 7)),))
    both = (Parameter("u.weight", (11, 7), "a.table.weight"), Parameter("u.bias", (5,)))
    deep = module("a.b", module("a.b.c", point("a.b.c.x")), point("a.b.y"))
    return module("", module("a", table, point("a.z"), deep), module("u", weights=both))


def tree_of(root: ModuleNode, **options: int) -> Element:
    return fromstring(module_tree_html(root, **options))


def row_of(tree: Element, row: str) -> list[str]:
    [found] = tree.iterfind(f".//tr[@{row}]")
    return ["".join(cell.itertext()).strip() for cell in found]


def test_each_module_can_be_folded_and_shows_its_title_formula_and_parameter_count() -> None:
    for unfolded, expected in ((0, 0), (2, 2), (9, 4)):
        opened = [
            each.get("open") for each in tree_of(example(), unfolded=unfolded).iter("details")
        ]
        assert opened == [""] * expected + [None] * (4 - expected)
    folding = list(tree_of(example()).iter("details"))
    assert [details.get("data-module") for details in folding] == ["", "a", "a.b", "a.b.c"]
    for details, total in zip(folding, ["82", "77", "0", "0"], strict=True):
        path, summary = details.get("data-module"), details[0]
        assert summary.tag == "summary"
        wanted = [f"title of {path}", path, f"what of {path}", f"f({path})", total]
        assert " ".join(summary.itertext()).split() == " ".join(map(str, wanted)).split()


def test_rows_have_statistics_or_shapes_and_counts_in_the_order_of_the_model() -> None:
    tree = tree_of(example())
    order = [node.get("data-hook", node.get("data-module")) for node in tree.iter()]
    assert " ".join(name for name in order if name) == "a a.table a.z a.b a.b.c a.b.c.x a.b.y u"
    expected = [".x meaning a.b.c.x", "1 × 3 × 7 × 1,013", "-0.123", "1,234.500", "0.000", ""]
    assert row_of(tree, "data-hook='a.b.c.x'") == expected
    assert row_of(tree, "data-module='a.table'") == [
        ".table f(a.table)",
        "11 × 7",
        "",
        "",
        "",
        "77",
    ]
    name, shape, *_, count = row_of(tree, "data-module='u'")
    assert name == "u f(u); tied to a.table.weight, counted there"
    assert (shape, count) == ("11 × 7 + 5", "5")


# Settings beside others


def test_values_that_differ_from_the_first_are_marked_and_so_is_their_row() -> None:
    rows = [
        ("norm", ["pre", "pre", "post"], "order"),
        ("heads", ["3", "3", "3"], "shapes"),
        ("d_k", ["5", "7", "11"], ""),
    ]
    table = fromstring(comparison_table(["own", "a", "b"], rows))
    assert texts(table) == [
        ["setting", "own", "a", "b"],
        ["≠ normorder", "pre", "pre", "≠ post"],
        ["headsshapes", "3", "3", "3"],
        ["≠ d_k", "5", "≠ 7", "≠ 11"],
    ]
    kinds = [[cell.get("class") for cell in row][1:] for row in table.findall(".//tbody/tr")]
    assert kinds == [["own", "same", "other"], ["own", "same", "same"], ["own", "other", "other"]]


def test_no_text_is_read_as_html(markup: str) -> None:
    leaf = ModuleNode(markup, markup, markup, markup, (Parameter("w", (2,), markup),), ())
    hook = HookPointNode(HookSummary(markup, (1,), 0, 0, 0), markup)
    tree = tree_of(ModuleNode(markup, markup, markup, markup, (), (leaf, hook)))
    assert not list(tree.iter("script"))
    assert tree[0].get("data-module") == markup
    assert [title.text for title in tree.iterfind(".//span[@class='title']")] == [markup]
