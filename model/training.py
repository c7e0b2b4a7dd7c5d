"""The training loop, on ``accelerate``: devices, mixed precision, several processes.

What a step does is decided by seed and step alone, so that a training that was stopped goes on
exactly as if it had not been. Several processes share the rows of each batch and take the step that
one would take, to within rounding; only the masks of dropout depend on how many they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NoReturn

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
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
from model.processes import ALONE, Processes
from model.resume import latest_resume_step, read_resume_state, restore, save_resume_state
from model.schedule import learning_rate
from model.signals import interrupt_between_steps
from model.transformer import Transformer


class DivergenceError(Exception):
    """Loss or gradient is not a finite number any more; the message says where and what to do."""


class Training:
    """One training of one run, in one process or several, of which only the main one has files.

    ``valid`` and ``samples`` are used in that one only; with ``tensorboard``, figures are written
    for that too.
    """

    def __init__(
        self,
        run: Run,
        *,
        train: Examples,
        valid: list[Pair],
        samples: list[Sample],
        tensorboard: bool = False,
        processes: Processes = ALONE,
    ) -> None:
        self.run, self.valid, self.samples = run, valid, samples
        self.processes = processes
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
            disable=not self.processes.is_main,
            mininterval=1.0,
        )
        meter = _Meter()
        with progress, interrupt_between_steps() as interrupted:
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
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.processes.sum(flag))

    def _step(self, model: Any, optimiser: Any, step: int) -> tuple[float, float, int]:
        """One optimiser step; summed loss in nats, gradient norm and number of target pieces."""
        accelerator, config, processes = self.accelerator, self.config, self.processes
        # Dropout follows from seed, step and process: nothing else can disturb it.
        torch.manual_seed(hash((config.seed, step, processes.index)))
        first = (step - 1) * config.accumulate
        shards = [
            self.batches.shard(first + i, index=processes.index, count=processes.count)
            for i in range(config.accumulate)
        ]
        pieces = sum(shard.pieces for shard in shards)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        model.train()
        total = torch.zeros((), device=accelerator.device)
        for shard in shards:
            source, target = (side.to(accelerator.device) for side in shard[:2])
            keep = target[:, 1:] != PAD
            # Gradients of the batches add up here; the last brings those of all together.
            with nullcontext() if shard is shards[-1] else accelerator.no_sync(model):
                logits = model(source, target[:, :-1], keep)
                loss = shard.weight * cross_entropy(
                    logits, target[:, 1:][keep], smoothing=config.label_smoothing
                )
                # They are averaged over processes: times their count makes that a sum.
                accelerator.backward(loss * processes.count / pieces)
            total += loss.detach()
        norm = accelerator.clip_grad_norm_(
            self.model.parameters(), config.clip_norm or float("inf")
        )
        summed = float(processes.sum(total))
        if not (math.isfinite(summed) and math.isfinite(norm)):
            processes.share(lambda: self._diverged(step, summed / pieces, float(norm)))
        optimiser.step()
        optimiser.zero_grad()
        return summed, float(norm), pieces

    def _diverged(self, step: int, loss: float, norm: float) -> NoReturn:
        kept = latest_resume_step(self.run.folder)
        raise DivergenceError(
            f"step {step:,}: loss {loss:.4g}, gradient norm {norm:.4g}: the training diverged. The "
            f"state of step {kept or 0:,} is kept; start again under another name with a lower "
            "learning_rate, a longer warm-up, clip_norm 1 or precision 'no'"
        )

    def _log(self, step: int, seen: int, meter: _Meter, norm: float, progress: Any) -> None:
        loss, speed = meter.read()
        if not self.processes.is_main:
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
        self.processes.share(lambda: self._measure(step))

    def _measure(self, step: int) -> None:
        """Write the weights, then measure the file as written."""
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

    def _save_resume_state(self, step: int, seen: int) -> None:
        self.processes.share(
            lambda: save_resume_state(
                self.run.folder, self.model, self.optimiser, step=step, tokens=seen
            )
        )

    def _resume(self) -> tuple[int, int]:
        """Load the state; cut logs and later milestones back to its step."""
        state = self.processes.share(lambda: read_resume_state(self.run.folder))
        restore(state, self.model, self.optimiser)
        self.processes.share(lambda: self._cut_back(state.step or -1))  # at 0, its milestone again
        return state.step, state.tokens

    def _cut_back(self, last: int) -> None:
        remove_unfinished(self.run.folder)
        for name in ("metrics.jsonl", "samples.jsonl"):
            cut_log(self.run.folder / name, last)
        for later in steps_of(self.run.folder):
            if later > last:
                weights_path(self.run.folder, later).unlink()


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
