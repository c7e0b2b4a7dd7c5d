"""The mean outputs of heads: of a padded batch as of each sentence, and their file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS
from headwise.model.training.processes import ALONE
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds
from headwise.viz_app.measuring.head_means import MeanSums, means_path, read_means, write_means
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.viz_app.measures import made_up_means
from tests.viz_app.measuring.conftest import PAIRS


def test_means_are_over_the_positions_of_all_sentences_and_no_padding(run: TrainedRun) -> None:
    """Against weights times values of each sentence alone, as its trace has them."""
    model = load_weights(run, 20).model
    pairs = [
        EncodedPair(
            number,
            pair,
            run.tokenizers.encode_source(pair.source),
            run.tokenizers.encode_target(pair.target),
        )
        for number, pair in enumerate(PAIRS)
    ]
    assert len({len(pair.source) for pair in pairs}) > 1
    sums = MeanSums(model.description, torch.device("cpu"))
    for batch in (pairs[:2], pairs[2:]):
        sums.add(model, PaddedIds.of_pairs(batch, model))
    sums.all_reduce(ALONE)
    traces = [run_trace(model, run.tokenizers, p.pair.source, p.target) for p in pairs]
    for kind, found in sums.means().items():
        outputs = [
            (trace.attention[kind].astype(np.float64) @ trace.values[kind]) for trace in traces
        ]
        expected = np.concatenate(outputs, axis=2).mean(axis=2)
        assert_near(found, expected, dtype=np.float32, size=np.abs(expected).max(), operations=PASS)
    layer = run_layer_trace(model, traces[0], "cross", 1)
    assert found[1].shape == (layer.attention.n_heads, layer.attention.heads.shape[-1])


# Files


def test_means_survive_writing_and_reading(tmp_path: Path) -> None:
    assert read_means(tmp_path, 20) is None
    written = made_up_means()
    write_means(tmp_path, written)
    read = read_means(tmp_path, 20)
    assert read is not None
    for kind in KINDS:
        np.testing.assert_array_equal(read.means[kind], written.means[kind])
        assert not read.means[kind].flags.writeable
    assert (read.run, read.step, read.sha256, read.corpus) == ("tiny", 20, "5ha", written.corpus)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('\\"step\\":20', '\\"step\\":21', "expected format version 1 and step 20, got 1 and 21"),
        ('format_version\\":1', 'format_version\\":2', "got 2 and 20"),
        ('\\"sentences\\":600', '\\"sentences\\":601', "its sha256 is not that of its content"),
        ('"F32"', '"I32"', "expected finite float32"),
        ('"cross"', '"crosz"', "expected tensors encoder_self, decoder_self, cross, got crosz"),
        ('"about"', '"abuot"', "about"),
        (None, "", "damaged"),
    ],
)
def test_damaged_or_foreign_means_are_refused(
    tmp_path: Path, old: str | None, new: str, message: str
) -> None:
    """Without a text to replace, the file is cut off."""
    write_means(tmp_path, made_up_means())
    path = means_path(tmp_path, 20)
    content = path.read_bytes()
    assert old is None or old.encode() in content
    changed = content[:300] if old is None else content.replace(old.encode(), new.encode(), 1)
    path.write_bytes(changed)
    with pytest.raises(CheckpointError, match=rf"means of step 20, or .*{message}.*measure again"):
        read_means(tmp_path, 20)


def test_an_altered_number_is_noticed(tmp_path: Path) -> None:
    write_means(tmp_path, made_up_means())
    content = bytearray(means_path(tmp_path, 20).read_bytes())
    content[-2] ^= 1
    means_path(tmp_path, 20).write_bytes(content)
    with pytest.raises(CheckpointError, match="its sha256 is not that of its content"):
        read_means(tmp_path, 20)
