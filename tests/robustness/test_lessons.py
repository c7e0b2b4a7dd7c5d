"""A lesson's file that somebody has damaged, or means badly, is refused or is a lesson.

Its texts are then drawn as Markdown, its view is decoded.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import strategies as st

from headwise.viz_app.lessons.reading import SHIPPED, LessonError, read_lesson, read_lessons
from headwise.viz_app.session.lessons import check_step, view_of
from headwise.viz_app.session.markdown import lesson_markdown
from tests.robustness.corruptions import of_bytes
from tests.robustness.outcomes import outcomes_of
from tests.robustness.test_corrupted_files import limited

FILES = sorted(SHIPPED.glob("*.md"))
HOSTILE = (
    *("", "-1", "1e999", "9" * 5_000, "\0", "\ufeff", "\u202e", "{" * 9_000, "**" * 9_000),
    *("a=" * 5_000, "&".join(f"k{n}=v" for n in range(5_000)), "q=%ff%00", "layer=9999999999999"),
    *(
        "$" * 999,
        "$\\def\\a{\\a\\a}\\a$",
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "{title}",
    ),
    *("## " * 3_000, "? ? ?", "a" * 40_000, "(a+)+$", "run=x", "https://evil.example"),
)


def _hostile(content: bytes, rng: random.Random) -> bytes:
    """Put something hostile in place of a line, of its value, or beside it."""
    if rng.random() < 0.5:
        return of_bytes(content, rng)[1]
    lines = content.decode().splitlines()
    at = rng.randrange(len(lines))
    name, colon, _ = lines[at].partition(":")
    said = rng.choice(HOSTILE)
    lines[at] = rng.choice((said, f"{name}{colon} {said}", f"{lines[at]}\n{said}", f"## {said}"))
    return "\n".join(lines).encode()


def test_a_hostile_lesson_is_refused_or_is_a_lesson(tmp_path: Path) -> None:
    path = tmp_path / "a.md"

    def check(seed: int) -> str:
        rng = random.Random(seed)
        path.write_bytes(_hostile(rng.choice(FILES).read_bytes(), rng))
        with limited():
            try:
                lesson = read_lesson(path, check_step)
            except LessonError as error:
                said = str(error)
            else:
                for step in lesson.steps:
                    view_of(step)
                    for text in (step.title, step.text, step.question):
                        lesson_markdown(text)
                return "read"
        assert said.startswith("a.md, line ")
        assert len(said) < 1_000
        return "refused"

    found = outcomes_of(check, st.integers(0, 2**32))
    assert found["refused"]


@pytest.mark.parametrize("what", ["folder", "link to nothing", "elsewhere", "name"])
def test_one_bad_file_leaves_the_other_lessons(tmp_path: Path, what: str) -> None:
    good = tmp_path / "a.md"
    good.write_bytes(FILES[0].read_bytes())
    bad = tmp_path / ("B c.md" if what == "name" else "b.md")
    if what == "folder":
        bad.mkdir()
    elif what == "name":
        bad.write_bytes(FILES[0].read_bytes())
    else:
        bad.symlink_to(FILES[0] if what == "elsewhere" else tmp_path / "nothing")
    lessons, errors = read_lessons([tmp_path], check_step)
    assert [*lessons] == ["a"]
    assert [str(error).partition(",")[0] for error in errors] == [bad.name]
