"""The app and its tools leave the cores to a training that runs beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TORCH_IS_IMPORTED = """
import os, runpy, sys

class Torch:
    def find_spec(self, name, *_):
        if name == "torch":
            print(os.environ["OMP_WAIT_POLICY"], flush=True)
            os._exit(0)

sys.meta_path.insert(0, Torch())
"""
STARTS = {
    "streamlit run viz_app/app.py": f"runpy.run_path({str(ROOT / 'viz_app' / 'app.py')!r})",
    "import viz_app": "import headwise.viz_app.trace.sentence",
} | {
    f"python -m headwise.viz_app{name}": f"runpy.run_module('viz_app{name}', run_name='__main__')"
    for name in ("", ".align", ".export", ".measure")
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_threads_sleep_while_they_wait_unless_told_otherwise(start: str, given: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run(
        [sys.executable, "-c", TORCH_IS_IMPORTED + STARTS[start]],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.stdout.strip() == (given or "PASSIVE")
