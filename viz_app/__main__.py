"""Start the app: python -m headwise.viz_app [MODEL …], or the command headwise."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from headwise.model.decoding.translation import translate
from headwise.model.files import CheckpointError, NoCheckpointYetError
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import find_folder, load_checkpoint, open_folder, open_run
from headwise.viz_app import served


@dataclass(frozen=True)
class AppArguments:
    """Open models in the app: their attention, head by head, in a browser.

    Example: headwise my-output-folder
    Without a model, the runs that come with Headwise are shown.
    """

    models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[MODEL ...]")
    ] = ()
    """Folders of runs, of Hugging Face models or of their trainings (checkpoint-500, …), or names
    on the Hugging Face hub."""
    checkpoints: Path | None = None
    """Folder of runs that are shown too; by default those that come with Headwise."""
    lessons: Path | None = None
    """Folder of lessons that are offered beside those of the app; docs/a-lesson.md describes
    them."""
    placement: Annotated[Placement, tyro.conf.arg(name="")] = DEFAULT_PLACEMENT
    """Where models compute, and how precisely."""
    port: int = 8501
    """Port on this machine."""
    ready: bool = False
    """Translate a sentence before the port is opened, and end with an error if that is not
    possible: for replicas behind a proxy, which take an open port for a sign that pages work."""


def main() -> None:
    """Check the models and start Streamlit on the app."""
    try:
        arguments = tyro.cli(AppArguments, prog="headwise")
        if arguments.checkpoints is not None:
            os.environ[served.FOLDER] = str(arguments.checkpoints.resolve())
        if arguments.lessons is not None:
            if not arguments.lessons.is_dir():
                raise ValueError(f"{arguments.lessons} is no folder; name one with lessons, *.md")
            os.environ[served.LESSONS] = str(arguments.lessons.resolve())
        served.serve(_folders(arguments.models), arguments.placement)
        if arguments.ready:
            _translate_once()
    except (CheckpointError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    app = Path(__file__).with_name("app.py")
    sys.argv = ["streamlit", "run", str(app), "--server.port", str(arguments.port)]
    runpy.run_module("streamlit", run_name="__main__")


def _translate_once() -> None:
    """Translate with the model that is open at first; CheckpointError if there is none to use."""
    models = served.served_models()
    if not models:
        raise CheckpointError(
            f"there is no run in {served.runs_folder()}; mount a folder of runs there"
        )
    name = list(models)[served.first_run(models)]
    run = open_folder(models[name], name)
    checkpoint = load_checkpoint(run, run.steps()[-1], served.served_placement())
    translate(checkpoint.model, run.tokenizers, ["1"])


def _folders(models: Sequence[str]) -> dict[str, Path]:
    """Name each model by the end of its path, or by more of it where two ends are equal.

    CheckpointError if a model is missing or cannot be opened; a training may have no checkpoint
    yet.
    """
    found: dict[str, Path] = {}
    for model in dict.fromkeys(models):
        folder = find_folder(model, root=served.runs_folder())
        if folder is None:
            folder = open_run(
                model, root=served.runs_folder()
            ).folder  # raises, saying what there is
        try:
            run = open_folder(folder, model)
            run.steps()
            for remark in run.remarks:
                tqdm.write(remark)
            _ = run.tokenizers  # loaded now, so that what is missing is said before the app starts
        except NoCheckpointYetError as waiting:
            tqdm.write(f"{waiting}. The app shows its first checkpoint when it is complete.")
        parts = Path(model).parts if Path(model).name else folder.parts
        names = ("/".join(parts[-count:]) for count in range(1, len(parts) + 1))
        found[next((name for name in names if name not in found), model)] = folder
    return found


if __name__ == "__main__":
    main()
