"""The training loop, on ``accelerate``: devices, mixed precision, several processes.

A step depends only on the seed and the number of the step, so that a resumed training continues
exactly as if it had not been stopped. Several processes share the rows of each batch and compute
the same step as one, up to rounding; only the dropout masks depend on the number of processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NoReturn

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from tqdm import tqdm

from headwise.model.checkpoint import TrainedRun, load_weights, save_weights, steps_of, weights_path
from headwise.model.decoding.translation import translate
from headwise.model.files import append_log, cut_log
from headwise.model.masks import PADDING
from headwise.model.training.augmentation import Augmentation
from headwise.model.training.batches import Batches
from headwise.model.training.data import Examples, Pair, Sample, draw_train_sample
from headwise.model.training.evaluation import cross_entropy, evaluate, mean_loss, milestone_figures
from headwise.model.training.processes import ALONE, Processes
from headwise.model.training.resume import (
    interrupt_between_steps,
    latest_resume_step,
    read_resume_state,
    restore,
    save_resume_state,
)
from headwise.model.training.schedule import learning_rate
from headwise.model.transformer import Transformer


class DivergenceError(Exception):
    """Loss or gradient is no longer a finite number; the message says where and what to do."""


class Training:
    """One training of a run, in one or several processes.

    Only the main process uses ``valid`` and ``samples``, measures milestones and writes files. With
    ``tensorboard`` the metrics are also written for TensorBoard.
    """

    def __init__(
        self,
        run: TrainedRun,
        *,
        train: Examples,
        valid: list[Pair],
        samples: list[Sample],
        tensorboard: bool = False,
        processes: Processes = ALONE,
    ) -> None:
        self.run, self.valid, self.samples = run, valid, samples
        self.processes = processes
        assert run.info.training is not None  # only a converted run, which is not trained, has none
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
        languages = run.info.source_language, run.info.target_language
        examples = Augmentation(
            train,
            run.tokenizers,
            languages=languages,
            config=self.config,
            max_tokens=min(self.config.max_tokens, run.info.model.max_length),
        )
        self.train_sample = draw_train_sample(train, seed=self.config.seed)
        self.batches = Batches(examples, self.config)

    def __call__(self, *, resume: bool) -> Iterator[int]:
        """Train; yield the step of each milestone when its files are written.

        After Ctrl-C the state is saved and KeyboardInterrupt raised.
        """
        step, seen, meter = self._resume() if resume else (0, 0, _Meter())
        self.accelerator.init_trackers("tensorboard")
        model, optimiser = self.accelerator.prepare(self.model, self.optimiser)
        progress = tqdm(
            initial=step,
            total=self.config.steps,
            unit="step",
            disable=not self.processes.is_main,
            mininterval=1.0,
        )
        with progress, interrupt_between_steps() as interrupted:
            if step == 0:
                self._save_resume_state(0, 0, meter)
                if 0 in self.config.all_milestones:
                    self._milestone(0)
                    yield 0
            meter.restart_clock()
            while step < self.config.steps:
                flag = torch.tensor(float(interrupted()), device=self.accelerator.device)
                if self.processes.sum(flag):  # in any process
                    self._save_resume_state(step, seen, meter)
                    raise KeyboardInterrupt
                loss, norm, tokens = self._step(model, optimiser, step + 1)
                step += 1
                seen += tokens
                meter.add(loss, tokens)
                progress.update()
                if step % self.config.log_every == 0:
                    self._log(step, seen, meter, norm, progress)
                if step in self.config.all_milestones:
                    self._milestone(step)
                    yield step
                if step % self.config.resume_every == 0 or step == self.config.steps:
                    self._save_resume_state(step, seen, meter)
                meter.restart_clock()
        for tracker in self.accelerator.trackers:
            tracker.finish()

    def _step(self, model: Any, optimiser: Any, step: int) -> tuple[float, float, int]:
        """Take an optimiser step; return summed loss in nats, gradient norm and target tokens."""
        accelerator, config, processes = self.accelerator, self.config, self.processes
        # Dropout depends only on seed, step and process.
        seeds = np.random.SeedSequence((config.seed, step, processes.index))
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        first = (step - 1) * config.accumulate
        shards = [
            self.batches.shard(first + i, index=processes.index, count=processes.count)
            for i in range(config.accumulate)
        ]
        tokens = sum(shard.tokens for shard in shards)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        model.train()
        total = torch.zeros((), device=accelerator.device)
        for shard in shards:
            source, target = (side.to(accelerator.device) for side in shard[:2])
            keep = target[:, 1:] != PADDING
            # Gradients of the batches add up; the last one synchronises them over processes.
            with nullcontext() if shard is shards[-1] else accelerator.no_sync(model):
                logits = model(source, target[:, :-1], keep)
                loss = shard.weight * cross_entropy(
                    logits, target[:, 1:][keep], smoothing=config.label_smoothing
                )
                # Gradients are averaged over processes; multiplying by their count makes a sum.
                accelerator.backward(loss * processes.count / tokens)
            total += loss.detach()
        norm = accelerator.clip_grad_norm_(
            self.model.parameters(), config.clip_norm or float("inf")
        )
        summed = float(processes.sum(total))
        if not (math.isfinite(summed) and math.isfinite(norm)):
            processes.share(lambda: self._diverged(step, summed / tokens, float(norm)))
        optimiser.step()
        optimiser.zero_grad()
        return summed, float(norm), tokens

    def _diverged(self, step: int, loss: float, norm: float) -> NoReturn:
        kept = latest_resume_step(self.run.folder)
        raise DivergenceError(
            f"step {step:,}: loss {loss:.4g}, gradient norm {norm:.4g}: the training diverged. The "
            f"state of step {kept or 0:,} is kept; start again under another name with a lower "
            "--training.learning-rate, more --training.warmup-steps, --training.clip-norm 1 or "
            "--training.precision no"
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
        train_sample_loss, _ = mean_loss(model, *self.train_sample)
        self._record(
            step, milestone_figures(figures) | {"train_sample_loss": round(train_sample_loss, 4)}
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

    def _save_resume_state(self, step: int, seen: int, meter: _Meter) -> None:
        self.processes.share(
            lambda: save_resume_state(
                self.run.folder,
                self.model,
                self.optimiser,
                step=step,
                tokens=seen,
                unlogged_loss=meter.loss,
                unlogged_tokens=meter.tokens,
            )
        )

    def _resume(self) -> tuple[int, int, _Meter]:
        """Restore the saved state and cut back what is after it; return step, tokens and meter."""
        state = self.processes.share(lambda: read_resume_state(self.run.folder, self.model))
        restore(state, self.model, self.optimiser)
        last = state.step or -1  # at step 0, its milestone is removed too
        self.processes.share(lambda: self._cut_back(last))
        return state.step, state.tokens, _Meter(state.unlogged_loss, state.unlogged_tokens)

    def _cut_back(self, last: int) -> None:
        for name in ("metrics.jsonl", "samples.jsonl"):
            cut_log(self.run.folder / name, last)
        for later in steps_of(self.run.folder):
            if later > last:
                weights_path(self.run.folder, later).unlink()


class _Meter:
    """Measures mean loss and speed since the last ``read``; resumed, it goes on with the sums."""

    def __init__(self, loss: float = 0.0, tokens: int = 0) -> None:
        self.loss, self.tokens = loss, tokens
        self._timed, self._seconds, self._start = 0, 0.0, time.monotonic()

    def add(self, loss: float, tokens: int) -> None:
        self.loss += loss
        self.tokens += tokens
        self._timed += tokens
        now = time.monotonic()
        self._seconds += now - self._start
        self._start = now

    def restart_clock(self) -> None:
        """Exclude the time since the last step from the speed."""
        self._start = time.monotonic()

    def read(self) -> tuple[float, float]:
        """Return mean loss per token and tokens per second, and reset both."""
        result = self.loss / self.tokens, self._timed / max(self._seconds, 1e-9)
        self.loss, self.tokens, self._timed, self._seconds = 0.0, 0, 0, 0.0
        return result
