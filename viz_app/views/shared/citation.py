"""Cite what a page shows: the weights, the sentence and the choices, in words and for BibTeX."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlencode

from viz_app import __version__
from viz_app.records.trace import Trace
from viz_app.report import provenance
from viz_app.views.shared.head_choice import head_label
from viz_app.views.state import View, encode

_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    }
)
"""Characters that mean something to TeX → how they are written as text."""


def citation(trace: Trace, shown: View, *, page: str) -> str:
    """Return one line of text that identifies a trace and what a page shows of it."""
    return f'Headwise, "{trace.source_text}" → "{trace.target_text}"; {_facts(trace, shown, page)}.'


def bibtex(trace: Trace, shown: View, *, page: str) -> str:
    """Return the same as an entry of BibTeX, of the type ``misc``."""
    title = f"Headwise {__version__}: “{trace.source_text}” → “{trace.target_text}”"
    fields = {"title": title, "year": str(date.today().year), "note": _facts(trace, shown, page)}
    lines = [f"  {name} = {{{{{text.translate(_TEX)}}}}},\n" for name, text in fields.items()]
    return f"@misc{{headwise-{trace.sha256[:12]}-{trace.step},\n{''.join(lines)}}}"


def _facts(trace: Trace, shown: View, page: str) -> str:
    facts = provenance(trace) | {"version of Headwise": __version__}
    facts["view"] = urlencode(encode(shown, page), doseq=True)
    if page == "translate" and shown.translate.fork:
        facts[f"beside it, token forced at step {shown.translate.at + 1}"] = shown.translate.fork
    if page == "translate" and shown.translate.off:
        facts["beside it, heads switched off"] = ", ".join(map(head_label, shown.translate.off))
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
