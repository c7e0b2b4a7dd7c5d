"""The account of the same word at every checkpoint, on the same source and target."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.account import bars_by_layer
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.figures.account import account_map
from headwise.viz_app.records.account import Account
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.shared.accounts import MOST_ASKED, accounts_by_step
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, control, redraw_all
from headwise.viz_app.views.shared.widgets import clicked_value, show_figure, show_heading


def show_through_training(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the parts of the account, sublayer by sublayer, at every checkpoint."""
    steps = selection.run.steps()
    if len(steps) < 2:
        return
    show_heading("Through training")
    if not st.toggle(
        "The same question at every checkpoint",
        help="Every checkpoint is given this source and this target, and asked for these two "
        "words at this position.",
        **control("through", "Through training"),
    ):
        return
    steps = sorted({selection.step, *spread(steps, MOST_ASKED)})
    columns = [bars_by_layer(each) for each in accounts_by_step(selection, trace, account, steps)]
    cells = np.array([[bar.value for bar in bars] for bars in columns]).T
    limit = float(np.abs(cells).max()) or 1.0

    def choose() -> None:
        clicked = clicked_value("account_training")
        if clicked:
            change_view(step=steps[int(clicked.partition(",")[2])])
            redraw_all()

    show_figure(
        account_map(
            cells,
            rows=[bar.label for bar in columns[0]],
            columns=[f"{step:,}" for step in steps],
            column_title="training step",
            limit=limit,
            theme=selection.theme,
            column=steps.index(selection.step) if selection.step in steps else None,
            with_rows=False,
        ),
        key="account_training",
        alt="What each sublayer brought to the difference, by checkpoint",
        name="through-training",
        on_select=choose,
    )
    st.caption(
        f"The scale ends at {limit:.2f} logits. Below, the difference itself: above 0 the model of "
        "that step prefers the word that this target has. A click goes to that checkpoint."
    )
