"""Has the browser load Plotly before there is a chart: it takes as long as Python takes to start.

This imports Streamlit alone, so that it can run before PyTorch is imported.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_SCRIPTS = Path(st.__file__).parent / "static/static/js"
_LOAD = "<script>import('./static/js/{name}')</script>"


def load_plotly() -> None:
    """Have the browser load Plotly now.

    Otherwise Streamlit has it loaded with the first chart. Its file is named after its contents;
    where none is found, nothing is done.
    """
    with st.container(key="plotly-script"):
        for script in _SCRIPTS.glob("PlotlyChart.*.js"):
            st.html(_LOAD.format(name=script.name), unsafe_allow_javascript=True)
