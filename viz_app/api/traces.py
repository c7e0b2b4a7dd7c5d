"""A trace that shows itself in a notebook, and saves itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from headwise.model.files import write_bytes
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_notebook, writer_for
from headwise.viz_app.trace import saved


@dataclass(frozen=True, repr=False, eq=False)
class OpenedTrace(Trace):
    """A ``Trace`` that a notebook draws as a map of all heads, and that has a file by one call."""

    @classmethod
    def of(cls, trace: Trace) -> OpenedTrace:
        """Return a trace with these abilities; the arrays are the same."""
        return cls(**{field.name: getattr(trace, field.name) for field in fields(Trace)})

    def save(self, path: Path | str) -> Path:
        """Write all of it to a file whose name ends in .npz or .json, or a page in .html.

        ValueError if the name ends otherwise, or there is no such folder. CheckpointError if the
        file cannot be written.
        """
        path = Path(path)
        write_bytes(path, writer_for(path)(self))
        return path

    def _repr_html_(self) -> str:
        return to_notebook(self)


def read_trace(path: Path | str) -> OpenedTrace:
    """Read a trace from an .npz or .json file that ``save`` or the app wrote.

    OSError if the file cannot be read. ValueError if it is not a saved trace, of another version,
    too large, or damaged.
    """
    return OpenedTrace.of(saved.read_trace(path))
