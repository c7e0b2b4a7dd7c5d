"""``benchmarks/load.py``: sessions get the right answers, and wrong ones would be noticed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest

from benchmarks import load, load_answers, load_replicas, load_server, load_session, load_stages
from tests.floats import near

CATS, DOGS = "We saw three black cats on the white roof.", "Do you know those dogs?"


def test_two_sessions_are_answered_what_each_has_asked() -> None:
    expected = load_answers.Expected("copy")
    asked = [["c a f e b d g a c e", "b a d e"], ["g", "a b a b c d e f"]]

    async def one(number: int, address: str) -> list[object]:
        head = expected.head(number)
        async with load_session.connected(number, head, address) as session:
            first, second = asked[number]
            await session.open("copy", first)
            await session.type(second)
            await session.type_over(first, second, after=30)
            return list(session.answers)

    async def both(address: str) -> list[list[object]]:
        return await asyncio.gather(one(0, address), one(1, address))

    # In a thread of its own: the browser's tests may have left a running loop in this one.
    with load_server.serving() as server, ThreadPoolExecutor(1) as apart:
        seen = apart.submit(asyncio.run, both(server.address)).result()
        assert server.faults() == []
    for number, answers in enumerate(seen):
        first, second = asked[number]
        sentences = [answer.sentence for answer in answers]
        # The third, overtaken while its page is drawn, may or may not be drawn to the end.
        assert sentences in ([first, second, second], [first, second, first, second])
        for answer in answers:
            right = expected.answer(number, expected.head(number), answer.sentence)
            assert load_answers.faults_of(answer, right) == []
        assert answers[1].translation == second  # what this run has learnt


def test_all_press_enter_at_the_same_moments() -> None:
    expected = load_answers.Expected("copy")
    sentences = (" ".join(letters) for letters in product("abcdefg", repeat=3))
    rhythm = load_stages.Rhythm(together=0.5)

    async def drive(replicas: load_replicas.Replicas) -> load_stages.Stage:
        return await load_stages.drive(replicas, expected, 2, 2.0, sentences, rhythm)

    with load_replicas.serving_replicas(1) as replicas, ThreadPoolExecutor(1) as apart:
        stage = apart.submit(asyncio.run, drive(replicas)).result()
    assert stage.faults == []
    assert stage.answers == 2 + 2 * len(stage.rounds)  # the first were opened by a link
    assert 1 <= len(stage.rounds) <= 5
    assert max(stage.rounds) >= stage.p50


def test_what_haproxy_could_not_answer_is_a_fault(tmp_path: Path) -> None:
    log = tmp_path / "haproxy.txt"
    lines = [
        "22/Nov/2026:19:27:42.009 127.0.0.1 <NOSRV> 503 0/-1/-1/-1/0 217 SC GET /_stcore/health",
        "Server replicas/replica1 is UP",
        "22/Nov/2026:19:27:43.063 127.0.0.1 replica2 200 0/0/0/1/1 503 -- GET /500",
        "22/Nov/2026:19:27:44.009 127.0.0.1 replica1 502 0/0/0/-1/9 217 SH GET /media/a.png",
    ]
    log.write_text("\n".join(lines) + "\n")
    found = load_replicas.Replicas("", (), log, len(lines[0])).faults()  # the first is from before
    assert found == [f"HAProxy: {lines[3]}"]


def test_another_sentences_answer_is_noticed() -> None:
    expected = load_answers.Expected("en-es")
    head = ("cross", 2, 1)
    cats, dogs = (expected.answer(3, head, text) for text in (CATS, DOGS))
    assert load_answers.faults_of(cats, expected.answer(3, head, CATS)) == []
    swapped = load_answers.faults_of(replace(dogs, sentence=CATS), cats)
    assert len(swapped) == 2
    assert all(fault.startswith(f"session 3, {CATS!r}: ") for fault in swapped)
    assert cats.translation in swapped[0]
    assert dogs.translation in swapped[0]
    neighbour = expected.answer(3, ("cross", 2, 0), CATS)
    assert "another map" in load_answers.faults_of(neighbour, cats)[0]
    hurt = cats.weights.copy()
    hurt[0, 0] += 1e-3
    assert load_answers.faults_of(replace(cats, weights=hurt), cats)[0].endswith("off by 0.001")
    hurt[0, 0] = np.nan
    assert "another map" in load_answers.faults_of(replace(cats, weights=hurt), cats)[0]
    assert load_answers.faults_of(replace(cats, weights=None), cats)[0].endswith("no map")
    assert "KeyError" in load_answers.faults_of(replace(cats, problems=("KeyError: 1",)), cats)[0]


def test_no_sentence_comes_twice() -> None:
    assert list(load_answers.pairs_of(["a", "b", "c"])) == [
        *("a b", "b c", "c a"),
        *("a c", "b a", "c b"),
    ]
    sentences = list(islice(load_answers.sentences_of("en-es"), 5_000))
    assert len(set(sentences)) == 5_000


def test_cells_are_read_as_the_browser_reads_them() -> None:
    packed = '{"dtype": "f4", "bdata": "AAAAPwAAgD4AAAAAAACAPwAAAAAAAAA/", "shape": "3, 2"}'
    expected = [[0.5, 0.25], [0.0, 1.0], [0.0, 0.5]]
    for cells in (packed, str(expected)):
        drawn = load_answers.cells_of(f'{{"data": [{{"z": {cells}}}]}}')
        np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize(
    ("memory", "growth", "minutes", "faults"),
    [(2_000, 0.04, 5, 0), (2_100, 0, 5, 1), (900, 0.06, 5, 1), (900, 0.06, 1, 0), (None, 0, 5, 0)],
)
def test_memory_has_a_limit_and_levels_off(
    memory: float | None, growth: float, minutes: float, faults: int
) -> None:
    stage = load_stages.Stage("5 sessions", memory=memory, growth=growth)
    assert len(load.memory_faults(stage, minutes)) == faults
    # Growth is that of the last third over the one before it.
    assert load_server.growth([1, 100, 50, 100, 100, 99]) == 0
    assert load_server.growth([1, 2, 100, 90, 110, 105]) == near(0.1, size=1)
    assert load_server.growth([7, 8]) == 0
