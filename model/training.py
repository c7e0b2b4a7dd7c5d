"""The training loop, on ``accelerate``: devices, mixed precision, several processes.

What a step does (its batches, its dropout) is decided by seed, step and number of processes alone,
so that a training that was stopped goes on exactly as if it had not been.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from model.checkpoint import (
    Run,
    load_weights,
    save_weights,
    steps_of,
    weights_path,
)
from model.config import PAD
from model.data import Batches, Examples, Pair, Sample
from model.decoding import translate
from model.evaluation import evaluate
from model.files import append_log, cut_log, remove_unfinished
from model.losses import cross_entropy
from model.resume import latest_resume_step, load_resume_state, save_resume_state
from model.schedule import learning_rate
from model.transformer import Transformer


def _attention_kernel(device: torch.device) -> AbstractContextManager[Any]:
    """On a CPU the fused kernel's backward pass is slower than the formula for short sentences."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


@contextmanager
def _interrupt_between_steps() -> Iterator[Callable[[], bool]]:
    """Make of Ctrl-C a question to ask between steps; a second one stops at once."""
    asked = threading.Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            sys.exit("\nstopped at once; --resume goes on from the state that was saved last")
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class DivergenceError(Exception):
    """Loss or gradient is not a finite number any more; the message says where and what to do."""


class Training:
    """One training of one run; with ``tensorboard``, its figures are written for that too."""

    def __init__(
        self,
        run: Run,
        *,
        train: Examples,
        valid: list[Pair],
        samples: list[Sample],
        tensorboard: bool = False,
    ) -> None:
        self.run, self.valid, self.samples = run, valid, samples
        self.config = run.info.training
        self.accelerator = Accelerator(
            mixed_precision=self.config.precision,
            log_with="tensorboard" if tensorboard else None,
            project_dir=run.folder,
        )
        set_seed(self.config.seed)
        self.model = Transformer(run.info.model).to(self.accelerator.device)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.config.learning_rate,
            betas=self.config.betas,
            eps=1e-9,  # section 5.3
            weight_decay=self.config.weight_decay,
            fused=True,
        )
        self.batches = Batches(train, self.config)

    def __call__(self, *, resume: bool) -> Iterator[int]:
        """Train; yields each milestone's step once its files are written.

        Raises:
            CheckpointError: on resume without a state, or if a file cannot be written.
            KeyboardInterrupt: after saving the state to go on from.
            DivergenceError: if the loss is not a number any more.
        """
        step, seen = self._resume() if resume else (0, 0)
        self.accelerator.init_trackers("tensorboard")
        model, optimiser = self.accelerator.prepare(self.model, self.optimiser)
        progress = tqdm(
            initial=step,
            total=self.config.steps,
            unit="step",
            disable=not self.accelerator.is_local_main_process,
            mininterval=1.0,
        )
        meter = _Meter()
        with progress, _interrupt_between_steps() as interrupted:
            if step == 0:
                self._save_resume_state(0, 0)
                if 0 in self.config.all_milestones:
                    self._milestone(0)
                    yield 0
                    meter.restart_clock()
            while step < self.config.steps:
                if self._any_process(interrupted()):
                    self._save_resume_state(step, seen)
                    raise KeyboardInterrupt
                loss, norm, pieces = self._step(model, optimiser, step + 1)
                step += 1
                seen += pieces
                meter.add(loss, pieces)
                progress.update()
                if step % self.config.log_every == 0:
                    self._log(step, seen, meter, norm, progress)
                if step in self.config.all_milestones:
                    self._milestone(step)
                    yield step
                if step % self.config.resume_every == 0 or step == self.config.steps:
                    self._save_resume_state(step, seen)
                meter.restart_clock()
        for tracker in self.accelerator.trackers:
            tracker.finish()

    def _any_process(self, here: bool) -> bool:
        """Whether something is so in any process; all of them must ask."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum"))

    def _step(self, model: Any, optimiser: Any, step: int) -> tuple[float, float, int]:
        """One optimiser step; summed loss in nats, gradient norm and number of target pieces."""
        accelerator, config = self.accelerator, self.config
        world, rank = accelerator.num_processes, accelerator.process_index
        # Dropout follows from seed, step and process: nothing else can disturb it.
        torch.manual_seed(hash((config.seed, step, rank)))
        first = (step - 1) * config.accumulate * world
        batches = [self.batches[first + i * world + rank] for i in range(config.accumulate)]
        mine = sum(int((target[:, 1:] != PAD).sum()) for _, target in batches)
        counted = accelerator.reduce(torch.tensor(float(mine), device=accelerator.device), "sum")
        pieces = int(counted)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        model.train()
        total = torch.zeros((), device=accelerator.device)
        with _attention_kernel(accelerator.device):
            for source, target in batches:
                source, target = source.to(accelerator.device), target.to(accelerator.device)
                keep = target[:, 1:] != PAD
                logits = model(source, target[:, :-1], keep)
                loss = cross_entropy(logits, target[:, 1:][keep], smoothing=config.label_smoothing)
                # Gradients are averaged over processes: times world makes that a sum.
                accelerator.backward(loss * world / pieces)
                total += loss.detach()
        norm = accelerator.clip_grad_norm_(
            self.model.parameters(), config.clip_norm or float("inf")
        )
        summed = float(accelerator.reduce(total, "sum"))
        if not (math.isfinite(summed) and math.isfinite(norm)):
            kept = latest_resume_step(self.run.folder)
            raise DivergenceError(
                f"step {step:,}: loss {summed / pieces:.4g}, gradient norm {float(norm):.4g}: the "
                f"training diverged. The state of step {kept or 0:,} is kept; start again under "
                "another name with a lower learning_rate, a longer warm-up, clip_norm 1 or "
                "precision 'no'"
            )
        optimiser.step()
        optimiser.zero_grad()
        return summed, float(norm), pieces

    def _log(self, step: int, seen: int, meter: _Meter, norm: float, progress: Any) -> None:
        loss, speed = meter.read()
        if not self.accelerator.is_main_process:
            return
        self._record(
            step,
            {
                "tokens": seen,
                "train_loss": round(loss, 4),
                "learning_rate": learning_rate(step, self.config),
                "gradient_norm": round(norm, 4),
                "tokens_per_second": round(speed, 1),
            },
        )
        progress.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s")

    def _record(self, step: int, figures: dict[str, float]) -> None:
        append_log(self.run.folder / "metrics.jsonl", [{"step": step, **figures}])
        self.accelerator.log(figures, step=step)

    def _milestone(self, step: int) -> None:
        """Write the weights, then measure the file as written."""
        if self.accelerator.is_main_process:
            folder, info = self.run.folder, self.run.info
            save_weights(folder, self.model, run=info.name, step=step)
            model = load_weights(self.run, step).model.to(self.accelerator.device)
            figures = evaluate(model, self.run.tokenizers, self.valid)
            self._record(
                step,
                {
                    "valid_loss": round(figures.loss, 4),
                    "bleu": round(figures.bleu, 2),
                    "chrf": round(figures.chrf, 2),
                },
            )
            translations = translate(
                model, self.run.tokenizers, [sample.source for sample in self.samples]
            )
            append_log(
                folder / "samples.jsonl",
                [
                    {"step": step, **vars(sample), "translation": translation}
                    for sample, translation in zip(self.samples, translations, strict=True)
                ],
            )
        self.accelerator.wait_for_everyone()

    def _save_resume_state(self, step: int, seen: int) -> None:
        if self.accelerator.is_main_process:
            save_resume_state(
                self.run.folder,
                self.model,
                self.optimiser,
                step=step,
                tokens=seen,
                processes=self.accelerator.num_processes,
            )
        self.accelerator.wait_for_everyone()

    def _resume(self) -> tuple[int, int]:
        """Load the state; cut logs and later milestones back to its step."""
        step, seen = load_resume_state(
            self.run.folder,
            self.model,
            self.optimiser,
            processes=self.accelerator.num_processes,
        )
        if self.accelerator.is_main_process:
            remove_unfinished(self.run.folder)
            last = step or -1  # at step 0, its milestone comes again
            for name in ("metrics.jsonl", "samples.jsonl"):
                cut_log(self.run.folder / name, last)
            for later in steps_of(self.run.folder):
                if later > last:
                    weights_path(self.run.folder, later).unlink()
        self.accelerator.wait_for_everyone()
        return step, seen


class _Meter:
    """Mean loss and speed since the last reading."""

    def __init__(self) -> None:
        self._loss, self._pieces = 0.0, 0
        self._seconds, self._start = 0.0, time.monotonic()

    def add(self, loss: float, pieces: int) -> None:
        self._loss += loss
        self._pieces += pieces
        now = time.monotonic()
        self._seconds += now - self._start
        self._start = now

    def restart_clock(self) -> None:
        """Leave out of the speed what happened since the last step."""
        self._start = time.monotonic()

    def read(self) -> tuple[float, float]:
        """Mean loss per piece, pieces per second; both begin anew."""
        result = self._loss / self._pieces, self._pieces / max(self._seconds, 1e-9)
        self._loss, self._pieces, self._seconds = 0.0, 0, 0.0
        return result
