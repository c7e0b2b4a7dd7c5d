from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.model import files


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("failure", "raised", "message"),
    [
        (
            OSError("full"),
            files.CheckpointError,
            r"/a: cannot be written \(full\); what was written bef",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_file_is_replaced_whole_and_by_a_failed_write_not_at_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    raised: type[BaseException],
    message: str | None,
) -> None:
    def fail(_: int) -> None:
        raise failure

    files.write_bytes(tmp_path / "a", b"older")
    files.write_bytes(tmp_path / "a", b"old")
    assert os.name != "posix" or (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised, match=message):
        files.write_bytes(tmp_path / "a", b"new")
    assert contents(tmp_path) == {"a": b"old"}


def test_a_folder_is_written_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_folder(tmp_path / "new" / "a", {"x": b"1", "y": b"2"})
    assert contents(tmp_path / "new" / "a") == {"x": b"1", "y": b"2"}

    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(files.CheckpointError, match=r"/x: cannot be written \(full\)"):
        files.write_folder(tmp_path / "new" / "b", {"x": b"1"})
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]


def test_what_a_killed_process_left_is_removed_but_nothing_of_a_live_one(tmp_path: Path) -> None:
    left = tmp_path / "resume" / ".step-0000004.abc.unfinished"
    left.mkdir(parents=True)
    (left / ".state.json.abc.unfinished").touch()
    (tmp_path / ".a.abc.unfinished").touch()
    (tmp_path / ".kept").touch()
    with files.only_writer(tmp_path):
        assert {path.name for path in tmp_path.rglob("*")} == {"resume", ".kept", "training.lock"}
        (tmp_path / ".b.abc.unfinished").touch()
        with pytest.raises(files.CheckpointError), files.only_writer(tmp_path):
            pass
        assert (tmp_path / ".b.abc.unfinished").exists()


# What is read


def test_links_within_a_folder_and_those_of_the_hub_are_followed(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a" / "snapshots" / "1f"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--a" / "blobs").mkdir()
    (tmp_path / "models--a" / "blobs" / "b").write_bytes(b"of the hub")
    (snapshot / "config.json").symlink_to("../../blobs/b")
    assert files.read_bytes(snapshot / "config.json", within=snapshot) == b"of the hub"
    (snapshot / "c").symlink_to("config.json")
    assert files.read_bytes(snapshot / "c", within=snapshot) == b"of the hub"
    (tmp_path / "run").symlink_to(snapshot)  # the folder itself may be anywhere
    assert files.read_bytes(tmp_path / "run" / "c", within=tmp_path / "run") == b"of the hub"


# The lock


def test_only_one_process_holds_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    assert not files.has_writer(folder)
    with files.only_writer(folder):
        assert files.has_writer(folder)
        (folder / "run.json").touch()
        message = "/a: another training writes into this run; wait"
        with pytest.raises(files.CheckpointError, match=message), files.only_writer(folder):
            pass
    assert not files.has_writer(folder)
    with files.only_writer(folder):  # asking has left nothing held
        pass
    assert (folder / "run.json").exists()


def test_a_run_without_files_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), files.only_writer(tmp_path / "a"):
        raise ValueError("no")
    assert not (tmp_path / "a").exists()


# Logs


@pytest.mark.parametrize("rest", ["", '{"step": 4', '{"step": 4}', '{"text": "\xc3'])
def test_rows_are_added_and_read_but_an_unfinished_last_line(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "log.jsonl"
    assert list(files.read_log(path)) == []
    files.append_log(path, [{"step": 1, "text": "año\u2028"}, {"step": 2}])
    files.append_log(path, [{"step": 3}])
    with path.open("ab") as file:
        file.write(rest.encode("latin-1"))
    assert list(files.read_log(path)) == [
        {"step": 1, "text": "año\u2028"},
        {"step": 2},
        {"step": 3},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 3', "line 2: not JSON"),
        ("", "line 2: not JSON"),
        ('{"stop": 3}', "line 2: expected an object with a step"),
        ('{"step": "3"}', "line 2: expected an object with a step"),
        ("[3]", "line 2: expected an object with a step"),
        ('{"step": true}', "line 2: expected an object with a step"),
        ('{"step": -1}', "line 2: expected an object with a step"),
        ('{"step": 10000000}', "line 2: expected an object with a step"),
        ('{"step": 3, "a": ' + "[" * 10_000 + "]" * 10_000 + "}", r"line 2: not JSON \(nested too"),
        (r'{"step": 3, "source": "\ud83d"}', r"line 2: not JSON \(.*surrogates"),
    ],
)
def test_another_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 4}}\n')
    with pytest.raises(files.CheckpointError, match=message) as error:
        list(files.read_log(path))
    assert str(path) in str(error.value)


def test_a_log_is_cut_after_a_step(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"step": step, "text": "niño"} for step in (1, 2, 2, 3)]
    files.append_log(path, rows)
    with path.open("a") as file:
        file.write('{"step":')
    files.cut_log(path, 2)
    files.append_log(path, [{"step": 9}])
    assert list(files.read_log(path)) == [*rows[:3], {"step": 9}]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\n\nb", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"]),
        ("a\u2028b\nc\x85\x0b\x1c\n\u2029\n".encode(), ["a\u2028b", "c\x85\x0b\x1c", "\u2029"]),
    ],
)
def test_only_line_feeds_and_carriage_returns_end_a_line(content: bytes, lines: list[str]) -> None:
    assert files.lines_of(content) == lines


def _link(path: Path, target: Path) -> None:
    path.symlink_to(target)


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes in a folder")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "expected a regular file"),
        (lambda path: _link(path, Path("/dev/zero")), "leads out of the folder of its run"),
        (lambda path: _link(path, path.parent.parent / "secret"), "leads out of the folder"),
        (lambda path: _link(path, path), "leads out of the folder|cannot be read"),
        (Path.mkdir, "cannot be read|expected a regular file"),
        (lambda path: os.truncate(_touched(path), 5 * 2**30), "at most 8,388,608 bytes, got 5,3"),
    ],
    ids=["pipe", "device", "elsewhere", "itself", "folder", "sparse"],
)
def test_what_is_no_file_of_the_folder_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "run" / "a"
    path.parent.mkdir()
    make(path)
    with pytest.raises(files.CheckpointError, match=f"/a: .*({message})"):
        files.read_bytes(path, within=path.parent)


def _touched(path: Path) -> Path:
    path.touch()
    return path
