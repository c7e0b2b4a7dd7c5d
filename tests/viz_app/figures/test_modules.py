from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

import pytest

from viz_app.figures.modules import module_tree
from viz_app.figures.theme import DARK, LIGHT, Theme
from viz_app.module_records import Module, Parameter, Point
from viz_app.records import HookSummary

NASTY = '<b onclick="x">&lt;\'$x$</details><script>'


def module(path: str, *children: Module | Point, weights: tuple[Parameter, ...] = ()) -> Module:
    return Module(path, f"title of {path}", f"what of {path}", f"f({path})", weights, children)


def point(path: str) -> Point:
    return Point(HookSummary(path, (1, 3, 7, 1_013), -0.12345, 1234.5, -0.0004), f"meaning {path}")


def example() -> Module:
    table = module("a.table", weights=(Parameter("a.table.weight", (11, 7)),))
    both = (Parameter("u.weight", (11, 7), "a.table.weight"), Parameter("u.bias", (5,)))
    deep = module("a.b", module("a.b.c", point("a.b.c.x")), point("a.b.y"))
    return module("", module("a", table, point("a.z"), deep), module("u", weights=both))


def drawn(root: Module, **options: int) -> Element:
    return fromstring(module_tree(root, theme=LIGHT, **options))


def cells(tree: Element, row: str) -> list[str]:
    [found] = tree.iterfind(f".//tr[@{row}]")
    return ["".join(cell.itertext()).strip() for cell in found]


def test_modules_fold_and_say_what_they_are_and_have() -> None:
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


def test_a_hook_point_has_its_numbers() -> None:
    tree = drawn(example())
    assert [row.get("data-hook") for row in tree.iterfind(".//tr[@data-hook]")] == [
        "a.z",
        "a.b.c.x",
        "a.b.y",
    ]
    expected = [".x meaning a.b.c.x", "1 × 3 × 7 × 1,013", "-0.123", "1,234.500", "0.000", ""]
    assert cells(tree, "data-hook='a.b.c.x'") == expected


def test_parameters_have_their_shape_and_number_and_say_where_they_are_tied() -> None:
    tree = drawn(example())
    assert cells(tree, "data-module='a.table'") == [
        ".table f(a.table)",
        "11 × 7",
        "",
        "",
        "",
        "77",
    ]
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


def test_what_stands_in_a_row_and_what_folds_keep_the_model_s_order() -> None:
    tree = drawn(example())
    order = [node.get("data-hook", node.get("data-module")) for node in tree.iter()]
    assert " ".join(name for name in order if name) == "a a.table a.z a.b a.b.c a.b.c.x a.b.y u"


def test_every_table_has_its_heads() -> None:
    tables = list(drawn(example()).iter("table"))
    heads = ["", "shape", "mean", "std. dev.", "mean norm", "parameters"]
    assert len(tables) == 4
    for table in tables:
        assert [head.text or "" for head in table.iter("th")] == heads
        assert {len(row) for row in table.iter("tr")} == {6}


def test_no_text_is_markup() -> None:
    leaf = Module(NASTY, NASTY, NASTY, NASTY, (Parameter("w", (2,), NASTY),), ())
    hook = replace(point(NASTY), meaning=NASTY)
    root = Module(NASTY, NASTY, NASTY, NASTY, (), (leaf, hook))
    tree = drawn(root)
    assert not list(tree.iter("script"))
    assert tree[0].get("data-module") == NASTY
    title = tree.find(".//span[@class='title']")
    assert title is not None
    assert title.text == NASTY


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_are_the_theme_s(theme: Theme) -> None:
    tree = fromstring(module_tree(example(), theme=theme))
    style = "".join(tree[-1].itertext())
    assert tree[-1].tag == "style"
    for colour in (theme.text, theme.muted, theme.line, theme.accent):
        assert colour in style
