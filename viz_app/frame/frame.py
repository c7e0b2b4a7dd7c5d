"""Draw the frame around every page, where run, checkpoint and sentence are selected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.interface import Languages
from headwise.viz_app.figures.theme import page_style
from headwise.viz_app.frame.lesson_panel import show_lesson
from headwise.viz_app.served import (
    first_run,
    runs_folder,
    served_models,
    served_placement,
    without_places,
)
from headwise.viz_app.session.caches import Run, log_of, run_named, steps_in
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import note_files, note_offered, note_whole, watch
from headwise.viz_app.session.selection import Selection, current_theme, theme_name
from headwise.viz_app.session.state import CHOICES
from headwise.viz_app.session.view import (
    address_of,
    change_view,
    checked,
    control,
    current_page,
    fill_in,
    read_address,
    refuse_long_texts,
    view,
)
from headwise.viz_app.session.widgets import PAGE_TITLES, choose_from_list, choose_on_slider

_LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French"}
_ENGLISH = "The old man gave the little girl a red apple."
_MOST_EXAMPLES = 40
"""Sentences in the menu of examples: more are a long way to scroll."""
_SHORT = 60
"""Letters of a sentence in this menu."""
_LONG = {"sentence": "the sentence", "target": "the forced translation"}
"""Choices that can be too long for the address."""
_SCRIPT = Path(__file__).with_name("frame.js").read_text("utf-8")
_REPLACED = ", ".join(f".st-key-{name} + .st-key-{name}" for name in CHOICES)
"""Widgets with a new one before them, which Streamlit leaves there until the page is drawn."""
_PAPER = 640
"""Pixels that a chart has on a sheet of paper, within margins and frames."""


def select(page: str = "") -> Selection | None:
    """Draw the frame of a page and return the selection; None if something is missing, as shown."""
    read_address(page)
    theme = current_theme()
    field = st.get_option(f"theme.{theme_name()}.secondaryBackgroundColor")
    colours = page_style(theme) | {"field": field or theme.background}
    named = "".join(f"--{name}: {colour};" for name, colour in colours.items())
    named += f'--page: "{PAGE_TITLES[current_page()]}";'
    st.html(f"<style>:root {{ {named} }}{_REPLACED} {{ display: none; }}</style>")
    script = _SCRIPT.replace("PAPER", str(_PAPER))
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
    st.session_state["notes_place"], lesson = st.container(), st.container()
    with st.sidebar, st.container(horizontal=True, vertical_alignment="center", key="title-row"):
        st.title("Headwise")
        st.session_state["menu_place"] = st.container(width="content")
    _come_back()
    note_whole()
    with show_user_errors():
        with st.sidebar:
            run = _choose_run()
            step = _choose_step(run) if page != "learn" else _last_chosen_step(run)
        note_files(run.weights_path(step))
        text = _ask_for_text(run)
        if text.strip():
            st.session_state["files"] = f"headwise-{run.name}-{step}"
            selection = Selection(run=run, step=step, text=text, theme=current_theme())
            with lesson:
                show_lesson(selection)
            if page != "training":  # which watches its logs, too
                with st.sidebar:
                    watch(view().run or "")
            return selection
        st.info("Type a sentence above and press Enter.")
    # What is missing may come: a training that has just begun writes it.
    watch(view().run or "", logs=("run.json", "samples.jsonl", *_begun(view().run or "")))
    return None


def _begun(name: str) -> list[str]:
    """Return the names of what a training of others has in its folder at first, and the folder's.

    The stamp of a folder changes with each file that comes.
    """
    folder = served_models().get(name)
    begun = [] if folder is None else sorted(folder.glob("checkpoint-*"))
    return [".", "model.safetensors", *(path.name for path in begun)]


@st.fragment(run_every=timedelta(days=1), key="come-back")
def _come_back() -> None:
    """Draw nothing, in a part of the page that is due again, though not soon.

    A browser whose server was gone connects again by itself, perhaps to another server, which knows
    nothing of the page. But it asks for the page only if a part of it is due again or was being
    drawn. Without this part, the new server would know no panel of the page and answer no click.
    """


def _choose_run() -> Run:
    models = served_models()
    names = list(models)
    note_offered(names, ())
    if not names:
        raise CheckpointError(
            f"there is no run in {runs_folder()}: train one with "
            "python -m headwise.model.train, or name another folder at the start, such as that of "
            "the runs that come with Headwise: headwise --checkpoints FOLDER"
        )
    first = names[first_run(models)]
    name = choose_from_list("Run", names, key="run", default=first)
    # Also the first, where nobody chose it: where others are served, a link still says which it is.
    fill_in(run=name)
    note_offered(names, steps_in(models[name]))
    note_files(models[name] / "run.json")
    run = _choose_languages(run_named(name), name)
    with st.container(key="about-run"):
        said, more = _describe(run)
        st.caption(said, help=more)
    for remark in run.remarks:
        st.caption(escape_markdown(without_places(remark)))
    return run


def _choose_languages(run: Run, name: str) -> Run:
    """Ask for languages or task where a model knows several."""
    choices = run.choices
    wanted = {
        "source_language": ("Source language", choices.sources),
        "target_language": ("Target language", choices.targets),
        "task": ("Task, put before the source", choices.prefixes),
    }
    chosen = [
        st.selectbox(
            label,
            options,
            index=None,
            placeholder="none" if field == "task" else "as the model is set",
            **control(field, label, usable=options.__contains__, optional=True),
        )
        if options
        else None
        for field, (label, options) in wanted.items()
    ]
    return run_named(name, Languages(*chosen)) if any(chosen) else run


def _describe(run: Run) -> tuple[str, str]:
    """Say between which languages a run translates and how large it is; and what else is known."""
    units = {"bpe": "subword tokens", "word": "whole words"}[run.tokenizers.source.kind]
    size = served_placement().bytes_of(run.parameters) / 2**20
    count = run.parameters
    said = f"{count / 1e6:.1f} M" if count >= 100_000 else f"{count:,}"
    said += " parameters"
    if run.source_language and run.target_language:
        languages = f"{_language(run.source_language)} → {_language(run.target_language)}"
        said = f"{languages}, {said}"
    more = f"{size:,.1f} MiB; reads {units}."
    if run.adapter:
        more += f" With an {escape_markdown(run.adapter)}."
    if run.data is not None:
        origin = (run.data.attribution or run.data.name, run.data.licence)
        more += f" Data: {', '.join(map(escape_markdown, filter(None, origin)))}."
    return said, more


def _language(code: str) -> str:
    return escape_markdown(_LANGUAGES.get(code, code))


def _choose_step(run: Run) -> int:
    steps = run.steps()
    label = "Checkpoint"
    if len(steps) == 1:
        checked("step", label, default=steps[0], usable=steps.__contains__)
        st.caption(f"Its only checkpoint is that of step {steps[0]:,}.")
        step = steps[0]
    else:
        step = choose_on_slider(
            label,
            steps,
            key="step",
            default=steps[-1],
            format_func="{:,}".format,
            help="The weights after so many steps of training. The newest is chosen at first; move "
            "left to see how the heads came to be.",
        )
    # Also the newest, where nobody chose it: a link shows it when the training has gone on.
    fill_in(step=step)
    _offer_newer(run, steps)
    return step


def _last_chosen_step(run: Run) -> int:
    """Return the checkpoint that was chosen on another page; lessons choose their own."""
    steps = run.steps()
    return checked(
        "step", "Checkpoint", default=steps[-1], usable=steps.__contains__, written="{:,}".format
    )


def _offer_newer(run: Run, steps: list[int]) -> None:
    """Offer a checkpoint that was written since a person has seen the newest.

    The one in use stays in use: a training that goes on moves nobody away from it.
    """
    seen: dict[str, int] = st.session_state.setdefault("newest_seen", {})
    newest, name = steps[-1], run.folder.name
    if view().step == newest or seen.get(name, newest) > newest:
        seen[name] = newest
    if newest > seen.setdefault(name, newest):
        st.button(
            f"Newer checkpoint: step {newest:,}",
            key="newer",
            icon=":material/fiber_new:",
            on_click=lambda: change_view(step=newest),
        )


def _examples(run: Run) -> dict[str, str]:
    """Return the run's sample sentences by what they show, the first for each such thing.

    Those that say nothing of this have their beginning as their name, as much of it as is needed.

    A model of others has none; where it may know English, it gets one, so that a page is seen.
    """
    examples: dict[str, str] = {}
    if run.data is None and run.source_language[:2] in ("", "en"):
        examples["a sentence"] = _ENGLISH
    for row in log_of(run.folder, "samples.jsonl"):
        source = str(row.get("source", ""))
        name = str(row.get("shows") or "")
        examples.setdefault(name or _beginning(source, examples), source)
    return examples


def _beginning(text: str, taken: Mapping[str, str]) -> str:
    """Shorten a text, but not so much that it is the short form of another one."""
    beginnings = (f"{text[:length].rstrip()} …" for length in range(_SHORT, len(text), _SHORT))
    return next((short for short in beginnings if taken.get(short, text) == text), text)


def _ask_for_text(run: Run) -> str:
    examples: dict[str, str] = {}
    with show_user_errors():
        examples = _examples(run)
    language = run.source_language
    is_first_run = "typed" not in st.session_state
    typed: dict[str, str] = st.session_state.setdefault("typed", {})
    first = typed.get(language) or next(iter(examples.values()), "")
    label = f"Sentence in {_language(language)}" if language else "Sentence"
    bound = control("sentence", "Sentence", default=first)
    if is_first_run:
        # Only as the default: a browser that has lost its server brings along what was typed there
        # and never answered, and that goes before it.
        bound["value"] = st.session_state.pop(bound["key"])
    with st.container(horizontal=True, gap="small", key="sentence-row"):
        if examples:  # on the left, where it stays when more comes on the right
            st.menu_button(
                "Examples",
                list(examples)[:_MOST_EXAMPLES],
                key="example",
                help=f"The first {_MOST_EXAMPLES} of {len(examples):,} sample sentences of the "
                "run. All of them are on the page Training, in its section translations."
                if len(examples) > _MOST_EXAMPLES
                else None,
                format_func=escape_markdown,
                on_click=lambda: change_view(sentence=examples[st.session_state["example"]]),
            )
        text = st.text_area(
            label,
            height="content",
            placeholder=f"{label}: type it and press Enter",
            label_visibility="collapsed",
            **bound,
        )
        # Translate has the translation there, and pages of one target what forces another one.
        st.session_state["beside_sentence"] = st.container(
            horizontal=True, gap="small", key="beside-sentence"
        )
    if is_first_run and text != bound["value"]:
        if refuse_long_texts([text]):
            st.rerun()  # the field is then a new one
        change_view(sentence=text)
    typed[language] = text
    if view().sentence is not None or text:  # an example may yet come, if a training has just begun
        fill_in(sentence=text)
    if left_out := address_of(view())[1]:
        names = " and ".join(_LONG.get(name, name) for name in left_out)
        st.caption(f"Too long for the page's address, and left out of it: {names}.")
    return text.replace("\n", " ")
