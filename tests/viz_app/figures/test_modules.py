from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

import pytest

from headwise.viz_app.figures.modules import module_tree_html
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary


def module(
    path: str, *children: ModuleNode | HookPointNode, weights: tuple[Parameter, ...] = ()
) -> ModuleNode:
    return ModuleNode(path, f"title of {path}", f"what of {path}", f"f({path})", weights, children)


def point(path: str) -> HookPointNode:
    return HookPointNode(
        HookSummary(path, (1, 3, 7, 1_013), -0.12345, 1234.5, -0.0004), f"meaning {path}"
    )


def example() -> ModuleNode:
    table = module("a.table", weights=(Parameter("a.table.weight", (11, 7)),))
    both = (Parameter("u.weight", (11, 7), "a.table.weight"), Parameter("u.bias", (5,)))
    deep = module("a.b", module("a.b.c", point("a.b.c.x")), point("a.b.y"))
    return module("", module("a", table, point("a.z"), deep), module("u", weights=both))


def drawn(root: ModuleNode, **options: int) -> Element:
    return fromstring(module_tree_html(root, theme=LIGHT, **options))


def cells(tree: Element, row: str) -> list[str]:
    [found] = tree.iterfind(f".//tr[@{row}]")
    return ["".join(cell.itertext()).strip() for cell in found]


def test_each_module_can_be_folded_and_shows_its_title_formula_and_parameter_count() -> None:
    tree = drawn(example())
    folding = list(tree.iter("details"))
    assert [details.get("data-module") for details in folding] == ["", "a", "a.b", "a.b.c"]
    for details, total in zip(folding, ["82", "77", "0", "0"], strict=True):
        path = details.get("data-module")
        summary = details[0]
        assert summary.tag == "summary"
        text = " ".join(part for part in summary.itertext() if part.strip())
        wanted = [f"title of {path}", path, f"what of {path}", f"f({path})", total]
        assert text.split() == " ".join(map(str, wanted)).split()


def test_a_hook_point_shows_its_statistics() -> None:
    tree = drawn(example())
    assert [row.get("data-hook") for row in tree.iterfind(".//tr[@data-hook]")] == [
        "a.z",
        "a.b.c.x",
        "a.b.y",
    ]
    expected = [".x meaning a.b.c.x", "1 × 3 × 7 × 1,013", "-0.123", "1,234.500", "0.000", ""]
    assert cells(tree, "data-hook='a.b.c.x'") == expected


def test_parameters_show_their_shape_count_and_what_they_are_tied_to() -> None:
    tree = drawn(example())
    assert cells(tree, "data-module='a.table'") == [".table f(a.table)", "11 × 7", "", "", "", "77"]
    name, shape, *_, count = cells(tree, "data-module='u'")
    assert name == "u f(u); tied to a.table.weight, counted there"
    assert (shape, count) == ("11 × 7 + 5", "5")


@pytest.mark.parametrize(("unfolded", "expected"), [(0, 0), (1, 1), (2, 2), (3, 3), (9, 4)])
def test_the_first_levels_are_open(unfolded: int, expected: int) -> None:
    opened = [
        d.get("open") is not None for d in drawn(example(), unfolded=unfolded).iter("details")
    ]
    assert sum(opened) == expected
    assert opened == sorted(opened, reverse=True)


def test_rows_and_modules_keep_the_order_of_the_model() -> None:
    tree = drawn(example())
    order = [node.get("data-hook", node.get("data-module")) for node in tree.iter()]
    assert " ".join(name for name in order if name) == "a a.table a.z a.b a.b.c a.b.c.x a.b.y u"


def test_every_table_has_column_titles() -> None:
    tables = list(drawn(example()).iter("table"))
    heads = ["", "shape", "mean", "std. dev.", "mean norm", "parameters"]
    assert len(tables) == 4
    for table in tables:
        assert [head.text or "" for head in table.iter("th")] == heads
        assert {len(row) for row in table.iter("tr")} == {6}


def test_no_text_is_read_as_html(markup: str) -> None:
    leaf = ModuleNode(markup, markup, markup, markup, (Parameter("w", (2,), markup),), ())
    hook = replace(point(markup), meaning=markup)
    root = ModuleNode(markup, markup, markup, markup, (), (leaf, hook))
    tree = drawn(root)
    assert not list(tree.iter("script"))
    assert tree[0].get("data-module") == markup
    title = tree.find(".//span[@class='title']")
    assert title is not None
    assert title.text == markup


def test_colours_come_from_the_theme(theme: Theme) -> None:
    tree = fromstring(module_tree_html(example(), theme=theme))
    style = "".join(tree[-1].itertext())
    assert tree[-1].tag == "style"
    for colour in (theme.text, theme.muted, theme.line, theme.accent):
        assert colour in style
