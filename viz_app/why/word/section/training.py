"""The account of the same word at every checkpoint, on the same source and target."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import WHOLE_PAGE, change_view
from headwise.viz_app.session.widgets import clicked_value, show_figure
from headwise.viz_app.why.word.account import Account
from headwise.viz_app.why.word.bars import lines_by_part
from headwise.viz_app.why.word.section.asked import accounts_by_step

MOST_LINES = 7
"""Parts with a line of their own; the others share one."""


def show_through_training(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the parts of the account that were ever largest as lines through the checkpoints."""
    found = accounts_by_step(selection, trace, account, stop=lambda: change_view(answer="parts"))
    if found is None:
        return
    steps = [*found]
    lines = lines_by_part([*found.values()], MOST_LINES)
    place = steps.index(selection.step)

    def choose() -> None:
        clicked = clicked_value("account_training")
        if clicked is not None:
            change_view(WHOLE_PAGE, step=int(clicked))

    show_figure(
        named_lines(
            np.array(list(lines.values()), np.float32).T,
            steps=steps,
            names=list(lines),
            title="logits",
            theme=selection.theme,
            marked=place,
        ),
        key="account_training",
        alt="What each part of the decoder brought to the difference, by checkpoint: "
        + "; ".join(f"{name} {values[place]:+.2f} at this one" for name, values in lines.items()),
        name="through-training",
        on_select=choose,
    )
    st.caption(
        "All lines but the difference sum to the difference: above 0 the model of that checkpoint "
        "prefers the word that this target has. Checkpoints are evenly spaced; a click on a mark "
        "goes to its checkpoint."
    )
    selection.say_steps(steps)
