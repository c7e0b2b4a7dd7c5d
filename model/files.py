"""Read and write files atomically, append to JSON Lines logs, and lock the folder of a run.

What cannot be read or written raises a ``CheckpointError``.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from filelock import FileLock, Timeout

from headwise.model.config import MOST_STEPS

_UNFINISHED = ".unfinished"
_LOCK_TIMEOUT = 0.5
"""Seconds to wait for the lock; ``has_writer`` holds it for a moment in another process."""


class CheckpointError(Exception):
    """A run or one of its files cannot be used; the message names the file, why, what to do."""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an OSError of writing into a CheckpointError that names the file."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error.strerror or error}); what was written before is "
            "intact; see to that and run the command again, a training with --resume"
        ) from error


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file under a temporary name, which is renamed at the end; after an error removed."""
    with _naming(path):
        handle, temporary = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def make_folder(folder: Path) -> None:
    """Make a folder in another one, if it is not there."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot be made ({error.strerror}); see to that and run the command again"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file as ``new_file`` does."""
    with new_file(path) as file:
        file.write(content)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder with a temporary name, which is renamed at the end; after an error removed."""
    with _naming(folder):
        folder.parent.mkdir(exist_ok=True)
        temporary = Path(tempfile.mkdtemp(_UNFINISHED, f".{folder.name}.", folder.parent))
        temporary.chmod(0o755)
        try:
            yield temporary
            temporary.replace(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files atomically."""
    with new_folder(folder) as temporary:
        for name, content in files.items():
            write_bytes(temporary / name, content)


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files that a killed process left in a folder or below it."""
    for path in sorted(folder.rglob(f".*{_UNFINISHED}")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a run's folder against other trainings, creating it if necessary.

    It is an error if another process has the lock, which also ends with the process. A folder that
    is still empty is removed.
    """
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "training.lock")
        try:
            lock.acquire(timeout=_LOCK_TIMEOUT)
        except Timeout as error:
            raise CheckpointError(
                f"{folder}: another training writes into this run; wait for its end, stop it, or "
                "take another name"
            ) from error
    try:
        yield
    finally:
        lock.release()
        if [path.name for path in folder.iterdir()] == ["training.lock"]:
            shutil.rmtree(folder)  # nothing was written into it


def has_writer(folder: Path) -> bool:
    """Return whether a training has locked a run's folder; False if this cannot be found out."""
    path = folder / "training.lock"
    if not path.exists():
        return False
    try:
        with FileLock(path, blocking=False):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def write_json(path: Path, content: object) -> None:
    """Write indented JSON."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    write_bytes(path, (text + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """Read a whole file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error.strerror}); restore the file"
        ) from error


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises:
        ValueError: if it is not JSON, is nested too deeply, or contains half a character (a lone
            surrogate).
    """
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(content)  # seven times as fast, but it reads no NaN, as logs have
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if b"\\ud" in content.lower():  # half a character can only be written as an escape
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return parse_json(read_bytes(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); restore the file") from error


def append_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a JSON Lines file; after an error it may end in the middle of a line."""
    with _naming(path), path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file, but not an unfinished last line; without a file none."""
    if not path.exists():
        return
    lines = read_bytes(path).split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise CheckpointError(f"{path}, line {number}: not JSON ({error})") from error
        step = row.get("step") if isinstance(row, dict) else None
        if type(step) is not int or not 0 <= step <= MOST_STEPS:
            raise CheckpointError(f"{path}, line {number}: expected an object with a step")
        yield row


def cut_log(path: Path, step: int) -> None:
    """Remove the rows after a step, so that a resumed training can append."""
    write_log(path, [row for row in read_log(path) if row["step"] <= step])


def write_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole JSON Lines file."""
    write_bytes(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode())
