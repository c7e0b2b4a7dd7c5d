"""Train a transformer: python -m headwise.model.train --help.

``torchrun … -m headwise.model.train`` trains in several processes, which all get the same command.
Only the main process reads the data and writes the run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from headwise.model.checkpoint import CheckpointError, refuse_existing_run, steps_of
from headwise.model.files import only_writer
from headwise.model.training.data import DataError
from headwise.model.training.loop import DivergenceError, Training
from headwise.model.training.options import TrainArguments, parse
from headwise.model.training.preparation import Prepared, load_data, prepare
from headwise.model.training.processes import ALONE, LostProcessError, Processes, join_processes
from headwise.model.training.resume import latest_resume_step


def main(arguments: TrainArguments, processes: Processes = ALONE) -> None:
    with ExitStack() as held:

        def begin() -> tuple[Prepared, bool]:
            """Prepare the run and its data; also return whether the training resumes."""
            if Path(arguments.run).name != arguments.run or arguments.run in ("", ".", ".."):
                raise ValueError(f"--run: expected a plain folder name, got {arguments.run!r}")
            if arguments.tensorboard and find_spec("tensorboard") is None:
                raise ValueError(
                    "--tensorboard: TensorBoard is not installed; in the project's folder: "
                    'pip install -e ".[tensorboard]"'
                )
            folder = arguments.checkpoints / arguments.run
            held.enter_context(only_writer(folder))  # what cannot be written is not read for
            if not arguments.resume:
                refuse_existing_run(folder)
            data = load_data(arguments)
            begun = latest_resume_step(folder) is not None or bool(steps_of(folder))
            resume = arguments.resume and (folder / "run.json").exists()
            prepared = prepare(arguments, data, resume=resume)
            print(*prepared.notes, sep="\n", file=sys.stderr)
            if not arguments.training.changes_texts:  # nothing else needs the texts
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
            for _ in training(resume=resume):
                if processes.is_main:
                    tqdm.write(describe_milestone(prepared.run.metrics()[-1]), file=sys.stderr)
        except KeyboardInterrupt:
            _end(
                processes, "\nstopped; the state is saved: go on with the same command and --resume"
            )


def describe_milestone(row: Mapping[str, float]) -> str:
    """Say in words what was measured at a milestone."""
    return (
        f"milestone {row['step']:,}: valid loss {row['valid_loss']:.3f}, train sample loss "
        f"{row['train_sample_loss']:.3f}, BLEU {row['bleu']:.1f}, chrF {row['chrf']:.1f}, exact "
        f"{row['exact']:.1%}"
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
