"""Hostile and unusual texts, from which ``test_texts.py`` draws."""

from __future__ import annotations

from hypothesis import strategies as st

MARKUP = (
    '<img src=x onerror="window.__hacked = 1">',
    "<script>window.__hacked = 1</script>",
    "</script><b>bold</b>",
    '<a href="javascript:window.__hacked=1">a</a>',
    "<br>",
    "<extra></extra>",
    "&lt;b&gt; &amp; &#36;",
    "%{z} %{x} %{customdata[0]}",
    "{{TITLE}} {{DATA}} {0} {name}",
    "$x^2$ $$\\frac12$$ \\(x\\)",
    "**a** _b_ `c` [d](e) ![f](g) # 1. > | ~~h~~",
    ":material/search: :red[i] :smile: -> <- -- >=",
    "https://h.example",
    "www.w.example/a?b=c",
    "a.b@m.example",
    ":material_home:",
    "\n\n    code",
    "' \" \\ ` \\u0041 \\x41",
)
"""Markup of each language that the app or its libraries interpret."""
UNSEEN = (
    "\x00\x01\x1b\x7f\x85",
    "\u202eabc\u202c \u2066d\u2069 \u200f",
    "\u200b\u2060\ufeff\u00ad",
    "\u2028\u2029\x0b\x0c\x1c",
    "\u00a0\u3000\u2003",
    "\U000e0041\ufe0f\u034f\u115f\u2800\u3164",
)
"""Characters that draw nothing, or change the direction of others."""
WRITING = (
    "👩‍👩‍👧 🏴󠁧󠁢󠁳󠁣󠁴󠁿 👍🏽 ☠️ 😀",
    "שלום עולם مرحبا بالعالم",
    "e\u0301 n\u0303 a\u0323\u0308 \u0301 Z\u0351\u036b\u0343",
    "ﬁ Ǆ İstanbul ẞ ς 한글 ㅎㅏㄴ 中文 𝒳 𐍈",
    "Don't worry, it's only the cat. ¿Dónde está el perro viejo?",
)

_ANY = st.characters(codec=None, exclude_categories=())
"""Any character, lone surrogates too."""
_ODD = st.characters(codec=None, categories=("Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Zs", "Zl", "Zp"))
_MARKS = st.sampled_from("<>&%{}$\\`*_~|[]()#!:;'\"/=-+.,?0aA ")
_FRAGMENTS = st.sampled_from((*MARKUP, *UNSEEN, *WRITING, "\ud800", "\udfff", "</s>", "<0x41>"))


def _long(part: str, size: int) -> str:
    return (part * (size // len(part) + 1))[:size]


TEXTS = st.one_of(
    st.text(_ANY, max_size=12),
    st.text(_ODD, max_size=8),
    st.text(_MARKS, max_size=20),
    st.lists(_FRAGMENTS, min_size=1, max_size=3).map(" ".join),
    st.lists(st.one_of(_FRAGMENTS, st.text(_ANY, max_size=4)), max_size=5).map("".join),
    st.builds(_long, _FRAGMENTS, st.sampled_from((100, 10_000))),
)
"""Texts of any characters and length, valid Unicode or not."""
