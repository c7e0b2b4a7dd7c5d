"""One stack further back: what a source token had from the encoder for the chosen word."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.account import (
    encoder_totals,
    largest_bars,
    limit_of,
    stream_parts,
)
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.figures.account import heads_map
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.records.account import Account, Doubles
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import MOST_ENCODER_BARS
from headwise.viz_app.views.shared.head_choice import chosen_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import view
from headwise.viz_app.views.shared.widgets import show_figure, show_heading
from headwise.viz_app.views.why.account_panels import ENCODER, account_panel
from headwise.viz_app.views.why.caches import cell_of
from headwise.viz_app.views.why.neurons import show_encoder_neurons


@account_panel(ENCODER)
def show_encoder(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the encoder's parts of the chosen cell of cross-attention, or of all cells."""
    show_heading("What the encoder put there")
    head, column = chosen_head(selection.run.description, view()), view().column
    cell = None
    if head.kind == "cross" and column is not None and column < len(trace.source):
        cell = cell_of(selection.run, trace, account, head.layer, head.head, column)
        token = escape_markdown(token_labels(trace.source)[column])
        total = float(account.parts.heads["cross"][head.layer, head.head, column])
        st.markdown(
            f"{head_label(head)} brought {total:+.3f} from **{token}**. What it read there was a "
            "sum, too: the token, its position, and what each head and feed-forward of the encoder "
            "had written at this token."
        )
        parts = stream_parts(cell)
    else:
        total = float(account.parts.heads["cross"].sum())
        st.markdown(
            f"All heads of cross-attention together brought {total:+.3f}. What they read was "
            "written by the encoder. Choose a cell of the cross map above to see one of them."
        )
        parts = encoder_totals(account)
    bars = largest_bars(parts, MOST_ENCODER_BARS)
    largest = max((abs(bar.value) for bar in bars), default=0.0)
    of_account = limit_of(account)
    limit = max(of_account, largest)
    if cell is not None:
        of_heads = float(np.abs(cell.heads["encoder_self"]).max(initial=0.0))
        limit = max(largest, of_heads) or 1.0
    show_figure(
        bar_chart(
            [bar.label for bar in bars],
            [bar.value for bar in bars],
            theme=selection.theme,
            limit=limit,
        ),
        key="encoder_parts",
        alt=f"{len(bars)} parts of the encoder as signed bars, the largest on top",
        name="encoder-parts",
    )
    if cell is not None:
        _show_heads(selection, trace, cell.heads["encoder_self"], limit)
    own = f"The scale here is its own: it ends at {limit:.2g}. " if limit != of_account else ""
    st.caption(
        f"{own}Attention weights and the divisors of the encoder's norms are held at their values "
        "in this pass, so that the parts sum to the cell exactly."
    )
    if cell is not None and column is not None:
        show_encoder_neurons(selection, trace, cell, column)


def _show_heads(selection: Selection, trace: Trace, cells: Doubles, limit: float) -> None:
    """Draw the encoder's heads by the token that they read for the chosen one."""
    show_figure(
        heads_map(
            cells,
            columns=token_labels(trace.source)[: cells.shape[-1]],
            column_title="source token that an encoder head read",
            limit=limit,
            theme=selection.theme,
            column=view().column,
        ),
        key="encoder_heads",
        alt="What each head of the encoder brought to this cell from each source token",
        name="encoder-heads",
    )
