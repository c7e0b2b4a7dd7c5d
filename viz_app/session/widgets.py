"""Draw rows of buttons, figures and links that can be clicked, and headings; open other pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

import streamlit as st

from headwise.viz_app.components.assets import sent_value
from headwise.viz_app.components.heat_map import heat_map
from headwise.viz_app.components.printing import printed_width
from headwise.viz_app.figures.bars import take_frames
from headwise.viz_app.session.selection import current_theme
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control, session, view

Option = TypeVar("Option")
_MOST_STRETCHED = 1.25
"""How much wider than it was made for a figure is drawn at most."""
PageName = Literal["translate", "inside", "why", "model", "training", "heads", "errors", "learn"]
"""The names that the pages have in the address."""
PAGE_TITLES: dict[str, str] = {
    "translate": "Translate",
    "inside": "Inside a head",
    "why": "Why",
    "model": "Model",
    "training": "Training",
    "heads": "Heads",
    "errors": "Errors",
    "learn": "Learn",
}
_BRING_INTO_VIEW = """
<script>
  // DRAW: at once, and again when the charts above it have been drawn.
  for (const wait of [0, 400, 1000]) setTimeout(() => document
    .querySelector('.st-key-KEY')?.scrollIntoView({block: 'nearest'}), wait);
</script>
"""
"""The number of the drawing makes the script another for each, so that it runs again."""
THE_HEAD_ALONE: dict[str, Any] = {"show": "head", "compare": False}
"""Choices with which Translate shows the map of the chosen head, of one checkpoint."""


class Asking(TypedDict, Generic[Option], total=False):
    """How all of these ask: what is chosen at first, how options are written, what follows."""

    default: Option | None
    format_func: Callable[[Option], str]
    on_change: Callable[[], None]
    help: str | None


def choose_one(
    label: str,
    options: Sequence[Option],
    *,
    key: str,
    show_label: bool = True,
    in_menu: bool = False,
    **asking: Unpack[Asking[Option]],
) -> Option:
    """Ask for one of some options by a row of buttons; ``key`` is its field of the view.

    Without ``show_label`` only screen readers read the label: the options speak for themselves.
    ``in_menu`` is as for ``control``.
    """
    chosen: Option = st.segmented_control(
        label,
        options,
        required=True,
        wrap=True,  # beside others they would be scrolled sideways
        label_visibility="visible" if show_label else "collapsed",
        **_bound(key, label, options, in_menu, **asking),
    )
    return chosen


def choose_from_list(
    label: str,
    options: Sequence[Option],
    *,
    key: str,
    name: str = "",
    width: int | Literal["stretch"] = "stretch",
    **asking: Unpack[Asking[Option]],
) -> Option:
    """Ask for one of many options by a list that opens; ``key`` is its field of the view.

    ``name`` is what a note calls it, where that is not the label.
    """
    bound = _bound(key, name or label, options, **asking)
    chosen: Option = st.selectbox(label, options, width=width, **bound)
    return chosen


def choose_on_slider(
    label: str,
    options: Sequence[Option],
    *,
    key: str,
    width: int | Literal["stretch"] = "stretch",
    **asking: Unpack[Asking[Option]],
) -> Option:
    """Ask for one of some options by a slider; ``key`` is its field of the view."""
    bound = _bound(key, label, options, **asking)
    # Streamlit takes an option that is offered no more for the value given here. A browser sends
    # one that has yet to be told of a change, as of another run.
    bound["value"] = st.session_state[bound["key"]]
    chosen: Option = st.select_slider(label, options, width=width, **bound)
    return chosen


def _bound(
    key: str,
    name: str,
    options: Sequence[Option],
    in_menu: bool = False,
    *,
    default: Option | None = None,
    format_func: Callable[[Option], str] = str,
    on_change: Callable[[], None] = lambda: None,
    help: str | None = None,
) -> dict[str, Any]:
    """Bind a widget to a choice among some options; return the arguments that it is given."""
    bound = control(
        key,
        name,
        default=default,
        usable=options.__contains__,
        written=format_func,
        in_menu=in_menu,
        on_change=on_change,
    )
    return bound | {"format_func": format_func, "help": help}


def show_figure(
    figure: Any,
    *,
    key: str,
    alt: str,
    name: str = "",
    on_select: Callable[[], None] | None = None,
    **of_map: Any,
) -> None:
    """Draw a figure in a container ``<key>-box``, with its own width or that of the page.

    A figure that was made for a width, in its ``meta``, fills the page only up to a little more, so
    that its cells stay about as wide as they are high. One whose ``meta`` has ``readable`` is
    scrolled sideways in fewer pixels, and on a phone in fewer than ``touched``.

    ``alt`` says what it shows, for those who cannot see it. ``name`` is the name of its file when
    it is saved, after run and step; the key if empty. ``on_select`` is called after a click on a
    mark. What else ``heat_map`` takes is for a figure of heat maps.
    """
    width, layout = printed_width(int(view().printed)), figure.layout
    saved: dict[str, Any] = {
        "filename": f"{st.session_state.get('files', key)}-{name or key}",
        "width": min(width, layout.width or width),
        "height": layout.height,
    }
    meta, own = layout.meta or {}, layout.width
    fit, made_for = meta.get("fit"), meta.get("width")
    if fit:
        own, made_for = None, own or made_for
    most = own or (round(_MOST_STRETCHED * made_for) if made_for and not fit else None)
    layout.update(template=None, meta=own or made_for, width=None)
    across = f"min(100%, {most}px)" if most else "100%"
    style = _fitted(key, layout.margin, **fit) if fit else _scrolled(key, meta)
    style += f" .st-key-{key}-box {{ --wide: {across}; --high: {layout.height}px; }}"
    with st.container(key=f"{key}-box"):
        st.html(f"<style>{style}</style>")
        if figure.data[0].type == "heatmap":
            given = {"label": alt, "picture": saved, "theme": current_theme(), **of_map}
            heat_map(figure, key=key, on_click=on_select, **given)
            return
        # Streamlit gives Plotly each chart again, with its width and with what clicks need, and
        # Plotly draws it twice unless nothing is changed by that. A template, another object as
        # `meta`, and arrays without a `datarevision` count as changed.
        layout.update(datarevision=0)
        if on_select:
            layout.update(clickmode="event+select", hovermode="closest", dragmode="pan")
        frames = take_frames(figure)
        st.plotly_chart(
            figure,
            theme=None,
            config={
                "displaylogo": False,
                "modeBarButtons": [["toImage"]],
                "toImageButtonOptions": saved | {"format": view().pictures},
            },
            key=key,
            width=most or "stretch",
            on_select=on_select or "ignore",
            selection_mode="points",
            alt=alt,
        )
        if frames:
            placed = "position:relative;width:var(--wide);height:var(--high)"
            st.html(f'<div style="{placed}">{frames}</div>')


def _scrolled(key: str, meta: Mapping[str, Any]) -> str:
    """Return the style by which a figure is scrolled sideways where it could not be read."""
    if not (readable := meta.get("readable")):
        return ""
    touched, box = max(readable, meta.get("touched", 0)), f".st-key-{key}-box"
    return (
        f"{box} {{ overflow-x: auto; }} {box} > .st-key-{key} {{ min-width: {readable}px; }} "
        f"@media (max-width: 640px) {{ {box} > .st-key-{key} {{ min-width: {touched}px; }} }}"
    )


def _fitted(key: str, margin: Any, *, columns: int, rows: float, least: float, most: float) -> str:
    """Return the style by which square cells are as large as the width of a figure's place allows.

    So does what is seen of the page, whose upper part has the height ``--above``.
    """
    beside, over = margin.l + margin.r, margin.t + margin.b
    fits = f"min((100cqi - {beside}px) / {columns}, (100svh - var(--above) - {over}px) / {rows:g})"
    cell = f"clamp({least:g}px, round(down, {fits}, .5px), {most:g}px)"
    return (
        f".st-key-{key}-box {{ container-type: inline-size; overflow-x: auto; }} "
        f".st-key-{key}-box > .st-key-{key} {{ --cell: {cell}; "
        f"--wide: calc({beside}px + {columns} * var(--cell)); "
        f"--high: round(calc({over}px + {rows:g} * var(--cell)), 1px); }}"
    )


def clicked_value(key: str) -> str | None:
    """Return the customdata of the mark that was clicked in a figure; None without such a mark.

    Call this in the ``on_select`` of ``show_figure``. (A click on what was clicked last selects
    nothing in a chart of Plotly's, which takes its selection back.)
    """
    if (sent := sent_value(key, "clicked")) is not None:
        return str(sent)
    last: dict[str, str | None] = st.session_state.setdefault("clicked", {})
    chosen = st.session_state.get(key)  # none of a figure that is gone meanwhile
    if chosen and chosen.selection.points:
        last[key] = chosen.selection.points[0].get("customdata")
    return last.get(key) if chosen else None


def show_heading(title: str, note: str | None = None) -> None:
    """Write the heading of a part of a page, with a note behind a sign."""
    st.markdown(f"## {title}", help=note)


def open_page(page: PageName, **choices: Any) -> None:
    """Open a page from the callback of a click, after changing the view."""
    change_view(**choices)
    st.session_state["opening"] = page
    st.rerun()


def use_step(step: int, steps: Sequence[int], **choices: object) -> None:
    """Take a checkpoint that was clicked, with other choices, if it is still there."""
    if step in steps:
        change_view(WHOLE_PAGE, step=step, **choices)
    else:
        st.toast(f"There are no weights of step {step:,} any more.")


def bring_into_view(key: str) -> None:
    """Have a container scrolled to, from the callback of a click that changes what is in it."""
    st.session_state["to_bring"] = key


def bring_if_asked(key: str) -> None:
    """Scroll to a container, once, if that was asked for; call this when it was drawn."""
    if st.session_state.pop("to_bring", "") == key:
        script = _BRING_INTO_VIEW.replace("KEY", key).replace("DRAW", str(session().draw))
        st.html(script, unsafe_allow_javascript=True)


def page_to_open() -> PageName | None:
    """Return, once, the page that ``open_page`` has named, if any."""
    page: PageName | None = st.session_state.pop("opening", None)
    return page


def show_link(label: str, page: PageName, *, key: str, **choices: Any) -> None:
    """Draw words that open a page, after changing the view, when they are clicked."""
    st.button(
        label,
        key=key,
        type="tertiary",
        icon=":material/arrow_forward:",
        on_click=lambda: open_page(page, **choices),
    )
