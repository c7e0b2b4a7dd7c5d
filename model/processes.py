"""One program as several processes, as torchrun starts them: gloo on CPUs, NCCL on GPUs.

The main process alone reads files, writes them and speaks; the others get what they need from it.
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

_PATIENCE = timedelta(days=1)
"""How long the others wait for what the main process does alone, such as measuring a milestone. A
process that ends is noticed at once; this bounds only the wait for a machine that fell silent."""


class LostProcessError(BaseException):
    """Another process ended or cannot be reached; the message says which process found out.

    As with KeyboardInterrupt, it may come at any point, and is none to handle and go on.
    """


@dataclass(frozen=True)
class Processes:
    """This process among those of the program; as it stands, the only one."""

    index: int = 0
    count: int = 1
    waiting: dist.ProcessGroup | None = None
    """Group in which long waits take place, apart from that of the gradients."""

    def __str__(self) -> str:
        return f"process {self.index + 1} of {self.count}"

    @property
    def is_main(self) -> bool:
        """Whether this is the one that reads, writes and speaks."""
        return self.index == 0

    def share(self, make: Callable[[], T]) -> T:
        """What the main process makes, in every process; all must call it.

        Where it fails there, the error is raised there, and the others end without a word. It is
        sent pickled: the processes trust each other.
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
            with suppress(RuntimeError):  # they may be what failed
                self._broadcast(None, code if isinstance(code, int) else 1)
            raise
        self._broadcast(made, None)
        return made

    def _broadcast(self, made: Any, status: int | None) -> Any:
        """What the main process gives: something made, and the status to end with, if any."""
        box = [made, status]
        dist.broadcast_object_list(box, src=0, group=self.waiting)
        # Nobody leaves before all have it; of who leaves first, the last need not hear any more.
        with suppress(RuntimeError):
            dist.barrier(group=self.waiting)
        return box

    def sum(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all processes; all must call it."""
        if self.count > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value


ALONE = Processes()
"""A program of one process."""


@contextmanager
def joined() -> Iterator[Processes]:
    """This process and those that torchrun started beside it, if it did.

    Raises:
        LostProcessError: if another one ended, or cannot be reached, before the work was done.
    """
    index, count = (int(os.environ.get(name, 0)) for name in ("RANK", "WORLD_SIZE"))
    if count < 2:
        yield ALONE
        return

    def lost(reason: str) -> LostProcessError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends by itself, once it has said why
        return LostProcessError(f"{Processes(index, count)}: {reason}")

    def end(*_: object) -> None:
        raise lost("told to end, as happens when another process ended")

    try:
        # accelerate forms a group of CPUs only where it is told that there is nothing better.
        PartialState(cpu=not torch.cuda.is_available())
        waiting = dist.new_group(backend="gloo", timeout=_PATIENCE)
        signal.signal(signal.SIGTERM, end)
        yield Processes(index, count, waiting)
    except RuntimeError as error:
        # gloo's errors have no class of their own, only names of its files.
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        reason = re.sub(r"^\[\S+\] |\. This is typically.*", "", str(error).strip().split("\n")[0])
        raise lost(f"another process ended or cannot be reached ({reason})") from error
    dist.destroy_process_group()  # not after an error: with a lost member it may wait for ever
