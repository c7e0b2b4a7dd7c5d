"""The strongest sentences of neurons, beside every activation computed alone, and their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from headwise.model.checkpoint import CheckpointError
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Seq2SeqModel
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.neuron_files import neurons_path, read_neurons, write_neurons
from headwise.viz_app.measuring.neurons import Places, places_in_batch, rounded, strongest
from tests.floats import PASS, near
from tests.model.pretrained.tiny import FAMILY_NAMES, build
from tests.viz_app.measures import made_up_neurons

OURS: dict[str, dict[str, Any]] = {
    "pre-norm": {"n_encoder_layers": 3},
    "post-norm": {"norm": "post"},
}
SIDES = ("sentence", "position", "activation")


def sentences_for(model: Seq2SeqModel, *lengths: tuple[int, int]) -> list[EncodedPair]:
    """Sentences of random tokens of these lengths; their numbers are not their places."""
    random, special = np.random.default_rng(5), model.special_ids
    sizes = model.description.source_vocab_size, model.description.target_vocab_size

    def ids(count: int, size: int) -> list[int]:
        return random.integers(10, size - 2, count).tolist()  # some end with padding

    return [
        EncodedPair(
            40 - 7 * place,
            Pair("", ""),
            [*ids(source, sizes[0]), special.end],
            [special.start, *ids(target, sizes[1]), special.end],
        )
        for place, (source, target) in enumerate(lengths)
    ]


@pytest.mark.parametrize("name", [*OURS, *FAMILY_NAMES])
def test_each_neuron_s_place_is_that_of_the_sentence_alone(
    name: str, make_model: Callable[..., Transformer]
) -> None:
    """Padding, of sentences that differ in length, is strongest for no neuron."""
    model = (
        make_model(**OURS[name]).double() if name in OURS else build(name, dtype=torch.float64).ours
    )
    sentences = sentences_for(model, (3, 6), (8, 1), (5, 3))
    found = places_in_batch(model, sentences)
    for stack in ("encoder", "decoder"):
        layers = getattr(model.description, f"n_{stack}_layers")
        points = [f"{stack}.layers.{layer}.feed_forward.hidden" for layer in range(layers)]
        places = found[stack]
        assert places.activation.shape == (layers, getattr(model.description, f"{stack}_d_ff"), 3)
        for column, sentence in enumerate(sentences):
            with torch.inference_mode(), capture(model, points) as seen:
                forced_stream(
                    model, torch.tensor([sentence.source]), torch.tensor([sentence.target[:-1]])
                )
            alone = np.stack([seen[point][0][0].numpy() for point in points])  # (L, n, F)
            at = places.position[..., column].numpy()
            there = np.take_along_axis(alone, at[:, None], axis=1)[:, 0]
            largest = np.abs(alone).max(axis=1)
            size = float(largest.max())
            bound = near(largest, dtype=np.float32, size=size, operations=PASS)
            assert np.abs(there) == bound
            kept = places.activation[..., column].double().numpy()
            np.testing.assert_allclose(kept, there, rtol=2.0**-11, atol=1e-6 * size)
            assert (places.sentence[..., column] == sentence.number).all()


def test_the_strongest_by_hand() -> None:
    """Of one neuron, negative activations as large ones; of equal ones the earlier sentence's."""
    first = Places(*(torch.tensor([[side]]) for side in ([0.5, -3.0, 1.0], [9, 4, 2], [0, 1, 2])))
    second = Places(*(torch.tensor([[side]]) for side in ([3.0, -1.0, 0.0], [3, 1, 0], [3, 4, 5])))
    for found in ([first, second], [second, first], [strongest([second]), strongest([first])]):
        best = strongest(found)
        assert best.sentence.tolist() == [[[3, 4, 1, 2]]]
        assert best.activation.tolist() == [[[3.0, -3.0, -1.0, 1.0]]]
        assert best.position.tolist() == [[[3, 1, 4, 2]]]


def test_activations_keep_as_many_bits_as_float16_has() -> None:
    values = torch.tensor([1.0, 1.0004, 1.0006, -70_001.0, 3e-7, 0.0])
    expected = [1.0, 1.0, 1.0009765625, -70_016.0, 3e-7, 0.0]
    assert rounded(values)[[0, 1, 2, 3, 5]].tolist() == [*expected[:4], 0.0]
    assert float(rounded(values)[4]) == pytest.approx(3e-7, rel=2.0**-11)
    normal = torch.linspace(0.01, 8, 1001)
    assert torch.equal(rounded(normal), normal.half().float())


# Files


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = made_up_neurons()
    large = replace(
        written.stacks["encoder"], activation=written.stacks["encoder"].activation * 2.0**16
    )
    written = replace(written, stacks=written.stacks | {"encoder": large})
    write_neurons(tmp_path, written)
    first = neurons_path(tmp_path, 20).read_bytes()
    write_neurons(tmp_path, written)
    assert neurons_path(tmp_path, 20).read_bytes() == first
    read = read_neurons(tmp_path, 20)
    assert replace(read, stacks={}) == replace(written, stacks={})
    for stack, places in written.stacks.items():
        for side in SIDES:
            there = getattr(read.stacks[stack], side)
            np.testing.assert_array_equal(there, getattr(places, side))
            assert not there.flags.writeable


def test_a_file_of_6_layers_of_768_neurons_is_small(tmp_path: Path) -> None:
    """Five bytes a place: with 512 sentences of 70 letters a side, below 180 kB."""
    random = np.random.default_rng(1)
    shape = (3, 768, 4)
    made = made_up_neurons()
    stacks = {
        stack: replace(
            places,
            sentence=random.integers(0, 512, shape),
            position=random.integers(0, 60, shape),
            activation=random.normal(size=shape).astype(np.float16).astype(np.float32),
        )
        for stack, places in made.stacks.items()
    }
    write_neurons(tmp_path, replace(made, stacks=stacks, sentences=made.sentences * 256))
    tensors = 2 * 3 * 768 * 4 * 5
    assert tensors < neurons_path(tmp_path, 20).stat().st_size < tensors + 512 * 80


def with_tensors(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the tensors, and leave what the header says of them."""
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        about = file.metadata()
    change(tensors)
    safetensors.numpy.save_file(tensors, path, about)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'\\"step\\":20', b'\\"step\\":21', "its step is 21"),
        (
            b'\\"format_version\\":1',
            b'\\"format_version\\":2',
            "format version 2, this program reads 1",
        ),
        (b'\\"tokens\\":7000', b'\\"tokens\\":true', "tokens: expected a valid integer"),
        (b"about", b"other", "about"),
        (b"decoder.position", b"decoder.positiom", "decoder.position|altered"),
        (b"U8", b"I8", "altered"),
        (None, b"", "damaged"),
    ],
)
def test_damaged_or_foreign_files_are_refused(
    tmp_path: Path, old: bytes | None, new: bytes, message: str
) -> None:
    write_neurons(tmp_path, made_up_neurons())
    path = neurons_path(tmp_path, 20)
    content = path.read_bytes()
    assert old is None or old in content
    path.write_bytes(content[:-9] if old is None else content.replace(old, new, 1))
    with pytest.raises(
        CheckpointError, match=rf"neurons-0000020\.safetensors: .*{message}.*again$"
    ):
        read_neurons(tmp_path, 20)


def test_altered_numbers_and_places_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = neurons_path(tmp_path, 20)
    write_neurons(tmp_path, made_up_neurons())

    def alter(tensors: dict[str, Any]) -> None:
        tensors["encoder.activation"][0, 0, 0] += 1

    with_tensors(path, alter)
    with pytest.raises(CheckpointError, match="its numbers were altered"):
        read_neurons(tmp_path, 20)
    write_neurons(tmp_path, made_up_neurons(sentences=made_up_neurons().sentences[:1]))
    with pytest.raises(
        CheckpointError, match="expected places in 1 sentences, got one in sentence 1"
    ):
        read_neurons(tmp_path, 20)
    odd = made_up_neurons()
    infinite = replace(odd.stacks["decoder"], activation=np.full((2, 7, 2), np.inf, np.float32))
    write_neurons(tmp_path, replace(odd, stacks=odd.stacks | {"decoder": infinite}))
    with pytest.raises(CheckpointError, match="expected finite activations"):
        read_neurons(tmp_path, 20)
    with pytest.raises(CheckpointError, match="neurons-0000021"):
        read_neurons(tmp_path, 21)
