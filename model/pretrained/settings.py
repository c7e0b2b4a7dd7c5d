"""The configuration of a Hugging Face folder and its settings of generation, checked when read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, GenerationConfig

from headwise.model.files import CheckpointError, read_json
from headwise.model.pretrained.families import family_of
from headwise.model.pretrained.quiet import quiet

_MOST = {"layers": 1_000, "max_position_embeddings": 100_000}
_MOST_OF_OTHERS = 10_000_000
"""The largest numbers of a configuration, by how their names end: larger models fill the memory
before anything can say that they do not fit."""
_NOT_DONE: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_eos_token_id": (),
    "begin_suppress_tokens": ([],),
    "exponential_decay_length_penalty": (),
    "sequence_bias": ({},),
}
"""Settings of generation that our decoding does not have, and values that ask for nothing."""


def read_config(folder: Path) -> Any:
    """Read the configuration of a model.

    Raises:
        CheckpointError: if it is missing or broken, of a family that cannot be opened, or of a
            model too large for any memory.
    """
    path = folder / "config.json"
    values = read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected an object, got {type(values).__name__}")
    family_of(values.get("model_type"), path)
    _check_sizes(values, path)
    try:
        with quiet():
            return AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # its validation raises whatever it met
        raise CheckpointError(f"{path}: not a configuration ({error!s:.200})") from error


def _check_sizes(values: dict[str, Any], path: Path) -> None:
    for name, value in values.items():
        limits = (limit for end, limit in _MOST.items() if name.endswith(end))
        most = next(limits, _MOST_OF_OTHERS)
        if isinstance(value, int | float) and not -most <= value <= most:
            raise CheckpointError(f"{path}: {name}: expected at most {most:,}, got {value}")


def read_generation(folder: Path) -> GenerationConfig:
    """Read the settings of generation; older models have them in their configuration.

    Raises:
        CheckpointError: if they are broken.
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        path = path.with_name("config.json")
    with quiet():
        try:
            return GenerationConfig.from_pretrained(
                folder,
                config_file_name=path.name,
                local_files_only=True,
                _from_model_config=path.name == "config.json",
            )
        except Exception as error:  # its validation raises whatever it met
            raise CheckpointError(
                f"{path}: no settings of generation can be read ({error!s:.200}); restore the file"
            ) from error


def settings_not_followed(generation: GenerationConfig) -> dict[str, Any]:
    """Return settings of generation that our decoding does not follow: names and values."""
    ignored = {
        name: value
        for name, without in _NOT_DONE.items()
        if (value := getattr(generation, name, None)) is not None and value not in without
    }
    if longer := [ids for ids in generation.bad_words_ids or () if len(ids) > 1]:
        ignored["bad_words_ids"] = longer
    ends = generation.eos_token_id
    if isinstance(ends, list) and len(ends) > 1:
        ignored["eos_token_id"] = ends[1:]
    return ignored
