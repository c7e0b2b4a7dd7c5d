"""What a Hugging Face folder has beside weights; no model is loaded.

What its training logged, the configuration and the settings of generation, checked when they are
read, and which of these our decoding does not follow. ``transformers`` is imported only where it
reads them.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.model.budget import why_too_large
from headwise.model.files import MOST_BYTES, CheckpointError, check_regular, read_json
from headwise.model.pretrained.adapters import CONFIG
from headwise.model.pretrained.checkpoint_folder import run_folder_of, state_path, trainer_state
from headwise.model.pretrained.checkpoints import checkpoint_folders
from headwise.model.pretrained.families import families_of
from headwise.model.pretrained.weights_files import INDEX
from headwise.model.weights import read_header

if TYPE_CHECKING:
    from transformers import GenerationConfig

_QUIET = 600.0
"""Seconds for which a training is waited for that has not said how often it writes."""
_READ = (".json", ".safetensors", ".spm", ".model", ".txt", ".jinja")
"""Endings of the files of a folder that may be read."""
LOGGED = {
    "loss": "train_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "gradient_norm",
    "eval_loss": "valid_loss",
    "eval_bleu": "bleu",
    "eval_chrf": "chrf",
}
"""What the Trainer logs, and its name in the log of our trainings."""
_NOT_MEASURED = re.compile(
    r"step|epoch|total_flos|train_loss|.*(_runtime|_per_second|_preparation_time|_mem_\w+)"
)
"""What else it logs that is no curve: when, how fast, and the mean loss of the whole training."""
_SETTINGS = ("config.json", "generation_config.json", CONFIG)
MOST_BYTES_OF = {"tokenizer.json": 48 * 2**20} | dict.fromkeys(_SETTINGS, 2**20)
MOST_BYTES_OF |= dict.fromkeys(
    (
        *(INDEX, "chat_template.jinja"),
        *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
        *("vocab.json", "target_vocab.json", "merges.txt", "vocab.txt", "source.spm", "target.spm"),
        *("spiece.model", "sentencepiece.bpe.model"),
    ),
    MOST_BYTES,
)
"""Bytes of the files that are read whole, at most. Gemma's vocabulary has 35 MB."""
_MOST = {"layers": 1_000, "max_position_embeddings": 200_000, "labels": 10_000}
_MOST_OF_OTHERS = 10_000_000
"""The largest numbers of a configuration, by how their names end: larger models fill the memory
before anything can say that they do not fit."""
_SIZES = ("layers", "heads", "positions", "distance", "buckets", "d_model", "d_kv", "d_ff", "_dim")
"""How names of numbers end that must be at least 1."""


def check_files(folder: Path) -> None:
    """Check all files of a folder that ``transformers`` may open by itself, whatever they are.

    One that is no regular file, is too large, or leads out of the training, is a CheckpointError.
    """
    within = run_folder_of(folder)
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ and not path.is_dir():
            check_regular(path, within=within, most=MOST_BYTES_OF.get(path.name))
            if path.suffix == ".safetensors":  # it is mapped into memory, its header is read
                read_header(path, within=within)
                if told := why_too_large(path.stat().st_size // 2):  # in the shortest type
                    raise CheckpointError(f"{path}: {told}")


def log_path(folder: Path) -> Path:
    """Return the file with what the training has logged up to its newest checkpoint."""
    states = [state_path(place) for place in checkpoint_folders(folder).values()]
    written = [state for state in states if state.is_file()]
    return (written or states or [state_path(folder)])[-1]


def seems_to_train(folder: Path) -> bool:
    """Return whether the Trainer seems to be at work in a folder.

    It does if its newest checkpoint is not of the last step that was planned, and no older than
    three times what lay between that and the one before, or ten minutes.
    """
    path = log_path(folder)
    states = [state_path(place) for place in checkpoint_folders(folder).values()]
    written = sorted(state.stat().st_mtime for state in states if state.is_file())
    if not written:
        return False
    between = written[-1] - written[-2] if len(written) > 1 else 0
    if time.time() - written[-1] > max(3 * between, _QUIET):
        return False
    state = trainer_state(path.parent)
    step, steps = state.get("global_step"), state.get("max_steps")
    return isinstance(step, int) and isinstance(steps, int) and step < steps


def trainer_log(path: Path) -> list[dict[str, Any]]:
    """Read the finite numbers that the Trainer logged, named as in our log what that has, too."""
    history = trainer_state(path.parent).get("log_history", [])
    rows = []
    for row in history if isinstance(history, list) else []:
        step = row.get("step") if isinstance(row, dict) else None
        if type(step) is int and step >= 0:
            own = {k: v for k, v in row.items() if not _NOT_MEASURED.fullmatch(k)}
            ours = {LOGGED[name]: own.pop(name) for name in LOGGED if name in own}
            numbers = {k: v for k, v in (own | ours).items() if type(v) in (int, float)}
            finite = {k: v for k, v in numbers.items() if abs(v) <= sys.float_info.max}
            rows.append({"step": step} | finite)
    return rows


@contextmanager
def quiet() -> Iterator[None]:
    """Load something without progress bars, advice and warnings; errors are raised as ever."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def read_config(folder: Path) -> Any:
    """Read the configuration of a model; a CheckpointError says why it cannot be opened."""
    path = folder / "config.json"
    check_files(folder)
    values = read_settings(path)
    families_of(values, path)
    if values.get("quantization_config") is not None:
        raise CheckpointError(
            f"{path}: the weights are quantised (quantization_config), so that what heads write "
            "cannot be read from them; open the model that they were made of"
        )
    from transformers import AutoConfig

    try:
        with quiet():
            return AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # its validation raises whatever it met
        raise CheckpointError(f"{path}: not a configuration ({error!s:.200})") from error


def read_settings(path: Path) -> dict[str, Any]:
    """Read a configuration, whose sizes are checked, or settings of generation, as written."""
    values = read_json(path, most=MOST_BYTES_OF[path.name])
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected an object, got {type(values).__name__}")
    if path.name == "config.json":
        _check_sizes(values, path)
    return values


def _check_sizes(values: dict[str, Any], path: Path) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and name != "task_specific_params":
            _check_sizes(value, path)
        limits = (limit for end, limit in _MOST.items() if name.endswith(end))
        most = next(limits, _MOST_OF_OTHERS)
        if isinstance(value, int | float) and not -most <= value <= most:
            raise CheckpointError(f"{path}: {name}: expected at most {most:,}, got {value}")
        if type(value) is int and value < 1 and name.endswith(_SIZES):
            raise CheckpointError(f"{path}: {name}: expected at least 1, got {value}")


def read_generation(folder: Path) -> GenerationConfig:
    """Read the settings of generation; older models have them in their configuration."""
    path = folder / "generation_config.json"
    if not path.is_file():
        path = path.with_name("config.json")
    read_settings(path)
    from transformers import GenerationConfig

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


_NOT_DONE: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "length_penalty": (1.0,),
    "early_stopping": (False,),
    "do_sample": (False,),
    "temperature": (1.0,),
    "top_k": (0,),
    "top_p": (1.0,),
    "min_p": (0.0,),
    "top_h": (),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "penalty_alpha": (0.0,),
    "dola_layers": (),
    "guidance_scale": (1.0,),
    "max_length": (),
    "max_new_tokens": (),
    "max_time": (),
    "stop_strings": ([], ""),
    "num_return_sequences": (1,),
    "constraints": ([],),
    "force_words_ids": ([],),
    "token_healing": (False,),
    "watermarking_config": (),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_eos_token_id": (),
    "begin_suppress_tokens": ([],),
    "exponential_decay_length_penalty": (),
    "sequence_bias": ({}, []),
}
"""Settings of generation that greedy decoding does not have, and values that ask for nothing."""


def settings_not_followed(generation: GenerationConfig) -> dict[str, Any]:
    """Return settings of generation that greedy decoding does not follow: names and values."""
    ignored = {
        name: value
        for name, without in _NOT_DONE.items()
        if (value := getattr(generation, name, None)) is not None and value not in without
    }
    if longer := [ids for ids in generation.bad_words_ids or () if len(ids) > 1]:
        ignored["bad_words_ids"] = longer
    return ignored
