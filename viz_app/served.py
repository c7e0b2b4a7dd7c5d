"""Which models the app serves; decided where it is started, never by what a visitor types.

These are the runs in one folder and, before them, models that were named at the start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.model.checkpoint import CHECKPOINTS, list_runs
from headwise.model.placement import Placement
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.lessons.reading import SHIPPED

MODELS = "HEADWISE_MODELS"  # models that were named: in each line name, tab, folder
FOLDER = "HEADWISE_CHECKPOINTS"  # the environment variable with the folder of runs
LESSONS = "HEADWISE_LESSONS"  # a folder of lessons beside those of the app
DEVICE = "HEADWISE_DEVICE"  # auto, cpu or cuda
DTYPE = "HEADWISE_DTYPE"  # of weights: float32, bfloat16 or float16

FIRST_RUN = "en-es"  # open at first, if no model was named and there is one


def runs_folder() -> Path:
    """Return the folder of runs: that of the environment, or the project's own."""
    return Path(os.environ.get(FOLDER) or CHECKPOINTS)


def lesson_folders() -> list[Path]:
    """Return the folders of lessons: the app's own and, if the environment names one, that."""
    own = os.environ.get(LESSONS)
    return [SHIPPED, Path(own)] if own else [SHIPPED]


def _named_models() -> dict[str, Path]:
    lines = filter(None, os.environ.get(MODELS, "").split("\n"))
    return {name: Path(folder) for name, folder in (line.split("\t") for line in lines)}


def served_models() -> dict[str, Path]:
    """Return the folders of all models of the app, by name; those named at the start come first."""
    named, root = _named_models(), runs_folder()
    return named | {name: root / name for name in list_runs(root) if name not in named}


def without_places(text: str) -> str:
    """Return a text that names folders without where on this machine they are, for visitors."""
    folders = [*served_models().values(), runs_folder(), *lesson_folders()]
    places = {form for folder in folders for form in (folder.absolute(), folder.resolve())}
    for place in sorted(places, key=lambda place: len(str(place)), reverse=True):
        text = text.replace(str(place), place.name)
    return text.replace(f"{Path.home()}{os.sep}", f"~{os.sep}")


def describe_served() -> str:
    """Name the models of the app, and where they are, in one line for the terminal."""
    models = [f"{name} ({folder})" for name, folder in _named_models().items()]
    return make_visible(", ".join([*models, f"the runs in {runs_folder()}"]))


def first_run(models: Mapping[str, Path]) -> int:
    """Return the index of the model that is open at first: one that was named, or ``FIRST_RUN``."""
    names = list(models)
    return 0 if _named_models() or FIRST_RUN not in names else names.index(FIRST_RUN)


def served_placement() -> Placement:
    """Return where the models of the app compute, and how precisely.

    ValueError if the environment names another device or type than there is.
    """
    given = {"device": os.environ.get(DEVICE), "dtype": os.environ.get(DTYPE)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
    return Placement(**chosen)


def serve(models: Mapping[str, Path], placement: Placement) -> None:
    """Set the models that this process, and those it starts, will serve: name → folder."""
    os.environ[DEVICE], os.environ[DTYPE] = placement.device, placement.dtype
    os.environ[MODELS] = "\n".join(f"{name}\t{folder}" for name, folder in models.items())
