"""Lessons are read from files, a broken one is named with its line, and each question is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.viz_app.lessons.questions import KINDS, ask, read_parameters
from headwise.viz_app.lessons.reading import SHIPPED as LESSONS
from headwise.viz_app.lessons.reading import LessonError, read_lesson, read_lessons
from headwise.viz_app.lessons.records import Lesson, check_markup, names_in, parts_of
from headwise.viz_app.measuring.files import read_measures
from tests.shipped import SHIPPED
from tests.viz_app.lessons.asked import asked_of, fits, run_of

HEAD = "---\ntitle: Rows\nteaches: What a row is.\n---\n"
STEP = """
## A step
page: translate
view: kind=cross&layer=last&at=middle
bright: map, target
ask: keys_for_share share=0.5

Look at **this** row.
It has weights.

? How many keys has {row}?
"""


def write(folder: Path, text: str, name: str = "01-rows.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


def test_a_lesson_has_what_its_file_says(tmp_path: Path) -> None:
    lesson = read_lesson(write(tmp_path, HEAD + 3 * STEP))
    assert (lesson.name, lesson.title, lesson.teaches) == ("rows", "Rows", "What a row is.")
    assert [step.line for step in lesson.steps] == [6, 17, 28]
    step = lesson.steps[0]
    assert step.view == {"kind": "cross", "layer": "last", "at": "middle"}
    assert (step.ask, step.parameters) == ("keys_for_share", {"share": "0.5"})
    assert step.bright == ("map", "target")
    assert step.text == "Look at **this** row. It has weights."
    assert step.question == "How many keys has {row}?"
    assert (lesson.sentence, step.against, lesson.needs) == ("", "", ())
    head = HEAD.replace("teaches", "sentence: Who: me?\nneeds: languages en-es\nteaches")
    asked = STEP.replace("view: ", "against: El perro.\nview: target=El+gato.&")
    lesson = read_lesson(write(tmp_path, head + 3 * asked))
    assert (lesson.sentence, lesson.needs) == ("Who: me?", ("languages en-es",))
    assert lesson.steps[0].against == "El perro."
    assert lesson.steps[0].view["target"] == "El gato."


def test_a_lesson_of_before_opens_what_its_pages_showed(tmp_path: Path) -> None:
    def opened(page: str, bright: str, view: str = "kind=cross") -> tuple[str, str | None]:
        asked = STEP.replace("page: translate", f"page: {page}").replace("map, target", bright)
        asked = asked.replace("kind=cross&layer=last&at=middle", view)
        step = read_lesson(write(tmp_path, HEAD + 3 * asked)).steps[0]
        assert step.bright == (bright,)
        return step.page, step.view.get({"model": "section"}.get(step.page, step.page))

    assert opened("architecture", "mask") == ("model", "masks")
    assert opened("architecture", "lens") == ("model", "lens")
    assert opened("embeddings", "sum") == ("model", "input")
    assert opened("training", "curves") == ("training", "curves")
    assert opened("training", "pairs", "training=curves") == ("errors", "pairs")
    assert opened("heads", "dictionary") == ("heads", "writes")
    assert opened("heads", "dictionary", "heads=writes") == ("heads", "writes")


def test_only_line_feeds_end_a_line_of_a_lesson(tmp_path: Path) -> None:
    head = HEAD.replace("teaches", "sentence: One.\u2028Two.\x85Three.\nteaches")
    for text in (head + 3 * STEP, (head + 3 * STEP).replace("\n", "\r\n")):
        path = tmp_path / "01-rows.md"
        path.write_bytes(text.encode())
        lesson = read_lesson(path)
        assert lesson.sentence == "One.\u2028Two.\x85Three."
        assert [step.line for step in lesson.steps] == [7, 18, 29]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("page: translate", "pag: translate", 7, "expected one of page, view, bright, ask"),
        ("page: translate\n", "", 6, "page is missing; add a line page: …"),
        ("share=0.5", "share=much", 10, "share: Input should be a valid number"),
        ("share=0.5", "part=0.5", 10, "there is no 'part' here; leave it out"),
        ("share=0.5", "share", 10, "write 'share' as name=value"),
        ("ask: keys_for_share share=0.5\n", "", 6, "ask is missing; add a line ask: …"),
        ("keys_for_share share=0.5", "weights", 10, "there is no question 'weights'"),
        ("ask: keys", "ask: largest_key\nask: keys", 11, "ask is given twice; leave one out"),
        ("{row}", "{rows}", 15, r"can name {row}, {share}, not {rows}"),
        ("? How", "How", 6, "question is empty; write a line that begins with"),
        ("this", "word " * 61, 12, "the text has 68 words; shorten it to 60"),
        ("**this**", r"$\href{x}{y}$", 12, r"a formula may not use \\href; write it without"),
        ("\n\nLook", "\nanswer: click\n\nLook", 11, "has no click here; write answer: choice"),
        ("\n\nLook", "\nlever: all\n\nLook", 11, "lever: Input should be 'factor'"),
        ("title: Rows\n", "", 1, "title is missing"),
        ("\n\nLook", "\nagainst: El gato.\n\nLook", 11, "the view has no target to differ from it"),
        ("teaches: ", "needs: rain\nteaches: ", 3, "unknown need 'rain'; write one of: additive"),
    ],
)
def test_broken_lines_are_named(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    text = (HEAD + 3 * STEP).replace(old, new, 1)
    with pytest.raises(LessonError, match=rf"^01-rows.md, line {line}: .*{message}"):
        read_lesson(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        *((HEAD + steps * STEP, "01-rows.md", "three to six pages") for steps in (0, 2, 7)),
        ("\udcff\udcfe", "01-rows.md", "cannot be read as text in UTF-8"),
        (HEAD + 3 * STEP, "Rows (2).md", "name the file in small letters"),
        (HEAD + 3 * STEP + 60_000 * "\n", "01-rows.md", "shorten the file"),
        (HEAD + 3 * STEP, "01-rows.md", "line 9: bright: there is no such part"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, name: str, message: str) -> None:
    def refuse(step: object) -> None:
        raise ValueError("bright: there is no such part")

    with pytest.raises(LessonError, match=message):
        read_lesson(write(tmp_path, text, name), refuse if "bright" in message else lambda _: None)


def test_a_broken_file_leaves_the_others_and_own_ones_go_first(tmp_path: Path) -> None:
    first, own = tmp_path, tmp_path / "b"
    own.mkdir()
    write(first, HEAD + 3 * STEP)
    write(first, HEAD + 3 * STEP, "02-more.md")
    write(first, HEAD, "03-broken.md")
    write(own, HEAD.replace("Rows", "My rows") + 3 * STEP, "09-rows.md")
    lessons, errors = read_lessons([first, own])
    titles = {name: lesson.title for name, lesson in lessons.items()}
    assert list(titles.items()) == [("rows", "My rows"), ("more", "Rows")]
    assert [str(error)[:20] for error in errors] == ["03-broken.md, line 1"]


def test_bold_italic_and_formulas_are_marked_and_nothing_else() -> None:
    text = "a **b** *c* $d_k$ 2 * 3 * 4 [x](y) <b>e</b> **f"
    space, rest = ("plain", " "), ("plain", " 2 * 3 * 4 [x](y) <b>e</b> **f")
    marked = [("bold", "b"), space, ("italic", "c"), space, ("formula", "d_k")]
    assert list(parts_of(text)) == [("plain", "a "), *marked, rest]
    assert names_in("{a} **{b}** ${c}$") == ["a", "b"]
    assert check_markup(r"$\frac{1}{\sqrt{d_k}}$")


# Every question of every lesson


SENTENCES = 3
ALL, ERRORS = read_lessons([LESSONS])
CASES = [(lesson, name) for lesson in ALL.values() for name in SHIPPED if fits(lesson, name)]


def test_every_kind_of_question_is_asked() -> None:
    learned = [[step.learned for step in each.steps if step.learned] for each in ALL.values()]
    assert {len(sentences) for sentences in learned} == {3}
    assert ERRORS == []
    assert {step.ask for lesson in ALL.values() for step in lesson.steps} == KINDS.keys()


@pytest.mark.parametrize(
    ("lesson", "name"), CASES, ids=lambda each: str(getattr(each, "name", each))
)
def test_a_right_answer_stands_beside_wrong_ones_with_reasons(lesson: Lesson, name: str) -> None:
    run = run_of(name)
    examples = read_measures(run.folder, run.steps()[-1]).sentences[:SENTENCES]
    for text in [lesson.sentence] if lesson.sentence else [each.source for each in examples]:
        for step in lesson.steps:
            asked = asked_of(step, lesson, name, text)
            try:
                question = ask(step.ask, read_parameters(step.ask, step.parameters), asked)
            except ValueError:
                if lesson.sentence:  # its words are not known to this run: the reader is told so
                    continue
                raise
            places = [choice.place for choice in question.choices]
            assert len({*places}) == len(places)
            assert {*places} & question.right
            assert "{" not in "".join(question.names.values())
            for place in places:
                assert any(map(str.isdigit, question.reason(place)))
