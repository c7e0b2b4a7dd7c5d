"""The view of this session: read it, change it, bind widgets to it, keep the address its text.

Every widget that chooses something is drawn with ``control``: it shows a choice of the view, and
when it is used it changes the view by ``change_view``, as all clicks do. So no widget has a memory
of its own, whether Streamlit forgets it on another page or not. ``Session`` says how widgets, view
and address speak with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from headwise.model.validation import LONGEST_TEXT, is_too_long
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.trace import shorten
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.state import (
    CHOICES,
    View,
    change,
    chosen,
    decode,
    encode,
    parameter_of,
    scope_rank,
    texts,
    with_choices,
)

MOST_BYTES_IN_ADDRESS = 6_000
"""Most bytes of the query of an address, in which a letter of Chinese takes nine. Proxies refuse
lines of more than 8,000 (nginx), or requests of more than ``tune.bufsize`` (HAProxy)."""
_LONGEST = 80
"""Most characters of a value that are quoted."""
_FORCED = {"target": "The forced translation", "fork": "The forced token"}
"""Choices that a person has typed, and is told of when another choice drops them."""


@dataclass(frozen=True)
class _Widget:
    """The widget of a choice as it was drawn last."""

    number: int
    """How often the choice had a new widget before."""
    page: str
    visit: int
    """Which visit of a page it was drawn in."""
    panel: str
    """The panel that drew it; "" for the page itself."""
    draw: int
    """Which drawing of the page, or of the panel alone, it was drawn in."""
    values: list[Any]
    labels: list[str]
    is_gone: bool = False
    """Whether its page or panel was drawn without it since."""

    def key(self, name: str) -> str:
        """Return its key: spaces make it another key, but not another class for styles."""
        return name + " " * self.number


@dataclass
class Session:
    """What a session has chosen, and what its widgets and its address have yet to be told.

    A run of the script begins with ``read_address``; it draws widgets with ``control``, each of
    which notes itself in ``widgets``; it ends with ``note_unread`` and ``write_address``. A widget
    that is used calls back before the next run and is noted in ``used``; that run, or the panel
    that is drawn again, changes the view by it before anything is drawn (``apply_changes``).

    A browser sends what all widgets have whenever one is used. Of a widget that was set to
    something else meanwhile, and that the browser has not drawn yet (in a closed menu it never
    does), it sends the value from before, which is no choice of a person. So a widget that is set
    is a new one, with a key of its own: what a browser sends for the old one is not listened to.
    Nor is what it sends for one that is drawn no more.

    A run may be overtaken by the next one before it ends, and what it drew is then never seen. So
    the values of its widgets, noted in ``unseen``, are sent once more.
    """

    page: str
    """The page that is open, as the address has it."""
    visit: int = 0
    """How often another page was opened before."""
    turned: bool = False
    """Whether the page was opened and its address has yet to be read."""
    view: View = field(default_factory=View)
    changed: bool = False
    """Whether the view has changed since it was drawn."""
    used: list[tuple[str, Any, Callable[[], None]]] = field(default_factory=list)
    """The widgets that were used since: their choice, its value, and what is to be done then."""
    widgets: dict[str, _Widget] = field(default_factory=dict)
    """Choice → its widget as it was drawn last."""
    draw: int = 0
    """How often the page, or a panel alone, was drawn."""
    panel: str = ""
    """The panel that is being drawn; "" for the page itself."""
    unseen: set[str] = field(default_factory=set)
    """The choices whose widget was set in a run that has not come to its end."""
    whole: bool = False
    """Whether the whole page is being drawn, and not a part of it."""
    by_timer: bool = False
    """Whether a component had the page drawn without a person's doing."""
    redraw: bool = False
    """Whether the whole page must be drawn."""
    asked: dict[str, list[str]] = field(default_factory=dict)
    """Choice → what the address has for it that could not be read, until its widget was drawn."""
    notes: list[str] = field(default_factory=list)
    """What is to be said of the address."""
    dropped: list[str] = field(default_factory=list)
    """What is to be said of texts that were typed and are gone."""
    written: dict[str, list[str]] | None = None
    """The address as written last."""


def session() -> Session:
    here: Session = st.session_state["session"]
    return here


def view() -> View:
    """Return the view of this session."""
    return session().view


def current_page() -> str:
    """Return the name of the page that is open, as the address has it."""
    return session().page or "translate"


WHOLE_PAGE = "whole page"
"""Stands for all panels in ``change_view``."""


def change_view(*panels: str, **choices: Any) -> None:
    """Change the view, from the callback of a widget or a click.

    Panels, by their keys, are drawn again in place of the panel of the widget; ``WHOLE_PAGE``
    stands for all. While a lesson is on, the whole page is: its panel says what is seen.
    """
    here, before = session(), view()
    here.view, here.changed = change(before, **choices), True
    for name, what in _FORCED.items():
        typed = chosen(before, name)
        if typed.strip() and name not in choices and not chosen(here.view, name):
            here.dropped.append(f"{what} “{_short(typed)}” was dropped: it was for another choice.")
    if before.lesson_answer is not None and here.view.lesson_answer is None:
        here.redraw = not here.whole  # the lesson's panel says what was answered
    if WHOLE_PAGE in panels:
        redraw_all()
    elif panels:
        st.rerun("app" if here.view.lesson is not None else panels)


def fill_in(**shown: Any) -> None:
    """Put into the view what is shown where it left the choice to the page.

    Unlike ``change_view`` it resets nothing: nobody has chosen.
    """
    session().view = with_choices(view(), **shown)


def redraw_all() -> None:
    """Draw the whole page again, from the callback of a widget on which other panels depend.

    (Naming panels there is not safe: when labels of options change, Streamlit may call back at the
    next use of another widget, and the panels would then be drawn instead of what that changes.)
    """
    session().redraw = True


def apply_changes() -> bool:
    """Change the view by the widgets that were used; return, once, whether to draw the whole page.

    Call this before a panel reads the view.
    """
    here, before = session(), view()
    # Where several parts of a page ask at the same moment, Streamlit draws only that of the first.
    several = len(here.used) + here.changed + here.by_timer > 1
    _change_by_widgets()
    in_lesson = view().lesson is not None and view() != before
    redraw, here.redraw = here.redraw, False
    return redraw or in_lesson or several


def control(
    name: str,
    label: str,
    *,
    default: Any = None,
    usable: Callable[[Any], bool] = lambda _: True,
    written: Callable[[Any], str] = str,
    most: int | None = None,
    optional: bool = False,
    in_menu: bool = False,
    on_change: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Bind the next widget to a choice of the view; return the arguments that the widget is given.

    A value that is not usable is dropped, as ``checked`` says.

    Args:
        name: the choice, with which the key of the widget begins.
        label: the name of the choice in a note.
        default: what is shown while the view leaves the choice to the page.
        usable: whether a value, or each of several, is one that the widget offers.
        written: writes a value for people to read.
        most: most values that the widget takes, of a choice of several; later ones are dropped.
        optional: whether a person can choose nothing.
        in_menu: whether the widget stands in a menu, where the browser draws it only when the menu
            is opened.
        on_change: called when the widget is used, after the view has changed.
    """
    shown = checked(name, label, default=default, usable=usable, written=written, most=most)
    known, key = _key_of(name, shown, usable, written)
    # A browser that draws a widget later, in a menu, only knows what was sent last.
    if not known or (in_menu and shown not in ("", False, None)):
        st.session_state[key] = shown
        session().unseen.add(name)
    return {"key": key, "on_change": _note_use, "args": (name, key, usable, optional, on_change)}


def control_part(name: str, shown: Any, *, on_change: Callable[[Any], None]) -> dict[str, Any]:
    """Bind the next widget to a part of a choice, such as the strength of one head.

    Args:
        name: the part, with which the key of the widget begins, such as choice and head.
        shown: what the widget shows.
        on_change: changes the view when the widget is used, given its value.

    Returns:
        The arguments that the widget is given.
    """
    known, key = _key_of(name, shown, lambda _: True, str)
    if not known:
        st.session_state[key] = shown
        session().unseen.add(name)

    def use() -> None:
        if _is_there(name, key):
            on_change(st.session_state[key])

    return {"key": key, "on_change": use}


def checked(
    name: str,
    label: str,
    *,
    default: Any = None,
    usable: Callable[[Any], bool] = lambda _: True,
    written: Callable[[Any], str] = str,
    most: int | None = None,
) -> Any:
    """Return what the view has for a choice, as widgets take it; arguments are as for ``control``.

    A value that is not usable goes back to the default; if it came with the address, a note above
    the page says so.
    """
    here, value = session(), chosen(view(), name)
    several = isinstance(value, tuple)
    given = list(dict.fromkeys(value)) if several else [value] * (value is not None)
    wanted = [each for each in given if usable(each)][:most]
    dropped = [each for each in given if each not in wanted]
    if dropped:
        value = tuple(wanted) if several else CHOICES[name].default
        fill_in(**{name: value})
    shown = default if value is None else value
    shown = list(shown) if isinstance(shown, tuple) else shown
    if name in here.asked:
        unreadable = here.asked.pop(name)
        if quoted := unreadable or [text for each in dropped for text in texts(each)]:
            here.notes.append(f"{_note(name, quoted)} {label}: {_used(shown, written)}.")
    return shown


def note_unread() -> None:
    """Note what of the address could not be read and belongs to no widget that was drawn.

    Call this when the page was drawn.
    """
    here = session()
    for name in [name for name, unreadable in here.asked.items() if unreadable]:
        here.notes.append(_note(name, here.asked.pop(name)))
    here.whole = False
    _mark_undrawn_gone(panel="")


@contextmanager
def drawing(panel: str) -> Iterator[None]:
    """Draw a panel in a ``with`` block, after which the widgets that it no longer has are gone."""
    here = session()
    outer, here.panel = here.panel, panel
    here.draw += not here.whole and not outer
    try:
        yield
    finally:
        here.panel = outer
    _mark_undrawn_gone(panel)


def _mark_undrawn_gone(panel: str) -> None:
    """Note that a panel, or the whole page, was drawn: what was not drawn with it is gone."""
    here = session()
    for name, each in here.widgets.items():
        if each.draw != here.draw and panel in ("", each.panel):
            here.widgets[name] = replace(each, is_gone=True)


def _is_there(name: str, key: str) -> bool:
    """Return whether a key is that of the widget of a choice which was drawn last."""
    drawn = session().widgets[name]
    return not drawn.is_gone and drawn.key(name) == key


def _key_of(
    name: str, shown: Any, usable: Callable[[Any], bool], written: Callable[[Any], str]
) -> tuple[bool, str]:
    """Return whether the browser knows the widget that shows a value, and the widget's key.

    A browser knows an option by its label: if that has changed, it would send one that no longer
    is, and the widget must be a new one, as if its value had been set. So it must be where another
    page was open meanwhile: the browser has forgotten it, and Streamlit may not have, if a run of
    that page was overtaken. On another page the key may be the same, since Streamlit keeps the
    widgets of pages apart.
    """
    here, state = session(), st.session_state
    values = shown if isinstance(shown, list) else [shown] * (shown is not None)
    before = here.widgets.get(name)
    stayed = before is not None and (before.page, before.visit) == (here.page, here.visit)
    same = (
        before is not None
        and not before.is_gone
        and (stayed or before.page != here.page)
        and before.key(name) in state
        and state[before.key(name)] == shown
        and all(map(usable, before.values))
        and before.labels == [written(value) for value in before.values]
    )
    number = 0 if before is None else before.number + (not same)
    labels = [written(value) for value in values]
    now = here.widgets[name] = _Widget(
        number, here.page, here.visit, here.panel, here.draw, values, labels
    )
    return same and stayed and name not in here.unseen, now.key(name)


def _note_use(
    name: str, key: str, usable: Callable[[Any], bool], optional: bool, then: Callable[[], None]
) -> None:
    """Note, in the callback of a widget, that it has changed.

    A widget that is gone, or another by now, and a value that is usable no more, are left out: the
    browser has yet to be told.
    So is a text that is too long: the widget that is drawn next is a new one, without it, and no
    browser sends it again, to this server or another.
    """
    if not _is_there(name, key):
        return
    value = st.session_state[key]
    values = value if isinstance(value, list) else [value]
    if refuse_long_texts(each for each in values if isinstance(each, str)):
        return
    if all(usable(each) if each is not None else optional for each in values):
        session().used.append((name, value, then))


def refuse_long_texts(entered: Iterable[str]) -> bool:
    """Return whether one of the texts that were entered is too long, and say so above the page."""
    too_long = [text for text in entered if is_too_long(text)]
    for text in too_long:
        session().notes.append(
            f"A text of {len(text):,} characters was entered; at most {LONGEST_TEXT:,} are read, "
            "and it was not taken. Enter a shorter one."
        )
    return bool(too_long)


def note_timer_rerun() -> None:
    """Note, in a component's callback, that it has its panel drawn without a person's doing."""
    session().by_timer = True


def _change_by_widgets() -> None:
    """Change the view by the widgets that were used since it was drawn.

    A busy server is told of several at once, in an order that says nothing. What was chosen of the
    sentence before, such as a forced target, must not outlive it: outer choices come last.
    """
    here = session()
    used, here.used, here.by_timer = here.used, [], False
    for name, value, then in sorted(used, key=lambda each: scope_rank(each[0])):
        change_view(**{name: tuple(value) if isinstance(value, list) else value})
        then()


def _note(name: str, quoted: Sequence[str]) -> str:
    asked = " and ".join(f"{parameter_of(name)}={_short(value)}" for value in quoted[:3])
    asked += f" and {len(quoted) - 3} more" if len(quoted) > 3 else ""
    return f"The address has {asked}, which cannot be used here."


def _used(shown: Any, written: Callable[[Any], str]) -> str:
    """Write what is used instead."""
    if isinstance(shown, bool):
        return "on" if shown else "off"
    values = shown if isinstance(shown, list) else [shown] * (shown not in (None, ""))
    return _short(", ".join(map(written, values))) or "nothing"


def _short(value: str) -> str:
    return shorten(make_visible(value[: _LONGEST + 1]), _LONGEST)


def enter(page: str) -> None:
    """Note which page is opened.

    Call this before anything is waited for: from here on the browser has forgotten the widgets of
    another page, even if this run is overtaken.
    """
    here: Session = st.session_state.setdefault("session", Session(page))
    if here.page != page:
        here.page, here.turned = page, True
        here.visit += 1


def read_address(page: str) -> None:
    """Read the view from the address, when the session begins or a person goes back in it.

    Call this before anything is drawn. (Streamlit empties the address when another page is opened
    by its link; the view stays, and is written there again.) At other times a browser that asks has
    the address of before, if it is told late of the one that was written.
    """
    enter(page)
    here = session()
    here.whole = True
    here.draw += 1
    _change_by_widgets()
    asked = {name: st.query_params.get_all(name) for name in st.query_params}
    turned, here.turned = here.turned, False
    given = here.written is None or (turned and asked) or _goes_back()
    if here.changed or not given or asked == here.written:
        return
    here.view, unreadable = decode(asked)
    here.asked = {name: unreadable.get(name, []) for name in CHOICES if parameter_of(name) in asked}
    here.changed = False


def _goes_back() -> bool:
    """Return whether a person went back or forward in the browser's history."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def address_of(shown: View, page: str = "") -> tuple[dict[str, list[str]], list[str]]:
    """Return the parameters of the address of a view, and the choices that are left out.

    These are left out because the address would have more than ``MOST_BYTES_IN_ADDRESS``: the
    longest first, each with what is a choice of it. ``page`` is as for ``encode``.
    """
    left_out: list[str] = []
    while True:
        written = encode(shown, page)
        sizes = {name: len(urlencode({name: texts}, doseq=True)) for name, texts in written.items()}
        if sum(sizes.values()) + len(sizes) <= MOST_BYTES_IN_ADDRESS:
            return written, left_out
        longest = max(sizes, key=sizes.__getitem__)
        name = next(name for name in CHOICES if parameter_of(name) == longest)
        shown = change(shown, **{name: CHOICES[name].default})
        left_out.append(name)


def write_address(*, drawn: bool = True) -> None:
    """Write the view into the address; show what of it could not be used, and what was dropped.

    Call this when the page or a panel was drawn, or before it is drawn again.
    """
    here = session()
    if not here.whole:
        here.unseen.clear()
    before, (here.written, _) = here.written, address_of(view())
    # A run that was overtaken by this one may have sent its address after the browser sent its own.
    overtaken = here.changed and before != here.written
    here.changed = False
    if overtaken or here.written != {
        name: st.query_params.get_all(name) for name in st.query_params
    }:
        st.query_params.from_dict(here.written)
    if here.notes:
        said = "\n".join(f"- {escape_markdown(note)}" for note in here.notes)
        st.session_state["notes_place"].warning(said)
        here.notes = []
    if drawn:
        for said in here.dropped:
            st.toast(escape_markdown(said))
        here.dropped = []
