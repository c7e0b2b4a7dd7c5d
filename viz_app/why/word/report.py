"""The account of a word as an HTML page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import KIND_NAMES, make_visible, token_labels
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.html import token_row
from headwise.viz_app.figures.parts import waterfall
from headwise.viz_app.figures.standalone import Drawing, Table, standalone
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import provenance
from headwise.viz_app.why.word.account import WHOLE_NOTE, Account, WholeEffects
from headwise.viz_app.why.word.bars import (
    DIRECT,
    KINDS_OF_DECODER,
    MOST_OF_ENCODER,
    Bar,
    bar_arguments,
    bars_by_size,
    by_layer,
    largest_bars,
    map_by_token,
    neuron_bars,
)


def account_to_html(
    trace: Trace,
    account: Account,
    effects: WholeEffects,
    *,
    words: tuple[str, str],
    smallest: float,
    feed_forward: int | None = None,
    theme: Theme = LIGHT,
) -> bytes:
    """Return an HTML page with the pictures of an account, and a table of all its parts.

    Args:
        trace: the sentence.
        account: of a word of its target.
        effects: its whole effects.
        words: what the two words are called.
        smallest: least magnitude of a part with a bar of its own.
        feed_forward: the layer, from 1, whose neurons are drawn; the one that brought most, if
            there is no such layer.
        theme: colours.
    """
    word, other = words
    parts, sublayers, neurons = dict(account.named()), by_layer(account), account.parts.neurons
    if feed_forward is None or not 1 <= feed_forward <= len(neurons):
        feed_forward = int(first_largest(np.abs(account.parts.feed_forwards))) + 1

    def drawn(name: str, note: str, bars: Sequence[Bar]) -> Drawing:
        return Drawing(name, note, bar_chart(**bar_arguments(bars, account.limit), theme=theme))

    drawings: dict[str, Drawing] = {
        "parts": drawn("What each part brought", DIRECT, bars_by_size(parts, smallest)),
        "waterfall": Drawing(
            "Sublayer by sublayer",
            "In the order of the computation; heads of a sublayer are added up.",
            waterfall([*sublayers], [*sublayers.values()], theme=theme),
        ),
        **{
            kind: Drawing(
                f"{KIND_NAMES[kind]} heads, by the token that they read",
                f"Rows are layer.head. The scale ends at {account.limit:.2f} logits.",
                map_by_token(trace, kind, account.parts.heads[kind], account.limit, theme),
            )
            for kind in KINDS_OF_DECODER
        },
        "encoder": drawn(
            "What the encoder put there",
            "What all heads of cross-attention brought together, by what wrote it.",
            largest_bars(account.from_encoder.sums(), MOST_OF_ENCODER, encoder=True),
        ),
        "neurons": drawn(
            f"Feed-forward {feed_forward}, by neuron",
            "Activation × what the neuron writes.",
            neuron_bars(neurons[feed_forward - 1]),
        ),
    }
    of_encoder = effects["encoder"]
    of_cells = bars_by_size(account.from_encoder.sums(), 0.0, encoder=True)

    def row(bar: Bar, wholes: Mapping[str, float]) -> tuple[str, str, str]:
        whole = f"{wholes[bar.name]:+.4f}" if bar.name in wholes else ""
        return bar.label, f"{bar.value:+.4f}", whole

    page = standalone(
        title=f"Why “{word}”, and not “{other}”?",
        tokens=[
            token_row(token_labels(trace.source), theme=theme),
            token_row(token_labels(trace.predicted), theme=theme, selected=account.step),
        ],
        parts=drawings,
        table=Table(
            "All parts",
            ("part", "direct effect", "whole effect"),
            [row(bar, effects["decoder"]) for bar in bars_by_size(parts, 0.0)]
            + [row(bar, of_encoder) for bar in of_cells if bar.name in of_encoder],
        ),
        facts=provenance(trace)
        | {
            "source": make_visible(trace.source_text),
            "translation": make_visible(trace.target_text),
            "asked": f"“{word}” against “{other}” at token {account.step + 1}",
            "difference of the logits": f"{account.difference:+.4f}",
            "sum of the parts": f"{account.parts.total:+.4f}",
            "direct effect": f"what a part itself wrote; {account.held}",
            "direct effect, encoder": "what cross-attention, its weights held, read of a part",
            "whole effect": WHOLE_NOTE,
        },
        theme=theme,
    )
    return page.encode()
