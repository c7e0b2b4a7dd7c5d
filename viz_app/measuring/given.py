"""Sentences that a person gives a page are translated, if need be, and measured.

Nothing is written: what is found is kept by whoever asked for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from headwise.model.checkpoint import Checkpoint
from headwise.model.decoding.greedy import greedy
from headwise.model.estimates import decoding_bytes, measuring_bytes
from headwise.model.interventions import AT_A_TIME, decoding_work, encoding_work
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import Run, load_checkpoint
from headwise.model.training.corpora import CorpusStream
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair, LeftOutCounts, batches_by_length
from headwise.viz_app.measuring import checkpoints
from headwise.viz_app.measuring.checkpoint_measures import OF_CORPUS, STAGES
from headwise.viz_app.measuring.corpus import MOST_SENTENCES
from headwise.viz_app.measuring.head_measures import weight_measures
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.sums import MeasureSums
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples
from headwise.viz_app.records.measures import Measures

MOST_TOKENS = 2**16  # most tokens of all sources and targets together: 64 of each in 512 sentences
_TOGETHER = 32  # most sentences of a batch
_NAME = "your sentences"


@dataclass(frozen=True)
class GivenMeasures:
    """What was measured of one checkpoint on sentences that somebody gave."""

    measures: Measures
    means: HeadMeans
    resamples: Resamples
    costs: SentenceCosts


class GivenSentences:
    """Sentences that fit a run, with what was measured on them so far."""

    def __init__(
        self,
        run: Run,
        pairs: Sequence[Pair],
        *,
        load: Callable[[Run, int, Placement], Checkpoint] = load_checkpoint,
        placement: Placement = DEFAULT_PLACEMENT,
    ) -> None:
        """Encode sentences that the model can take, each once; ``load`` loads a checkpoint.

        ValueError if none is left, or they have too many tokens.
        """
        self._run, self._load, self._placement = run, load, placement
        own = not pairs[0].target
        self.translated_at = run.steps()[-1] if own else None
        """Step of the checkpoint whose translations are the targets; None if they were given."""
        self.found: dict[int, GivenMeasures] = {}
        """By step."""
        self.seconds: float | None = None
        """How long it took until the first checkpoint was measured, as its caller notes it."""
        self.by_weights: dict[int, Measures] = {}
        """By step, the measures that need the weights alone, which are found first; others are
        NaN."""
        # Without its target, a source is not known to be empty: it stands for the target.
        encoded = checkpoints.read_examples(run, _stream([Pair(s, t or s) for s, t in pairs]))
        self.left_out: LeftOutCounts = encoded.left_out
        self._encoded: Sequence[EncodedPair] = encoded.sentences
        self._pairs = [Pair(s.pair.source, "" if own else s.pair.target) for s in self._encoded]
        tokens = sum(len(s.source) + len(s.target) for s in self._encoded)
        if not self._encoded:
            raise ValueError(f"none of the sentences can be measured: {self.left_out}")
        if tokens > MOST_TOKENS:
            raise ValueError(
                f"the sentences have {tokens:,} tokens; at most {MOST_TOKENS:,} are measured here: "
                "give fewer or shorter ones, or measure a file from a terminal"
            )

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def _batch(self) -> int:
        """How many sentences are run together: about a second of one processor.

        The costs of heads take half of it, and what else is measured of the same sentences.
        """
        model, count = self._run.description, len(self._encoded)
        source, target = (
            math.ceil(sum(map(len, side)) / count)
            for side in zip(*((s.source, s.target) for s in self._encoded), strict=True)
        )
        logits = target * model.d_model * model.target_vocab_size
        of_one = encoding_work(model, source) + decoding_work(model, source, target) + logits
        rows = 1 + len(model.all_heads())
        return max(1, min(_TOGETHER, AT_A_TIME // (2 * rows * of_one)))

    @property
    def needs(self) -> int:
        """Return the most bytes that measuring takes, without the weights."""
        model = self._run.description
        found = []
        for batch in batches_by_length(self._encoded, self._batch):
            source = max(len(sentence.source) for sentence in batch)
            target = max(len(sentence.target) for sentence in batch)
            found.append(decoding_bytes(model, source, len(batch)))
            found.append(measuring_bytes(model, source, target, len(batch)))
        return max(found)

    def passes(self, steps: Sequence[int]) -> int:
        """Return how many sentences ``measure`` says are done at its end, at most."""
        translated = 0 if self._pairs[0].target else len(self)
        measured = checkpoints.sentences_passed(steps, len(self), len(self._encoded))
        return len(steps) + translated + measured

    def measure(self, steps: Sequence[int]) -> Iterator[int]:
        """Measure some checkpoints; yield how many sentences are done after each batch.

        Weights come first, of all checkpoints, and count as a sentence of each; then the newest and
        the oldest one. What is found goes into ``by_weights`` and ``found``. CheckpointError if
        weights cannot be used. ValueError if no translation has a token.
        """
        steps = [*dict.fromkeys([max(steps), min(steps), *steps])]
        for step in steps:
            self._measure_weights(step)
            yield 1
        if not self._pairs[0].target:
            yield from self._translate()
        task = checkpoints.MeasureTask(
            run=self._run,
            steps=steps,
            open_corpus=lambda: _stream(self._pairs),
            sentences=MOST_SENTENCES,
            examples=checkpoints.read_examples(self._run, _stream(self._pairs)),
            placement=self._placement,
            load=self._load,
            batch=self._batch,
        )
        for found in checkpoints.measure(task):
            if isinstance(found, int):
                yield found
                continue
            measures, sums = found
            self.found[sums.step] = GivenMeasures(
                self._of_translations(measures), sums.means(), sums.resamples(), sums.costs()
            )

    def _measure_weights(self, step: int) -> None:
        checkpoint = self._load(self._run, step, self._placement)
        model = checkpoint.model
        nothing = MeasureSums(model.description, model.device, wanted=()).values()
        self.by_weights[step] = Measures(
            run=self._run.name,
            step=step,
            sha256=checkpoint.sha256,
            corpus=checkpoints.NO_EXAMPLES.corpus,
            values={**nothing, **weight_measures(model)},
            cost_errors=nothing["cost"],
            alignment=None,
            stages=dict.fromkeys(STAGES, math.nan),
            examples_corpus=checkpoints.NO_EXAMPLES.corpus,
            sentences=(),
            examples={},
            translated=(),
        )

    def _translate(self) -> Generator[int, None, None]:
        """Put the translations of the newest checkpoint in place of the missing targets."""
        run, translations = self._run, dict[int, str]()
        model = self._load(run, run.steps()[-1], self._placement).model
        for batch in batches_by_length(self._encoded, self._batch):
            targets = greedy(model, [s.source for s in batch], run.tokenizers.prefix)
            texts = map(run.tokenizers.target.decode, targets)
            translations |= {s.number: text for s, text in zip(batch, texts, strict=True)}
            yield len(batch)
        pairs = [Pair(s.pair.source, translations[s.number].strip()) for s in self._encoded]
        examples = checkpoints.read_examples(run, _stream(pairs))
        if not examples.sentences:
            raise ValueError(
                f"checkpoint {run.steps()[-1]:,} translates none of the sentences into a text that "
                "can be measured; give translations, after a tab"
            )
        self.left_out.empty += examples.left_out.empty
        self.left_out.too_long += examples.left_out.too_long
        self._encoded = examples.sentences
        self._pairs = [s.pair for s in examples.sentences]

    def _of_translations(self, measures: Measures) -> Measures:
        """Leave out what compares translations with references, where there are none."""
        if self.translated_at is None:
            return measures
        return replace(
            measures,
            translated_at=self.translated_at,
            translated=tuple(replace(each, chrf=math.nan) for each in measures.translated),
            stages={n: v if n in OF_CORPUS else math.nan for n, v in measures.stages.items()},
        )


def _stream(pairs: Sequence[Pair]) -> CorpusStream:
    lines = "\n".join(f"{pair.source}\t{pair.target}" for pair in pairs)
    return CorpusStream(_NAME, hashlib.sha256(lines.encode()).hexdigest(), iter(pairs))
