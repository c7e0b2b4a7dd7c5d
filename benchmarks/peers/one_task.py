"""One task by one tool in a process of its own: seconds of its processor, memory and the result.

It needs nothing of Headwise, so that a tool may be installed in an environment without it.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def main(tool: str, task: str, folder: str, source: str, target: str, rounds: str) -> None:
    """Load a model, do the task once and so many times more, and print what that took as JSON."""
    began = time.process_time()
    module = importlib.import_module(f"benchmarks.peers.{tool}")
    opened = module.load(Path(folder))
    loading, loaded, seconds = time.process_time() - began, _resident("VmRSS"), []
    result = getattr(module, task)(opened, source, target)
    for _ in range(int(rounds)):
        began = time.process_time()
        getattr(module, task)(opened, source, target)
        seconds.append(time.process_time() - began)
    found = {
        "loading": loading,
        "loaded": loaded,
        "seconds": seconds,
        "most": _resident("VmHWM"),
        "result": _plain(result),
    }
    print(json.dumps(found))


def _resident(line: str) -> float:
    """MiB in memory now (VmRSS), or at most until now (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"{line}:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else float("nan")


def _plain(result: Any) -> Any:
    return result.tolist() if hasattr(result, "tolist") else result


if __name__ == "__main__":
    main(*sys.argv[1:])
