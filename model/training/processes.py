"""Run one program as several processes, started by torchrun: gloo on CPUs, NCCL on GPUs.

Only the main process reads and writes files and prints; it sends the others what they need.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

T = TypeVar("T")

_WAIT_TIMEOUT = timedelta(days=1)
"""Timeout of waiting for work that only the main process does, such as measuring a milestone. A
process that ends is noticed at once; the timeout only matters if a machine stops answering."""


class LostProcessError(BaseException):
    """Another process ended or cannot be reached; the message says which process found out.

    Like KeyboardInterrupt, it can be raised at any point and should not be handled.
    """


@dataclass(frozen=True)
class Processes:
    """The index of this process and the number of all; by default it is the only one."""

    index: int = 0
    count: int = 1
    waiting: dist.ProcessGroup | None = None
    """Process group for long waits, separate from the group that reduces gradients."""

    def __str__(self) -> str:
        return f"process {self.index + 1} of {self.count}"

    @property
    def is_main(self) -> bool:
        """Return whether this is the process that reads and writes files and prints."""
        return self.index == 0

    def has(self, batch: int) -> bool:
        """Return whether a batch, by its number from 0, is this process's: every n-th is."""
        return batch % self.count == self.index

    def share(self, make: Callable[[], T]) -> T:
        """Call ``make`` in the main process and return its result in every process.

        All processes must call this. If ``make`` fails, the main process raises the error and the
        others exit without a message. The result is sent pickled: the processes trust each other.
        """
        if self.count == 1:
            return make()
        if not self.is_main:
            made, status = self._broadcast(None, None)
            if status is not None:
                sys.exit(status)
            return made
        try:
            made = make()
        except BaseException as error:
            code = error.code if isinstance(error, SystemExit) else 1
            with suppress(RuntimeError):  # the other processes may be what failed
                self._broadcast(None, code if isinstance(code, int) else 1)
            raise
        self._broadcast(made, None)
        return made

    def _broadcast(self, made: Any, status: int | None) -> Any:
        """Send a result, or the exit status of a failure, from the main process; return both."""
        box = [made, status]
        dist.broadcast_object_list(box, src=0, group=self.waiting)
        # No process exits before all have received it. Afterwards a lost process does not matter.
        with suppress(RuntimeError):
            dist.barrier(group=self.waiting)
        return box

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, which must all call this and trust each other."""
        if self.count == 1:
            return [value]
        gathered: list[Any] = [None] * self.count
        dist.all_gather_object(gathered, value, group=self.waiting)
        return gathered

    def sum(self, value: Tensor) -> Tensor:
        """Sum a tensor over all processes; all must call this."""
        if self.count > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value


ALONE = Processes()
"""The only process of a program."""


@contextmanager
def join_processes(*, on_cpu: bool = False) -> Iterator[Processes]:
    """Join the processes that torchrun started, if any; yield this one's place among them.

    More on this machine than GPUs are a ValueError; one that ends or cannot be reached before the
    work is done is a LostProcessError.
    """
    index, count = (int(os.environ.get(name, 0)) for name in ("RANK", "WORLD_SIZE"))
    if count < 2:
        yield ALONE
        return
    on_cpu = on_cpu or not torch.cuda.is_available()
    here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", count)), torch.cuda.device_count()
    if not on_cpu and here > gpus:
        raise ValueError(
            f"there are {here} processes on this machine and {gpus} GPU{'s' * (gpus != 1)}, and "
            f"each needs one: torchrun --nproc-per-node {gpus}; or train on the CPU, with "
            "CUDA_VISIBLE_DEVICES set to nothing"
        )

    def lost(reason: str) -> LostProcessError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it exits after printing the reason
        return LostProcessError(f"{Processes(index, count)}: {reason}")

    def end(*_: object) -> None:
        raise lost("told to end, as happens when another process ended")

    try:
        # accelerate forms a group of CPUs only if it is told to use CPUs.
        PartialState(cpu=on_cpu)
        waiting = dist.new_group(backend="gloo", timeout=_WAIT_TIMEOUT)
        signal.signal(signal.SIGTERM, end)
        yield Processes(index, count, waiting)
    except RuntimeError as error:
        # Errors of gloo have no class; their messages contain names of its source files.
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        reason = re.sub(r"^\[\S+\] |\. This is typically.*", "", str(error).strip().split("\n")[0])
        raise lost(f"another process ended or cannot be reached ({reason})") from error
    dist.destroy_process_group()  # after an error it might wait for ever
