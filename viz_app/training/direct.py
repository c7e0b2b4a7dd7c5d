"""The section "heads" on one sentence: each head's direct effect on a word, at every checkpoint."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.head_ranking import head_table
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import trace_of
from headwise.viz_app.session.errors import show_error
from headwise.viz_app.session.head_choice import choices_for, choose_head
from headwise.viz_app.session.inspector import inspecting
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import target_buttons
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, checked
from headwise.viz_app.session.vocabulary import token_name
from headwise.viz_app.session.widgets import open_page
from headwise.viz_app.training.checkpoints import SharedTarget, choose_shared_target
from headwise.viz_app.training.matrix import choose_order, show_cells
from headwise.viz_app.why.word.account import MEAN, Account
from headwise.viz_app.why.word.section.asked import (
    accounts_by_step,
    asked_account,
    choose_other_word,
    compared_words,
)


@panel("direct")
@inspecting
def show_direct(selection: Selection) -> None:
    """Draw what each head brought to a word of a target that all checkpoints are given."""
    choices, picture = st.columns([2, 3], gap="large")
    with choices:
        shared = choose_shared_target(selection)
        trace = trace_of(selection.run, selection.step, selection.text, shared.ids)
        at: int = checked("at", "Position", usable=range(len(trace.predicted)).__contains__)
        st.caption("The target: a click asks what brought that token")
        target_buttons(
            selection,
            trace,
            does="each asks what brought it",
            on_click=lambda place: change_view(at=place),
            chosen=at,
        )
        word = escape_markdown(token_labels(trace.predicted)[at])
        choose_other_word(selection, trace, at, f"What brought “{word}”, and not")
        order = choose_order()
        head = choose_head(selection.run.description)
    try:
        account = asked_account(selection, trace)
    except ValueError as problem:
        show_error(problem)
        return
    with picture:
        _show_matrix(selection, shared, trace, account, head, order)


def _show_matrix(
    selection: Selection,
    shared: SharedTarget,
    trace: Trace,
    account: Account,
    head: Head,
    order: str,
) -> None:
    accounts = accounts_by_step(
        selection,
        trace,
        account,
        stop=lambda: change_view(WHOLE_PAGE, matrix_over="corpus"),  # which is there
    )
    if accounts is None:
        return
    steps = [*accounts]
    heads, cells = head_table([each.by_head() for each in accounts.values()])

    def words(each: Head, step: int, value: float) -> str:
        return (
            f"{value:+.3f} of the difference, {accounts[step].difference:+.3f} at this checkpoint"
        )

    other = MEAN if account.instead is None else token_name(account.instead)
    note = show_cells(
        selection,
        heads,
        cells,
        steps=steps,
        order=order,
        words=words,
        name=f"direct-{account.step + 1}",
        measured="direct effect, logits",
        values="signed",
        about="Positive where the head spoke for the word that the target has.",
        selected=head,
        on_click=lambda each, step: open_page(
            "why",
            step=step,
            target=shared.text,
            at=account.step,
            instead=other,
            **choices_for(each),
        ),
    )
    word, against = map(escape_markdown, compared_words(selection.run, account))
    st.caption(
        f"What each head itself wrote for “{word}” and against “{against}” after "
        f"{shared.description} so far, with all weights and divisors of norms as they were; what "
        "later layers make of it is not in it. Heads of the encoder write nothing into the "
        "decoder: their rows take apart what the rows of cross-attention have. "
        f"{note} Click a cell to open that head at that checkpoint on Why."
    )
    selection.say_steps(steps)
