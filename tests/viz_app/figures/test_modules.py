from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from headwise.viz_app.figures.html import comparison_table, module_tree_html
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary

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


def drawn(root: ModuleNode, **options: int) -> Element:
    return fromstring(module_tree_html(root, **options))


def cells(tree: Element, row: str) -> list[str]:
    [found] = tree.iterfind(f".//tr[@{row}]")
    return ["".join(cell.itertext()).strip() for cell in found]


def test_each_module_can_be_folded_and_shows_its_title_formula_and_parameter_count() -> None:
    folding = list(drawn(example()).iter("details"))
    assert [details.get("data-module") for details in folding] == ["", "a", "a.b", "a.b.c"]
    for details, total in zip(folding, ["82", "77", "0", "0"], strict=True):
        path, summary = details.get("data-module"), details[0]
        assert summary.tag == "summary"
        wanted = [f"title of {path}", path, f"what of {path}", f"f({path})", total]
        assert " ".join(summary.itertext()).split() == " ".join(map(str, wanted)).split()


def test_rows_have_statistics_or_shapes_and_counts_in_the_order_of_the_model() -> None:
    tree = drawn(example())
    order = [node.get("data-hook", node.get("data-module")) for node in tree.iter()]
    assert " ".join(name for name in order if name) == "a a.table a.z a.b a.b.c a.b.c.x a.b.y u"
    heads = ["part", "shape", "mean", "std. dev.", "mean norm", "parameters"]
    tables = list(tree.iter("table"))
    assert [[head.text or "" for head in table.iter("th")] for table in tables] == [heads] * 4
    expected = [".x meaning a.b.c.x", "1 × 3 × 7 × 1,013", "-0.123", "1,234.500", "0.000", ""]
    assert cells(tree, "data-hook='a.b.c.x'") == expected
    assert cells(tree, "data-module='a.table'") == [".table f(a.table)", "11 × 7", "", "", "", "77"]
    name, shape, *_, count = cells(tree, "data-module='u'")
    assert name == "u f(u); tied to a.table.weight, counted there"
    assert (shape, count) == ("11 × 7 + 5", "5")


@pytest.mark.parametrize(("unfolded", "expected"), [(0, 0), (2, 2), (9, 4)])
def test_the_first_levels_are_open(unfolded: int, expected: int) -> None:
    details = drawn(example(), unfolded=unfolded).iter("details")
    opened = [each.get("open") is not None for each in details]
    assert opened == [True] * expected + [False] * (4 - expected)


# Settings beside others


def compared(columns: list[str], rows: list[tuple[str, list[str], str]]) -> Element:
    return fromstring(comparison_table(columns, rows))


def test_values_that_differ_from_the_first_are_marked_and_so_is_their_row() -> None:
    rows = [
        ("norm", ["pre", "pre", "post"], "order"),
        ("heads", ["3", "3", "3"], "shapes"),
        ("d_k", ["5", "7", "11"], ""),
    ]
    table = compared(["own", "a", "b"], rows)
    assert [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")] == [
        ["setting", "own", "a", "b"],
        ["≠ normorder", "pre", "pre", "≠ post"],
        ["headsshapes", "3", "3", "3"],
        ["≠ d_k", "5", "≠ 7", "≠ 11"],
    ]
    names = [name.text for name in table.iter("summary")]
    assert names == ["≠ norm", "heads", "≠ d_k"]
    kinds = [[cell.get("class") for cell in row][1:] for row in table.findall(".//tbody/tr")]
    assert kinds == [["own", "same", "other"], ["own", "same", "same"], ["own", "other", "other"]]


def test_no_text_is_read_as_html(markup: str) -> None:
    leaf = ModuleNode(markup, markup, markup, markup, (Parameter("w", (2,), markup),), ())
    hook = HookPointNode(HookSummary(markup, (1,), 0, 0, 0), markup)
    tree = drawn(ModuleNode(markup, markup, markup, markup, (), (leaf, hook)))
    assert not list(tree.iter("script"))
    assert tree[0].get("data-module") == markup
    assert [title.text for title in tree.iterfind(".//span[@class='title']")] == [markup]
