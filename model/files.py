"""Files of a run, whatever is in them: written whole or not at all, logs of JSON lines, a lock."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from model.config import MOST_STEPS

_UNFINISHED = ".unfinished"
_PATIENCE = 0.5
"""Seconds to wait for a lock, which who asks for a writer holds for a moment."""


class CheckpointError(Exception):
    """A run or one of its files cannot be used; the message names the file, why, what to do."""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn a refusal of the system to write into a message that names the file."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error.strerror or error}); what was written before is "
            "intact; see to that and run the command again, a training with --resume"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file or none: under a temporary name first, then renamed.

    Raises:
        CheckpointError: if it cannot be written.
    """
    with _naming(path):
        handle, temporary = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files as a whole or not at all.

    Raises:
        CheckpointError: if it cannot be written.
    """
    with _naming(folder):
        folder.parent.mkdir(exist_ok=True)
        temporary = tempfile.mkdtemp(_UNFINISHED, f".{folder.name}.", folder.parent)
        try:
            for name, content in files.items():
                write_bytes(Path(temporary) / name, content)
            Path(temporary).replace(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process was writing in a folder or below."""
    for path in sorted(folder.rglob(f".*{_UNFINISHED}")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a run's folder, made if need be, against other trainings; the lock dies with its owner.

    Raises:
        CheckpointError: if another process holds it, or it cannot be written.
    """
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "training.lock")
        try:
            lock.acquire(timeout=_PATIENCE)
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
            shutil.rmtree(folder)  # it came to nothing


def has_writer(folder: Path) -> bool:
    """Whether a training holds a run's folder now; False too where that cannot be found out."""
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
    """Write indented JSON, as ``write_bytes`` does."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    write_bytes(path, (text + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """A whole file.

    Raises:
        CheckpointError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error.strerror}); restore the file"
        ) from error


def parse_json(content: bytes) -> Any:
    """The value of a JSON text in UTF-8, of which all texts can be shown.

    Raises:
        ValueError: if it is none, is nested too deeply, or has half a character (a lone surrogate).
    """
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if b"\\ud" in content.lower():  # only so can half a character be written
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        CheckpointError: if it cannot be read, or is not JSON.
    """
    try:
        return parse_json(read_bytes(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); restore the file") from error


def append_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a JSON Lines file.

    Raises:
        CheckpointError: if it cannot be written; it may then end in the middle of a line.
    """
    with _naming(path), path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON Lines file; nothing if there is none; an unfinished last line is ignored.

    Raises:
        CheckpointError: if another line cannot be read.
    """
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
    """Keep the rows up to a step, as a resumed training needs."""
    rows = [row for row in read_log(path) if row["step"] <= step]
    write_bytes(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode())
