"""Every question of every lesson can be asked on each run that it fits, and answered.

What is right is tested by hand for each kind of question, in ``tests/viz_app/analysis``.
"""

from __future__ import annotations

import pytest

from headwise.viz_app.lessons.questions import KINDS, ask, read_parameters
from headwise.viz_app.lessons.reading import SHIPPED as LESSONS
from headwise.viz_app.lessons.reading import read_lessons
from headwise.viz_app.lessons.records import Lesson
from headwise.viz_app.measuring.files import read_measures
from tests.shipped import SHIPPED
from tests.viz_app.lessons.asked import asked_of, fits, run_of

SENTENCES = 3
ALL, _ = read_lessons([LESSONS])
CASES = [(lesson, name) for lesson in ALL.values() for name in SHIPPED if fits(lesson, name)]


def test_every_kind_of_question_is_asked() -> None:
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
