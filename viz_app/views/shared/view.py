"""The view of this session: read it, change it, bind widgets to it, keep the address its text.

Every widget that chooses something is drawn with ``control``: it shows a field of the view, and
when it is used it changes the view by ``change_view``, as all clicks do. So no widget has a memory
of its own, whether Streamlit forgets it on another page or not.

A browser sends what all widgets have whenever one is used. Of a widget that was set to something
else meanwhile, and that the browser has not drawn yet (in a closed menu it never does), it sends
the value from before, which is no choice of a person. So a widget that is set is a new one, with a
key of its own: what a browser sends for the old one is not listened to.

Beside the view, the state of the session has what these functions need of each other: ``changed``,
whether the view has changed since it was drawn; ``used``, the widgets that were used since;
``widgets``, what of each field's widget was drawn last; ``unprompted``, whether a component had the
page drawn without a person's doing; ``asked`` and ``notes``, what of the address was not read yet,
and what is said of it; ``redraw``, whether the whole page must be drawn; ``written``, the address
as written last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from viz_app.analysis.labels import make_visible
from viz_app.views.shared.markdown import escape_markdown
from viz_app.views.state import DEFAULTS, View, change, decode, encode, parameter_of, texts

LONGEST_TEXT_IN_ADDRESS = 1_500
"""Most characters of a sentence that the address keeps; a longer one is left out."""
_LONGEST = 80
"""Most characters of a value that are quoted."""


def view() -> View:
    """Return the view of this session."""
    shown: View = st.session_state["view"]
    return shown


def current_page() -> str:
    """Return the name of the page that is open, as the address has it."""
    return st.session_state["page"] or "translate"


def change_view(*panels: str, **choices: Any) -> None:
    """Change the view, from the callback of a widget or a click.

    While a lesson is on, the whole page is drawn again: its panel says what is seen.

    Args:
        panels: panels to draw again in place of the panel of the widget, by their keys.
        choices: fields of the view and their values.
    """
    st.session_state["view"] = change(view(), **choices)
    st.session_state["changed"] = True
    if panels:
        st.rerun("app" if view().lesson is not None else panels)


def fix(**shown: Any) -> None:
    """Put into the view what is shown where it left the choice to the page.

    Unlike ``change_view`` it resets nothing: nobody has chosen.
    """
    st.session_state["view"] = dataclasses.replace(view(), **shown)


def redraw_all() -> None:
    """Draw the whole page again, from the callback of a widget on which other panels depend.

    (Naming panels there is not safe: when labels of options change, Streamlit may call back at the
    next use of another widget, and the panels would then be drawn instead of what that changes.)
    """
    st.session_state["redraw"] = True


def apply_changes() -> bool:
    """Change the view by the widgets that were used; return, once, whether to draw the whole page.

    Call this before a panel reads the view.
    """
    state, before = st.session_state, view()
    # Where several parts of a page ask at the same moment, Streamlit draws only that of the first.
    several = len(state["used"]) + state["changed"] + state["unprompted"] > 1
    _change_by_widgets()
    in_lesson = view().lesson is not None and view() != before
    return bool(state.pop("redraw", False)) or in_lesson or several


def control(
    field: str,
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
    """Bind the next widget to a field of the view; return the arguments that the widget is given.

    A value that is not usable is dropped, as ``checked`` says.

    Args:
        field: the field, with which the key of the widget begins.
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
    shown = checked(field, label, default=default, usable=usable, written=written, most=most)
    known, key = _key_of(field, shown, usable, written)
    # A browser that draws a widget later, in a menu, only knows what was sent last.
    if not known or (in_menu and shown not in ("", False, None)):
        st.session_state[key] = shown
    return {"key": key, "on_change": _take, "args": (field, key, usable, optional, on_change)}


def checked(
    field: str,
    label: str,
    *,
    default: Any = None,
    usable: Callable[[Any], bool] = lambda _: True,
    written: Callable[[Any], str] = str,
    most: int | None = None,
) -> Any:
    """Return what the view has for a field, as widgets take it; the arguments are as for `control`.

    A value that is not usable goes back to the default; if it came with the address, a note above
    the page says so.
    """
    state, chosen = st.session_state, getattr(view(), field)
    several = isinstance(chosen, tuple)
    given = list(dict.fromkeys(chosen)) if several else [chosen] * (chosen is not None)
    wanted = [value for value in given if usable(value)][:most]
    dropped = [value for value in given if value not in wanted]
    if dropped:
        kept = tuple(wanted) if several else DEFAULTS[field]
        fix(**{field: kept})
        chosen = kept
    shown = default if chosen is None else chosen
    shown = list(shown) if isinstance(shown, tuple) else shown
    if field in state["asked"]:
        unreadable = state["asked"].pop(field)
        if quoted := unreadable or [text for value in dropped for text in texts(value)]:
            state["notes"].append(f"{_note(field, quoted)} {label}: {_used(shown, written)}.")
    return shown


def values_shown(field: str) -> list[Any]:
    """Return what the widget of a field shows, as it was drawn last; of a single choice, too."""
    drawn: _Widget | None = st.session_state["widgets"].get(field)
    return [] if drawn is None else drawn.values


def note_unread() -> None:
    """Note what of the address could not be read and belongs to no widget that was drawn.

    Call this when the page was drawn.
    """
    state = st.session_state
    for field in [field for field, unreadable in state["asked"].items() if unreadable]:
        state["notes"].append(_note(field, state["asked"].pop(field)))


@dataclasses.dataclass(frozen=True)
class _Widget:
    """The widget of a field as it was drawn last."""

    number: int
    """How often the field had a new widget before."""
    page: str
    values: list[Any]
    labels: list[str]

    def key(self, field: str) -> str:
        """Return its key: spaces make it another key, but not another class for styles."""
        return field + " " * self.number


def _key_of(
    field: str, shown: Any, usable: Callable[[Any], bool], written: Callable[[Any], str]
) -> tuple[bool, str]:
    """Return whether the browser knows the widget that shows a value, and the widget's key.

    A browser knows an option by its label: if that has changed, it would send one that no longer
    is, and the widget must be a new one, as if its value had been set. On another page the key may
    be the same, since Streamlit keeps the widgets of pages apart.
    """
    state = st.session_state
    values = shown if isinstance(shown, list) else [shown] * (shown is not None)
    before: _Widget | None = state["widgets"].get(field)
    same = (
        before is not None
        and before.key(field) in state
        and state[before.key(field)] == shown
        and all(map(usable, before.values))
        and before.labels == [written(value) for value in before.values]
    )
    number = 0 if before is None else before.number + (not same)
    now = _Widget(number, state["page"], values, [written(value) for value in values])
    state["widgets"][field] = now
    return same and before is not None and before.page == now.page, now.key(field)


def _take(
    field: str, key: str, usable: Callable[[Any], bool], optional: bool, then: Callable[[], None]
) -> None:
    """Note, in the callback of a widget, that it has changed.

    An old widget, and a value that is usable no more, are left out: the browser has yet to be told.
    """
    if st.session_state["widgets"][field].key(field) != key:
        return
    chosen = st.session_state[key]
    values = chosen if isinstance(chosen, list) else [chosen]
    if all(usable(value) if value is not None else optional for value in values):
        st.session_state["used"].append((field, chosen, then))


def note_unprompted() -> None:
    """Note, in a component's callback, that it has its panel drawn without a person's doing."""
    st.session_state["unprompted"] = True


def _change_by_widgets() -> None:
    """Change the view by the widgets that were used since it was drawn."""
    state = st.session_state
    used, state["used"], state["unprompted"] = state["used"], [], False
    for field, chosen, then in used:
        change_view(**{field: tuple(chosen) if isinstance(chosen, list) else chosen})
        then()


def _note(field: str, quoted: Sequence[str]) -> str:
    name = parameter_of(field)
    asked = " and ".join(f"{name}={_short(value)}" for value in quoted[:3])
    asked += f" and {len(quoted) - 3} more" if len(quoted) > 3 else ""
    return f"The address has {asked}, which cannot be used here."


def _used(shown: Any, written: Callable[[Any], str]) -> str:
    """Write what is used instead."""
    if isinstance(shown, bool):
        return "on" if shown else "off"
    values = shown if isinstance(shown, list) else [shown] * (shown not in (None, ""))
    return _short(", ".join(map(written, values))) or "nothing"


def _short(value: str) -> str:
    value = make_visible(value[: _LONGEST + 1])
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def read_address(page: str) -> None:
    """Read the view from the address, when the session begins or a person goes back in it.

    Call this before anything is drawn. (Streamlit empties the address when another page is opened
    by its link; the view stays, and is written there again.)
    """
    state = st.session_state
    state.setdefault("notes", [])
    state.setdefault("widgets", {})
    state.setdefault("changed", False)
    state.setdefault("used", [])
    state.setdefault("unprompted", False)
    _change_by_widgets()
    asked = {name: st.query_params.get_all(name) for name in st.query_params}
    turned = state.get("page", page) != page
    state["page"] = page
    known = "view" in state and (state["changed"] or asked == state["written"])
    if known or (turned and not asked):
        return
    state["view"], unreadable = decode(asked)
    state["asked"] = {
        field: unreadable.get(field, []) for field in DEFAULTS if parameter_of(field) in asked
    }
    state["changed"] = False


def write_address() -> None:
    """Write the view into the address, and show what of the address could not be used.

    Call this when the page or a panel was drawn.
    """
    state, shown = st.session_state, view()
    if len(shown.sentence or "") > LONGEST_TEXT_IN_ADDRESS:
        shown = dataclasses.replace(shown, sentence=None)
    before, state["written"] = state.get("written"), encode(shown)
    # A run that was overtaken by this one may have sent its address after the browser sent its own.
    overtaken = state["changed"] and before != state["written"]
    state["changed"] = False
    here = {name: st.query_params.get_all(name) for name in st.query_params}
    if overtaken or here != state["written"]:
        st.query_params.from_dict(state["written"])
    if notes := state["notes"]:
        state["notes_place"].warning("\n".join(f"- {escape_markdown(note)}" for note in notes))
        state["notes"] = []
