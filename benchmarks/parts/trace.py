"""The full ``Trace`` of a sentence, beside what BertViz prepares of the same model's attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from bertviz import model_view
from transformers import MarianMTModel

from benchmarks.peers.marian import marian_of
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, model_of, tokenizers_of
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace

_LENGTHS = (20, 50, 100, 200)
STEPS = len(_LENGTHS)


def measure(*, rounds: int, tick: Tick) -> Findings:
    """A forced target, so that both run one teacher-forced pass; and with the translation too.

    BertViz's part is Marian's pass with ``output_attentions`` and the HTML of its ``model_view``.
    """
    tokenizers = tokenizers_of()
    rows, rules, raw = [], [], {}
    for length in _LENGTHS:
        case = f"{length} tokens"
        ours = model_of(max_length=length, endless=True)
        text = tokenizers.source.decode(ids_of(1, length - 1, seed=1)[0].tolist())
        own = run_trace(ours, tokenizers, text)
        if (len(own.source), len(own.consumed)) != (length, length):
            raise ValueError(f"expected {length} tokens a side, got {own.source}, {own.consumed}")
        calls: dict[str, Callable[[], object]] = {
            "forced": partial(run_trace, ours, tokenizers, text, own.target_ids),
            "own": partial(run_trace, ours, tokenizers, text),
            "BertViz": partial(_prepared, marian_of(ours, attention="eager"), own),
        }
        _check(run_trace(ours, tokenizers, text, own.target_ids), own)
        seconds = in_rounds(calls, rounds)
        times = [1e3 * median(values) for values in seconds.values()]
        rows.append((case, *times, ratio(seconds["forced"], seconds["BertViz"])))
        if length == 20:
            rules.append(Rule("trace of 20 tokens, target given (ms)", times[0], 25.0))
        raw |= {f"trace, {case}, {name} (s)": values for name, values in seconds.items()}
        tick(case)
    columns = ("", "target given (ms)", "translation too (ms)", "BertViz (ms)", "of BertViz")
    note = (
        "A trace also holds queries, keys, values, streams, embeddings, predictions and the lens "
        "of each layer; BertViz' part holds the weights of attention only."
    )
    return Findings((Table("Trace", columns, tuple(rows)),), tuple(rules), (note,), raw=raw)


@torch.inference_mode()
def _prepared(marian: MarianMTModel, trace: Trace) -> str:
    source = torch.tensor([trace.source.ids])
    output: Any = marian(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        decoder_input_ids=torch.tensor([trace.consumed.ids]),
        use_cache=False,
        output_attentions=True,
    )
    return model_view(
        encoder_attention=output.encoder_attentions,
        decoder_attention=output.decoder_attentions,
        cross_attention=output.cross_attentions,
        encoder_tokens=list(trace.source.texts),
        decoder_tokens=list(trace.consumed.texts),
        html_action="return",
    ).data


def _check(forced: Trace, translated: Trace) -> None:
    for kind, weights in translated.attention.items():
        torch.testing.assert_close(torch.tensor(forced.attention[kind]), torch.tensor(weights))
    if failed := [check for check in forced.checks if not check.passed]:
        raise ValueError(f"the trace's own checks failed: {failed}")
