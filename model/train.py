"""Train a transformer: python -m model.train --help.

``torchrun … -m model.train`` does it in several processes. All are given the same command; the main
one alone reads the data and writes the run.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from model.checkpoint import CheckpointError, steps_of
from model.data import DataError
from model.files import only_writer
from model.options import Arguments, parse
from model.preparation import Prepared, load_data, prepare
from model.processes import ALONE, LostProcessError, Processes, joined
from model.resume import latest_resume_step
from model.training import DivergenceError, Training


def main(arguments: Arguments, processes: Processes = ALONE) -> None:
    """Train as the arguments say."""
    with ExitStack() as held:

        def begin() -> tuple[Prepared, bool]:
            """The run and its data; whether it goes on from a state."""
            if Path(arguments.run).name != arguments.run or arguments.run in ("", ".", ".."):
                raise ValueError(f"run: expected a plain folder name, got {arguments.run!r}")
            data, folder = load_data(arguments), arguments.checkpoints / arguments.run
            held.enter_context(only_writer(folder))
            begun = latest_resume_step(folder) is not None or bool(steps_of(folder))
            resume = arguments.resume and (folder / "run.json").exists()
            prepared = prepare(arguments, data, resume=resume)
            print(prepared.examples.report, file=sys.stderr)
            # From here on it is the pieces that count: the texts need not be sent.
            examples = replace(prepared.examples, pairs=[])
            return replace(prepared, examples=examples), arguments.resume and begun

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
    """End as failed; the main process alone says why."""
    sys.exit(message if processes.is_main else 1)


def program() -> None:
    """Train as the command line says."""
    processes = ALONE
    try:
        with joined() as processes:
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
