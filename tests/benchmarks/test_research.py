"""What a researcher asks of heads: our answers beside a pass of transformers, and lines of code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.parts.research import SOURCE, TARGET, lines_of, write_marian
from benchmarks.peers import by_headwise
from tests.floats import PASS, assert_near


def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    """Attention it returns itself; a head is off where its columns of W_O are zero."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = write_marian(tmp_path, layers=2, heads=4, d_model=32)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    source, target = (tokenizer(text, return_tensors="pt").input_ids for text in (SOURCE, TARGET))

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            done = model(input_ids=source, labels=target, output_attentions=True)
        return done.loss, torch.cat(done.cross_attentions)

    opened = by_headwise.load(folder)
    on, attention = run()
    found = by_headwise.cross_attention(opened, SOURCE, TARGET)
    assert_near(found, attention, operations=PASS)
    costs = by_headwise.ranked(opened, SOURCE, TARGET)
    with torch.no_grad():
        model.model.decoder.layers[1].encoder_attn.out_proj.weight[:, 24:32] = 0
    cost = float(run()[0] - on)
    assert by_headwise.without_a_head(opened, SOURCE, TARGET) == pytest.approx(cost, abs=1e-5)
    assert costs["cross.2.4"] == pytest.approx(cost, abs=1e-5)
    assert len(costs) == 24
    assert [*costs.values()] == sorted(costs.values(), reverse=True)


def test_lines_are_those_of_a_task_and_of_what_it_calls(tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text(
        "def a():\n    b()\n\n    return b()\n\n\ndef b():\n    return c(\n        1\n    )\n"
    )
    assert [lines_of(file, name) for name in "ab"] == [2 + 4, 3]
