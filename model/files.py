"""Read and write files atomically, append to JSON Lines logs, and lock the folder of a run.

What cannot be read or written raises a ``CheckpointError``.
"""

from __future__ import annotations

import codecs
import itertools
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from filelock import FileLock, Timeout

from headwise.model.config import MOST_STEPS
from headwise.model.validation import MOST_VALUES, check_values

MOST_BYTES = 8 * 2**20
"""Most bytes of a file that is read whole, unless its reader says another number."""
MOST_OF_LOG = 8 * 2**20
"""Bytes, from its end, for which a log is read to be shown: some 50,000 rows."""
_MOST_OF_LINE = 2**20
_UNFINISHED = ".unfinished"
_LOCK_TIMEOUT = 0.5
"""Seconds to wait for the lock; ``has_writer`` holds it for a moment in another process."""


class CheckpointError(Exception):
    """A run or one of its files cannot be used; the message names the file, why, what to do."""


class NoCheckpointYetError(CheckpointError):
    """A training's folder has no complete checkpoint yet, and may get one."""


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
    """Lock a run's folder, which is made, against other trainings; one that has it is an error.

    What a killed one left unfinished is removed first; so is, at the end, a folder still empty.
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
        with _naming(folder):
            remove_unfinished(folder)
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
    text = json.dumps(content, ensure_ascii=False, indent=1)
    write_bytes(path, (text + "\n").encode())


@contextmanager
def open_regular(
    path: Path, *, within: Path | None = None, most: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file to be read, if it is one: a device would have no end, a pipe would be waited for.

    ``within`` is the folder that a link must not leave, that of the run which the file belongs to:
    whoever writes a run could show visitors any file of the machine otherwise. Weights that were
    fetched from the hub are links from a snapshot to the folder of all files of that model, which
    is allowed. ``most`` is the most bytes that the file may have.

    What cannot be read, is no regular file, too large, or elsewhere, raises a CheckpointError.
    """
    if within is not None and not _is_within(path, within):
        raise CheckpointError(
            f"{path}: leads out of the folder of its run, {within}; copy the file into that folder"
        )
    try:
        # A pipe that nobody writes into is opened at once, too, with O_NONBLOCK.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{path}: expected a regular file; restore the file")
            if most is not None and status.st_size > most:
                raise CheckpointError(
                    f"{path}: expected at most {most:,} bytes, got {status.st_size:,}; restore the "
                    "file"
                )
            yield file
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error.strerror or error}); restore the file"
        ) from error


def _is_within(path: Path, folder: Path) -> bool:
    try:
        place, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # links that lead to each other
        return False
    of_hub = root.parent.parent / "blobs" if root.parent.name == "snapshots" else root
    return place.is_relative_to(root) or place.is_relative_to(of_hub)


def check_regular(path: Path, *, within: Path | None = None, most: int | None = None) -> None:
    """Raise a CheckpointError where ``open_regular`` does."""
    with open_regular(path, within=within, most=most):
        pass


def read_bytes(path: Path, *, within: Path | None = None, most: int = MOST_BYTES) -> bytes:
    """Read a whole file, as ``open_regular`` opens it."""
    with open_regular(path, within=within, most=most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # a log may grow meanwhile


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a text in UTF-8, ended by line feeds, carriage returns or both.

    U+2028, U+0085 and their like are within a line; a byte order mark is left out.
    """
    return [line.decode() for line in content.removeprefix(codecs.BOM_UTF8).splitlines()]


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8; other texts, deep nesting and lone surrogates are a ValueError."""
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(content)  # seven times as fast, but it reads no NaN, as logs have
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if b"\\ud" in content.lower():  # half a character can only be written as an escape
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json(
    path: Path, *, within: Path | None = None, most: int = MOST_BYTES, values: int = MOST_VALUES
) -> Any:
    """Read a JSON file of at most so many bytes and values; else as ``open_regular`` opens it."""
    content = read_bytes(path, within=within, most=most)
    try:
        check_values(content, values)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; restore the file") from error
    try:
        return parse_json(content)
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); restore the file") from error


def append_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a JSON Lines file; after an error it may end in the middle of a line."""
    with _naming(path), path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_log(path: Path, *, last: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file but an unfinished last one; none without a file.

    ``last``: of its last bytes only. A link must not leave the folder of the log.
    """
    if not path.exists():
        return
    with open_regular(path, within=path.parent) as file:
        end = os.fstat(file.fileno()).st_size  # a log may grow meanwhile
        if last is not None and end > last:
            file.seek(end - last - 1)
            if not file.readline(_MOST_OF_LINE).endswith(b"\n"):  # what is left of a line
                raise CheckpointError(
                    f"{path}: expected a row to end within the last {last:,} bytes; restore it"
                )
        cut = file.tell() > 0
        for number in itertools.count(1):
            begin = file.tell()
            line = file.readline(min(_MOST_OF_LINE, end - begin))
            if not line.endswith(b"\n") and begin + len(line) == end:
                return
            yield _parse_row(line, f"{path}, byte {begin:,}" if cut else f"{path}, line {number}")


def _parse_row(line: bytes, place: str) -> dict[str, Any]:
    try:
        check_values(line)
        row = parse_json(line)
    except ValueError as error:
        raise CheckpointError(f"{place}: not JSON ({error})") from error
    step = row.get("step") if isinstance(row, dict) else None
    if type(step) is not int or not 0 <= step <= MOST_STEPS:
        raise CheckpointError(f"{place}: expected an object with a step")
    found: dict[str, Any] = row
    return found


def log_remarks(paths: Iterable[Path]) -> tuple[str, ...]:
    """Say of which logs only the last rows are read, since they are longer than ``MOST_OF_LOG``."""
    return tuple(
        f"{path.name} has {path.stat().st_size / 2**20:,.0f} MiB, of which the rows in the last "
        f"{MOST_OF_LOG >> 20} MiB are read"
        for path in paths
        if path.is_file() and path.stat().st_size > MOST_OF_LOG
    )


def cut_log(path: Path, step: int) -> None:
    """Remove the rows after a step, so that a resumed training can append."""
    write_log(path, (row for row in read_log(path) if row["step"] <= step))


def write_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole JSON Lines file; the rows may be those that it has now."""
    with new_file(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
