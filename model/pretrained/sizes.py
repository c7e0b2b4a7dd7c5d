"""Whether a configuration can be that of the weights beside it, before memory is taken for it.

A few bytes of a configuration can describe a model of any size. Its weights are in files, whose
headers say how many there are: what does not fit is refused before it is built, or filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from headwise.model.files import CheckpointError
from headwise.model.pretrained.weights_files import shapes_in, tensors_in

_WIDTHS = ("d_model", "d_ff", "hidden_size", "intermediate_size", "ffn_dim")
"""How names of numbers end that are the length of an axis of some tensor. (Not ``vocab_size``: of
T5Gemma, the whole has one that no part uses.)"""
_LEAST_OF_LAYER = 6
"""Tensors that each layer of any family has, and more."""
_MOST_COMPUTED = 4 * 2**20
"""Numbers that a model may have without a file: tables of positions, which it computes."""
_OF_IMAGES = "vision_config"

Shapes = Mapping[str, Sequence[int]]


def check_sizes(values: Mapping[str, Any], files: Sequence[Path], path: Path) -> None:
    """Check the sizes of a configuration, which was read from ``path``, against weights.

    Raises:
        CheckpointError: if one is larger than the weights can have it.
    """
    try:
        shapes = shapes_in(files).values()
    except CheckpointError:
        return  # loading them says why
    longest = max((length for shape in shapes for length in shape), default=0)
    for name, value in _sizes(values):
        most = len(shapes) // _LEAST_OF_LAYER if name.endswith("layers") else longest
        if value > most:
            raise CheckpointError(
                f"{path}: {name}: expected at most {most:,} by the weights beside it, got "
                f"{value:,}; are these the weights of this config.json?"
            )
    for of_stack in (values, values.get("encoder"), values.get("decoder")):
        given = of_stack if isinstance(of_stack, Mapping) else {}
        positions, width = given.get("max_position_embeddings"), given.get("d_model")
        if type(positions) is int and type(width) is int:
            most = max(sum(map(math.prod, shapes)), _MOST_COMPUTED) // width
            if positions > most:
                raise CheckpointError(
                    f"{path}: max_position_embeddings: expected at most {most:,} of a model of "
                    f"this size, got {positions:,}"
                )


def _sizes(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and name != _OF_IMAGES:
            yield from _sizes(value)
        elif type(value) is int and name.endswith((*_WIDTHS, "layers")):
            yield name, value


def check_shapes(expected: Shapes, numbers: int, files: Sequence[Path]) -> None:
    """Check the tensors that files have against those of a model that was built without memory.

    ``numbers`` is how many its weights are, tied ones once.

    Raises:
        CheckpointError: if one of a name is of another shape, or there are by far too few.
    """
    try:
        places, shapes = tensors_in(files, expected.keys()), shapes_in(files)
    except (CheckpointError, SafetensorError, OSError, ValueError):
        return  # loading them says why
    odd = [
        f"{name} (expected {tuple(expected[name])}, got {shapes[place]})"
        for name, place in sorted(places.items())
        if name in expected and tuple(expected[name]) != shapes[place]
    ]
    if odd:
        raise CheckpointError(
            f"{files[0]}: misshapen tensors: {', '.join(odd[:3])}; are these the weights of this "
            "config.json?"
        )
    there = sum(map(math.prod, shapes.values()))
    if numbers > 2 * there + _MOST_COMPUTED:
        raise CheckpointError(
            f"{files[0]}: the model of config.json has {numbers:,} weights, these files {there:,}; "
            "are these the weights of this config.json?"
        )
