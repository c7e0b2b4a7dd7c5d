"""The special tokens of a run's target as pages name them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.analysis.measure_descriptions import MEASURE_DESCRIPTIONS, MeasureDescription
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.markdown import escape_latex

_OURS = re.compile("</?s>")


@dataclass(frozen=True)
class SpecialTokens:
    """The tokens around every target are held with their labels."""

    start: str
    """The first token that the decoder consumes."""
    end: str
    end_id: int

    def name_in(self, text: str) -> str:
        """Put their names in a text in place of ``<s>`` and ``</s>``, which runs of ours have."""
        names = {"<s>": self.start, "</s>": self.end}
        return _OURS.sub(lambda found: names[found[0]], text)


def special_tokens_of(run: Run) -> SpecialTokens:
    """Return the start and the end of every target of a run."""
    ids = run.tokenizers.encode_target("")
    start, end = run.tokenizers.target.tokens([ids[0], ids[-1]])
    return SpecialTokens(token_label(start), token_label(end), ids[-1])


def measure_description(name: str, run: Run) -> MeasureDescription:
    """Describe a measure of heads with the special tokens of a run."""
    about = MEASURE_DESCRIPTIONS[name]
    tokens = special_tokens_of(run)
    in_formulas = replace(tokens, start=escape_latex(tokens.start), end=escape_latex(tokens.end))
    return replace(
        about, name=tokens.name_in(about.name), formula=in_formulas.name_in(about.formula)
    )
