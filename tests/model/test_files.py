from __future__ import annotations

import os
from pathlib import Path

import pytest

from model.checkpoint import CheckpointError
from model.files import append_log, cut_log, read_log, write_bytes


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"old")
    write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_: int) -> None:
        raise failure

    write_bytes(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(failure)):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# Logs


def test_rows_are_added_and_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert list(read_log(path)) == []
    append_log(path, [{"step": 1, "text": "año\u2028"}, {"step": 2}])
    append_log(path, [{"step": 3}])
    assert list(read_log(path)) == [{"step": 1, "text": "año\u2028"}, {"step": 2}, {"step": 3}]


@pytest.mark.parametrize("rest", ['{"step": 3', '{"step": 3}', '{"text": "\xc3'])
def test_an_unfinished_last_line_is_ignored(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + rest.encode("latin-1"))
    assert [row["step"] for row in read_log(path)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 3', "line 2: not JSON"),
        ("", "line 2: not JSON"),
        ('{"stop": 3}', "line 2: expected an object with a step"),
        ('{"step": "3"}', "line 2: expected an object with a step"),
        ("[3]", "line 2: expected an object with a step"),
    ],
)
def test_another_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 4}}\n')
    with pytest.raises(CheckpointError, match=message) as error:
        list(read_log(path))
    assert str(path) in str(error.value)


def test_a_log_is_cut_after_a_step(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"step": step, "text": "niño"} for step in (1, 2, 2, 3)]
    append_log(path, rows)
    with path.open("a") as file:
        file.write('{"step":')
    cut_log(path, 2)
    append_log(path, [{"step": 9}])
    assert list(read_log(path)) == [*rows[:3], {"step": 9}]
