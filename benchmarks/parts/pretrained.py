"""The trace of a Hugging Face model, beside ``transformers`` alone: generate and one more pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import in_rounds, median, ratio
from benchmarks.sizes import ids_of, tokenizers_of
from headwise.model.config import BOS, EOS, PAD
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.model import PretrainedModel
from headwise.viz_app.trace.sentence import run_trace

VOCABULARY = 60_000
_LENGTH = 20
STEPS = 1


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Random weights in the shape of opus-mt: 6 + 6 layers, 8 heads, D = 512, V = 60,000.

    Both translate 20 tokens to 20 and have the weights of all heads at the end; ours also has the
    rest of a ``Trace``.
    """
    theirs = opus_mt("eager")
    ours = PretrainedModel(opus_mt(ATTENTION))
    tokenizers = tokenizers_of(VOCABULARY)
    source = ids_of(1, _LENGTH - 1, seed=1)[0].tolist()
    text = tokenizers.source.decode(source)
    trace = run_trace(ours, tokenizers, text)
    generated = _translate_and_attend(theirs, torch.tensor([[*source, EOS]]))
    if generated.tolist() != list(trace.target_ids):
        raise ValueError("the two do not translate alike")
    calls: dict[str, Callable[[], object]] = {
        "trace": partial(run_trace, ours, tokenizers, text),
        "transformers": partial(_translate_and_attend, theirs, torch.tensor([[*source, EOS]])),
    }
    seconds = in_rounds(calls, rounds)
    times = [1e3 * median(values) for values in seconds.values()]
    share = ratio(seconds["trace"], seconds["transformers"])
    tick("opus-mt")
    return Findings(
        (
            Table(
                "A model of opus-mt's shape",
                ("", "trace (ms)", "transformers (ms)", "ratio"),
                ((f"{_LENGTH} tokens", *times, share),),
            ),
        ),
        (Rule("trace of 20 tokens, of generate and a pass with output_attentions", share, 1.2),),
        raw={f"pretrained, {name} (s)": values for name, values in seconds.items()},
    )


def opus_mt(attention: str) -> Any:
    """A Marian of opus-mt's shape, with random weights."""
    config = MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2_048,
        decoder_ffn_dim=2_048,
        max_position_embeddings=_LENGTH,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation=attention,
    )
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()
    model.final_logits_bias[:, [PAD, BOS, EOS]] = -100.0  # every translation has 20 tokens
    return model


@torch.inference_mode()
def _translate_and_attend(model: Any, source: Tensor) -> Tensor:
    mask = torch.ones_like(source)
    target = model.generate(
        input_ids=source,
        attention_mask=mask,
        max_new_tokens=_LENGTH,
        num_beams=1,
        do_sample=False,
    )
    model(
        input_ids=source,
        attention_mask=mask,
        decoder_input_ids=target[:, :-1],
        use_cache=False,
        output_attentions=True,
    )
    return target[0]
