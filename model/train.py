"""Train a transformer: python -m model.train --help."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from accelerate import PartialState

from model.checkpoint import CheckpointError, steps_of
from model.data import DataError
from model.files import only_writer
from model.options import Arguments, parse
from model.preparation import load_data, prepare
from model.resume import latest_resume_step
from model.training import DivergenceError, Training


def main(arguments: Arguments) -> None:
    """Train as the arguments say."""
    if Path(arguments.run).name != arguments.run or arguments.run in ("", ".", ".."):
        raise ValueError(f"run: expected a plain folder name, got {arguments.run!r}")
    data = load_data(arguments)
    folder, process = arguments.checkpoints / arguments.run, PartialState()
    with only_writer(folder) if process.is_main_process else nullcontext():
        with process.main_process_first():  # it makes the run; others only open it
            there = (folder / "run.json").exists()
            begun = latest_resume_step(folder) is not None or bool(steps_of(folder))
            old = there and (arguments.resume or not process.is_main_process)
            prepared = prepare(arguments, data, resume=old)
        print(prepared.examples.report, file=sys.stderr)
        training = Training(
            prepared.run,
            train=prepared.examples,
            valid=prepared.valid,
            samples=prepared.samples,
            tensorboard=arguments.tensorboard,
        )
        try:
            for step in training(resume=arguments.resume and begun):
                print(f"milestone {step:,}: {prepared.run.metrics()[-1]}", file=sys.stderr)
        except KeyboardInterrupt:
            sys.exit("\nstopped; the state is saved: go on with the same command and --resume")


if __name__ == "__main__":
    try:
        main(parse(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\nstopped before the training began")
    except (CheckpointError, DataError, DivergenceError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
