"""The strongest sentences of neurons, beside every activation computed alone; files of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from headwise.model.files import CheckpointError
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Head, Seq2SeqModel
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.measuring.head_measures import RESAMPLED
from headwise.viz_app.measuring.neurons import places_in_batch, rounded, strongest
from headwise.viz_app.measuring.tensor_files import (
    CheckpointRecord,
    Resamples,
    neurons_path,
    read_neurons,
    write_neurons,
)
from headwise.viz_app.records.measures import StrongestPositions, StrongestSentences
from tests.floats import PASS, near
from tests.model.pretrained.tiny import MAKES, build
from tests.viz_app.measures import made_up_costs, made_up_means, made_up_neurons, made_up_resamples

OURS: dict[str, dict[str, Any]] = {"pre": {"n_encoder_layers": 3}, "post": {"norm": "post"}}


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


@pytest.mark.parametrize("name", [*OURS, *MAKES])
def test_each_neuron_s_place_is_that_of_the_sentence_alone(
    name: str, make_model: Callable[..., Transformer]
) -> None:
    """Padding, of sentences that differ in length, is strongest for no neuron."""
    ours = make_model(**OURS[name]) if name in OURS else build(name, dtype=torch.float64).ours
    model = ours.double()
    sentences = sentences_for(model, (3, 6), (8, 1), (5, 3))
    found = places_in_batch(model, sentences)
    for stack in ("encoder", "decoder"):
        layers = getattr(model.description, f"n_{stack}_layers")
        points = [f"{stack}.layers.{layer}.feed_forward.hidden" for layer in range(layers)]
        places = found[stack]
        assert places.activation.shape == (layers, getattr(model.description, f"{stack}_d_ff"), 3)
        for column, sentence in enumerate(sentences):
            with torch.inference_mode(), capture(model, points) as seen:
                ids = sentence.source, sentence.target[:-1]
                forced_stream(model, *(torch.tensor([each]) for each in ids))
            alone = np.stack([seen[point][0][0].numpy() for point in points])  # (L, n, F)
            at = places.position[..., column]
            there = np.take_along_axis(alone, at[:, None], axis=1)[:, 0]
            largest = np.abs(alone).max(axis=1)
            size = float(largest.max())
            bound = near(largest, dtype=np.float32, size=size, operations=PASS)
            assert np.abs(there) == bound
            kept = places.activation[..., column].astype(np.float64)
            np.testing.assert_allclose(kept, there, rtol=2.0**-11, atol=1e-6 * size)
            assert (places.sentence[..., column] == sentence.number).all()


def test_the_strongest_by_hand() -> None:
    """Of one neuron, negative activations as large ones; of equal ones the earlier sentence's."""
    sides = ([9, 4, 2], [0, 1, 2], [0.5, -3.0, 1.0]), ([3, 1, 0], [3, 4, 5], [3.0, -1.0, 0.0])
    first, second = (StrongestPositions(*(np.array([[side]]) for side in each)) for each in sides)
    for found in ([first, second], [second, first], [strongest([second]), strongest([first])]):
        best = strongest(found)
        assert best.sentence.tolist() == [[[3, 4, 1, 2]]]
        assert best.activation.tolist() == [[[3.0, -3.0, -1.0, 1.0]]]
        assert best.position.tolist() == [[[3, 1, 4, 2]]]


def test_activations_keep_as_many_bits_as_float16_has() -> None:
    values = torch.tensor([1.0, 1.0004, 1.0006, -70_001.0, 3e-7, 0.0])
    expected = [1.0, 1.0, 1.0009765625, -70_016.0, 3e-7, 0.0]
    assert rounded(values).tolist() == pytest.approx(expected, rel=2.0**-11, abs=0)
    assert rounded(values)[:4].tolist() == expected[:4]
    normal = torch.linspace(0.01, 8, 1001)
    assert torch.equal(rounded(normal), normal.half().float())


def with_activation(activation: float) -> StrongestSentences:
    """Made-up sentences of which one activation of the encoder is this."""
    made = made_up_neurons()
    activations = made.stacks["encoder"].activation.copy()
    activations[0, 0, 0] = activation
    changed = replace(made.stacks["encoder"], activation=activations)
    return replace(made, stacks=made.stacks | {"encoder": changed})


@pytest.mark.parametrize(("activation", "dtype"), [(2.0**15, np.float16), (2.0**16, np.float32)])
def test_neurons_are_read_short(
    tmp_path: Path, activation: float, dtype: type[np.floating]
) -> None:
    written = with_activation(activation)
    write_neurons(tmp_path, written)
    tensors = safetensors.numpy.load_file(neurons_path(tmp_path, 20))
    assert tensors["encoder.activation"].dtype == dtype
    assert tensors["decoder.activation"].dtype == np.float16
    assert {tensors[f"encoder.{side}"].dtype.name for side in ("sentence", "position")} == {"uint8"}
    read = read_neurons(tmp_path, 20)
    assert replace(read, stacks={}) == replace(written, stacks={})
    for stack, places in written.stacks.items():
        for side, array in vars(places).items():
            there = getattr(read.stacks[stack], side)
            np.testing.assert_array_equal(there, array)
            assert not there.flags.writeable


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (rb"\"step\":20", rb"\"step\":21", "version 1 and step 20, got 1 and 21"),
        (rb"\"format_version\":1", rb"\"format_version\":2", "version 1 and step 20, got 2 and 20"),
        (rb"\"tokens\":7000", rb"\"tokens\":true", "tokens: expected a valid integer"),
        (b"about", b"other", "about"),
        (b"decoder.position", b"decoder.positiom", "decoder.position|altered"),
        (b"U8", b"I8", "altered"),
        (b"\x00\x00", b"\x00\x01", "altered"),
        (None, b"", "damaged"),
    ],
)
def test_damaged_files_of_neurons_are_refused(
    tmp_path: Path, old: bytes | None, new: bytes, message: str
) -> None:
    write_neurons(tmp_path, made_up_neurons())
    path = neurons_path(tmp_path, 20)
    content = path.read_bytes()
    if old is None:
        path.write_bytes(content[:-9])
    else:  # the last one: of the tensors if it is there too
        before, found, after = content.rpartition(old)
        assert found
        path.write_bytes(before + new + after)
    with pytest.raises(
        CheckpointError, match=rf"neurons-0000020\.safetensors: .*{message}.*again$"
    ):
        read_neurons(tmp_path, 20)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (made_up_neurons(sentences=made_up_neurons().sentences[:1]), "expected places in 1 sent"),
        (with_activation(np.inf), "expected finite numbers"),
        (made_up_neurons(step=21), "neurons-0000020"),
    ],
)
def test_places_of_none_are_refused(
    tmp_path: Path, written: StrongestSentences, message: str
) -> None:
    write_neurons(tmp_path, written)
    with pytest.raises(CheckpointError, match=message):
        read_neurons(tmp_path, 20)


# Records of a checkpoint in files of their own


Make = Callable[..., CheckpointRecord]


@pytest.fixture(params=[made_up_means, made_up_costs, made_up_resamples])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_records_survive_writing_and_reading(tmp_path: Path, make: Make) -> None:
    written = make()
    kept = type(written)
    assert kept.read(tmp_path, 20) is None
    written.write(tmp_path)
    read = kept.read(tmp_path, 20)
    assert read is not None
    assert (read.run, read.step, read.sha256, read.corpus) == ("tiny", 20, "5ha", written.corpus)
    expected = written.arrays()
    assert {*read.arrays()} == {*expected}
    for name, array in read.arrays().items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r'\\"step\\":20', r'\\"step\\":21', "expected format version 1 and step 20, got 1 and 21"),
        (r'format_version\\":1', r'format_version\\":2', "got 2 and 20"),
        (r'\\"sentences\\":600', r'\\"sentences\\":601', "its sha256 is not that of its content"),
        ('"F(32|16)"', r'"I\1"', "finite numbers of type float"),
        ('"cross"', '"crosz"', "expected tensors .*cross, got .*crosz"),
        ('"about"', '"abuot"', "about"),
        ("(?s)(.{250}).*", r"\1", ""),
        ("(?s)(.*).(.)", r"\1\0\2", "sha256|finite"),
    ],
)
def test_damaged_or_foreign_files_are_refused(
    tmp_path: Path, make: Make, old: str, new: str, message: str
) -> None:
    record = make()
    record.write(tmp_path)
    path = record.path(tmp_path, 20)
    content = path.read_bytes().decode("latin-1")
    changed = re.sub(old, new, content, count=1)
    assert changed != content
    path.write_bytes(changed.encode("latin-1"))
    refused = rf"the {record.what} of step 20, or damaged .*{message}.*measure again"
    with pytest.raises(CheckpointError, match=refused):
        type(record).read(tmp_path, 20)


def test_odd_numbers_are_refused_in_files(tmp_path: Path, make: Make) -> None:
    """NaN, too, but in resamples, in which a measure may have no value."""
    for odd in (np.inf, np.nan):
        record = make()
        record.arrays()[next(n for n in record.arrays() if n.endswith("_cross"))][-1, -1] = odd
        record.write(tmp_path)
        if record.may_be_nan and np.isnan(odd):
            assert type(record).read(tmp_path, 20) is not None
            continue
        with pytest.raises(CheckpointError, match="cross: expected finite numbers"):
            type(record).read(tmp_path, 20)


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (made_up_costs, {"tokens": np.array([9, 7, 8, 0], np.int32)}, "tokens in each"),
        (made_up_costs, {"places": np.array([0, 1, 2], np.int32)}, r"expected \(N = 3\), got"),
        (made_up_resamples, {"cross": np.s_[1:]}, r"expected \(measure = 18, resample = 5"),
        (made_up_resamples, {"cross": np.s_[:, 1:]}, r"expected \(measure = 18, resample = 5"),
        (made_up_means, {"cross": np.s_[0]}, r"expected \(L of cross, H of cross, K of cross\)"),
    ],
)
def test_arrays_not_fitting_are_refused(make: Make, change: dict[str, Any], message: str) -> None:
    made = make()
    if "cross" in change:
        name = next(name for name in ("means", "deviations") if hasattr(made, name))
        of_kinds = getattr(made, name)
        change = {name: {**of_kinds, "cross": of_kinds["cross"][change["cross"]]}}
    with pytest.raises(ValueError, match=message):
        replace(made, **change)


def test_files_from_before_scores_were_resampled_have_all_else(tmp_path: Path) -> None:
    made = made_up_resamples()
    assert made.names == RESAMPLED
    deviations = {kind: of_kind[:15] for kind, of_kind in made.deviations.items()}
    made_up_resamples(deviations=deviations).write(tmp_path)
    read = Resamples.read(tmp_path, 20)
    assert read is not None
    assert read.names == tuple(name for name in made.names if not name.startswith("by_"))
    head = Head("cross", 1, 2)
    np.testing.assert_array_equal(read.of("velocity", head), made.of("velocity", head))
    with pytest.raises(ValueError, match="expected resamples of 18 measures"):
        made_up_resamples(deviations={k: of[:7] for k, of in made.deviations.items()})
