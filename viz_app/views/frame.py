"""The frame around every page: run, checkpoint and sentence."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from model.checkpoint import (
    CHECKPOINTS,
    CheckpointError,
    Run,
    list_runs,
    steps_of,
    weights_path,
)
from viz_app.views._session import Selection, current_theme, run_named
from viz_app.views._widgets import (
    begin_noting,
    forget_unless,
    note_files,
    plain,
    problems_in_place,
)
from viz_app.views.address import check_asked
from viz_app.views.live import note_offered, open_asked, watch

_LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French"}
FIRST_RUN = "en-es"
"""The run that is open at first, where there is one of this name."""
LONGEST_TEXT_IN_URL = 1_500
"""Characters; a longer sentence is left out of the URL."""

_STYLE = """
<style>
  .stMainBlockContainer { padding: 3.6rem 2rem 2rem; }
  .stSidebar h1 { font-size: 1.6rem; padding: 0; }
  .stSidebarHeader { height: 1rem; margin-bottom: 0; }
  .stApp [data-testid="stCaptionContainer"] { color: MUTED; opacity: 1; }
  .st-key-examples button { padding: 0 .6rem; min-height: 1.7rem; }
  .st-key-examples button p { font-size: .82rem; }
  .stMultiSelect [data-tag] {
    background: rgba(128, 128, 128, .18); color: inherit; border: 1px solid rgba(128, 128, 128, .6);
  }
</style>
"""


def checkpoints_root() -> Path:
    """Where the runs are: the folder that HEADWISE_CHECKPOINTS names, or the project's own."""
    return Path(os.environ.get("HEADWISE_CHECKPOINTS") or CHECKPOINTS)


def select() -> Selection | None:
    """Draw the frame; None where it has said what is missing for a page to be drawn."""
    st.html(_STYLE.replace("MUTED", current_theme().muted))
    st.session_state["notes_place"] = st.container()
    st.sidebar.title("Headwise")
    begin_noting()
    with problems_in_place():
        with st.sidebar:
            run = _choose_run()
            step = _choose_step(run)
        note_files(weights_path(run.folder, step))
        text = _ask_for_text(run)
        if text.strip():
            st.session_state["files"] = f"headwise-{run.info.name}-{step}"
            return Selection(run=run, step=step, text=text, theme=current_theme())
        st.info("Type a sentence above and press Enter, or choose an example.")
    # What is missing may come: a training that has just begun writes it.
    watch(checkpoints_root(), st.session_state.get("run", ""), logs=("run.json", "samples.jsonl"))
    return None


def _choose_run() -> Run:
    root = checkpoints_root()
    names = list_runs(root)
    note_offered(names, ())
    if not names:
        raise CheckpointError(
            f"there is no run in {root}: train one with python -m model.train, or restore the "
            "folder from the repository"
        )
    first = names.index(FIRST_RUN) if FIRST_RUN in names else 0
    open_asked()
    check_asked("run", "Run", names.__contains__)
    name = st.selectbox("Run", names, index=first, key="run", bind="query-params")
    note_offered(names, steps_of(root / name))
    note_files(root / name / "run.json")
    run = run_named(root, name)
    data = run.info.data
    origin = ", ".join(map(plain, filter(None, [data.attribution or data.name, data.licence])))
    units = {"bpe": "pieces of words", "word": "whole words"}[run.tokenizers.source.kind]
    st.caption(
        f"{_language(run.info.source_language)} → {_language(run.info.target_language)}, "
        f"{_readable(run.info.parameters)} parameters; reads {units}. Data: {origin}."
    )
    return run


def _readable(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 100_000 else f"{count:,}"


def _language(code: str) -> str:
    return plain(_LANGUAGES.get(code, code))


def _choose_step(run: Run) -> int:
    steps = run.steps()
    by_name = {str(step): step for step in steps}
    check_asked("step", "Checkpoint", by_name.__contains__, named="{:,}".format)
    forget_unless("step", steps)
    if "step" not in st.session_state:
        st.session_state["step"] = by_name.get(st.query_params.get("step", ""), steps[-1])
    if len(steps) == 1:
        st.caption(f"Its only checkpoint is that of step {steps[0]:,}.")
        _offer_newer(run, steps)
        return steps[0]
    step = st.select_slider(
        "Checkpoint, by training step",
        steps,
        format_func=lambda step: f"{step:,}",
        key="step",
        help="The weights after so many steps of training. The newest is chosen at first; move "
        "left to see how the heads came to be.",
    )
    # Not bound to the URL like other widgets: the newest step belongs there too, since a link
    # must still show it when the training has gone on.
    if st.query_params.get("step") != str(step):
        st.query_params["step"] = str(step)
    _offer_newer(run, steps)
    return step


def _offer_newer(run: Run, steps: list[int]) -> None:
    """A button for a checkpoint that was written since a person has seen the newest.

    The one in use stays in use: a training that goes on moves nobody away from it.
    """
    seen: dict[str, int] = st.session_state.setdefault("newest_seen", {})
    newest, name = steps[-1], run.folder.name
    if st.session_state["step"] == newest or seen.get(name, newest) > newest:
        seen[name] = newest
    if newest > seen.setdefault(name, newest):
        st.button(
            f"Newer checkpoint: step {newest:,}",
            key="newer",
            icon=":material/fiber_new:",
            on_click=lambda: st.session_state.update(step=newest),
        )


def _examples(run: Run) -> dict[str, str]:
    """The run's sample sentences, the first for each thing they show."""
    examples: dict[str, str] = {}
    for row in run.samples():
        source = str(row.get("source", ""))
        examples.setdefault(str(row.get("shows") or source[:20]), source)
    return examples


def _ask_for_text(run: Run) -> str:
    examples: dict[str, str] = {}
    with problems_in_place():
        examples = _examples(run)
    _have_a_sentence(run, next(iter(examples.values()), ""))
    text = st.text_input(
        f"Sentence in {_language(run.info.source_language)}",
        key="sentence",
        placeholder="Type a sentence and press Enter",
    )
    # Streamlit forgets it when the field is not drawn, as while a run cannot be opened.
    st.session_state["typed"][run.info.source_language] = text
    if examples:
        with st.container(
            horizontal=True, gap="small", key="examples", vertical_alignment="center"
        ):
            st.caption("Try:", width="content")
            for shows, source in examples.items():
                st.button(
                    plain(shows),
                    key=f"example-{shows}",
                    on_click=lambda source=source: st.session_state.update(sentence=source),
                )
    _keep_in_url(text)
    return text


def _have_a_sentence(run: Run, example: str) -> None:
    """Begin with the sentence of the URL or an example; each source language keeps its own.

    Where there is no example yet, as in a training that has just begun, the first one is taken.
    """
    state, language = st.session_state, run.info.source_language
    typed: dict[str, str] = state.setdefault("typed", {})
    if "sentence" not in state or language != state["sentence_language"]:
        if not typed:  # the address has a sentence of the first run that is opened
            check_asked("sentence", "Sentence", parameter="q")
            example = st.query_params.get("q", example)
        state["sentence"] = typed.get(language, example)
        state["without_example"] = not state["sentence"]
    elif state.get("without_example"):
        state["sentence"] = state["sentence"] or example
        state["without_example"] = not state["sentence"]
    state["sentence_language"] = language


def _keep_in_url(text: str) -> None:
    if len(text) > LONGEST_TEXT_IN_URL:
        st.query_params.pop("q", None)
        st.caption(
            f"The sentence is longer than {LONGEST_TEXT_IN_URL:,} characters and is left out of "
            "the page's address."
        )
    elif st.query_params.get("q") != text:
        st.query_params["q"] = text
