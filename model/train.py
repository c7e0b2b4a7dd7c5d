"""Train a transformer: python -m model.train --help.

``torchrun … -m model.train`` trains in several processes, which all get the same command. Only the
main process reads the data and writes the run.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from model.checkpoint import CheckpointError, steps_of
from model.files import only_writer
from model.training.data import DataError
from model.training.loop import DivergenceError, Training
from model.training.options import TrainArguments, parse
from model.training.preparation import Prepared, load_data, prepare
from model.training.processes import ALONE, LostProcessError, Processes, join_processes
from model.training.resume import latest_resume_step


def main(arguments: TrainArguments, processes: Processes = ALONE) -> None:
    """Train as the arguments say."""
    with ExitStack() as held:

        def begin() -> tuple[Prepared, bool]:
            """Prepare the run and its data; also return whether the training resumes."""
            if Path(arguments.run).name != arguments.run or arguments.run in ("", ".", ".."):
                raise ValueError(f"run: expected a plain folder name, got {arguments.run!r}")
            data, folder = load_data(arguments), arguments.checkpoints / arguments.run
            held.enter_context(only_writer(folder))
            begun = latest_resume_step(folder) is not None or bool(steps_of(folder))
            resume = arguments.resume and (folder / "run.json").exists()
            prepared = prepare(arguments, data, resume=resume)
            print(prepared.examples.report, file=sys.stderr)
            if not arguments.training.replace:  # only replacing needs the texts: they are not sent
                prepared = replace(prepared, examples=replace(prepared.examples, pairs=[]))
            return prepared, arguments.resume and begun

        prepared, resume = processes.share(begin)
        training = Training(
            prepared.run,
            train=prepared.examples,
            valid=prepared.valid,
            samples=prepared.samples,
            tensorboard=arguments.tensorboard,
            processes=processes,
        )
        try:
            for step in training(resume=resume):
                if processes.is_main:
                    print(f"milestone {step:,}: {prepared.run.metrics()[-1]}", file=sys.stderr)
        except KeyboardInterrupt:
            _end(
                processes, "\nstopped; the state is saved: go on with the same command and --resume"
            )


def _end(processes: Processes, message: str) -> NoReturn:
    """Exit with an error; only the main process prints the message."""
    sys.exit(message if processes.is_main else 1)


def program() -> None:
    """Train as the command line says."""
    processes = ALONE
    try:
        with join_processes() as processes:
            main(processes.share(lambda: parse(sys.argv[1:])), processes)
    except KeyboardInterrupt:
        _end(processes, "\nstopped before the training began")
    except (CheckpointError, DataError, DivergenceError, ValueError, OSError) as error:
        _end(processes, f"error: {error}")
    except LostProcessError as error:
        sys.exit(
            f"\nerror: {error}; what was saved last is intact: go on with the same command and "
            "--resume"
        )


if __name__ == "__main__":
    program()
