"""Adapters of PEFT: folders whose weights are a change of those of another model, their base.

LoRA (Hu et al. 2022) and IA³ (Liu et al. 2022) are merged into the weights of the base, in memory.
``peft``, which does that, is an extra, and imported only when one is opened. ``within`` is the
folder of the adapter's training. What cannot be used raises a ``CheckpointError``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from headwise.model.files import CheckpointError, read_json
from headwise.model.weights import shapes_of

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
MERGED = {"LORA": "LoRA", "IA3": "IA³"}
"""Kinds that can be opened, by their names in the configuration."""
_EMBEDDING = re.compile(
    r".*\b(shared|embed_tokens|word_embeddings|wte|lm_head)\."
    r"(modules_to_save\.|token_adapter\.)?(base_layer\.)?(?P<kind>weight|lora_embedding_A)"
)
"""Tensors of an adapter that have a row, or of which one a column, for each token."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has an adapter and no whole model."""
    whole = ("model.safetensors", "model.safetensors.index.json")
    return (folder / CONFIG).is_file() and not any((folder / name).is_file() for name in whole)


def adapter_kind(folder: Path, *, within: Path) -> str:
    """Return the name of the kind of an adapter; one that cannot be opened is a CheckpointError."""
    kind = _read(folder, within).get("peft_type")
    if kind not in MERGED:
        raise CheckpointError(
            f"{folder / CONFIG}: an adapter of the kind {kind!r:.40}; those that are opened are "
            f"{' and '.join(MERGED.values())}, which are changes of weights"
        )
    if find_spec("peft") is None:
        raise CheckpointError(
            f"{folder}: an adapter, for which PEFT is needed: pip install 'headwise[adapters]', or "
            "pip install peft"
        )
    return MERGED[kind]


def base_of(folder: Path, *, within: Path) -> Path:
    """Return the folder of an adapter's model, beside it or its training, or in the hub's cache."""
    values = _read(folder, within)
    name, revision = values.get("base_model_name_or_path"), values.get("revision")
    if not isinstance(name, str) or not name:
        raise CheckpointError(
            f"{folder / CONFIG}: it does not name its model; write the path of that model's "
            "folder there, as base_model_name_or_path"
        )
    for start in (Path(), folder, within):
        if (start / Path(name).expanduser() / "config.json").is_file():
            return (start / Path(name).expanduser()).resolve()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        if _HUB_NAME.fullmatch(name):
            revision = revision if isinstance(revision, str) else None
            return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError):
        pass
    raise CheckpointError(
        f"{folder / CONFIG}: an adapter of the model {name!r:.100}, which is neither a folder with "
        "config.json nor in the cache of the hub; open that name once, or write the path of its "
        "folder there, as base_model_name_or_path"
    )


def _read(folder: Path, within: Path) -> dict[str, Any]:
    values = read_json(folder / CONFIG, within=within)
    if not isinstance(values, dict):
        raise CheckpointError(f"{folder / CONFIG}: expected an object; restore the file")
    return values


def vocabulary_of(folder: Path, *, within: Path, base: int) -> int:
    """Return how many tokens an adapter's model has, by what was saved; its base has ``base``."""
    sizes = []
    try:
        with safe_open(folder / WEIGHTS, "pt") as file:
            names = list(file.keys())
            for name in filter(None, map(_EMBEDDING.fullmatch, names)):
                axis = 1 if name["kind"] == "lora_embedding_A" else 0
                sizes.append(file.get_slice(name[0]).get_shape()[axis])
    except (SafetensorError, OSError):
        return base  # merging it says why
    if sizes:
        return int(max(sizes))
    indices = _read(folder, within).get("trainable_token_indices")
    lists = indices.values() if isinstance(indices, dict) else [indices]
    tokens = [i for some in lists if isinstance(some, list) for i in some if isinstance(i, int)]
    return max([base, *(token + 1 for token in tokens)])


def resize(model: Any, tokens: int) -> None:
    """Give a base the tokens of its adapter: new ones are random, though always the same."""
    if model.get_input_embeddings().weight.shape[0] != tokens:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model.resize_token_embeddings(tokens, mean_resizing=False)


def untie_saved(model: Any, folder: Path, *, within: Path) -> None:
    """Make a module that an adapter brings whole, in a model without weights, one of its own."""
    saved = _read(folder, within).get("modules_to_save") or []
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if any(isinstance(end, str) and name.endswith(end) for end in saved):
            model.set_submodule(name, copy.deepcopy(module))


def merge(model: Any, folder: Path, *, within: Path) -> Any:
    """Merge an adapter into its base, which is changed; return the base."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    _check_ranks(folder, within)
    try:
        adapted = PeftModel.from_pretrained(model, str(folder), local_files_only=True)
        used = get_peft_model_state_dict(adapted, save_embedding_layers=False)
        given = load_file(path)
        _require_untied(model, used)
        # PEFT leaves out what does not fit, and says so by a warning only.
        known = used | get_peft_model_state_dict(adapted, save_embedding_layers=True)
        odd = used.keys() - given.keys()
        odd |= {name for name, tensor in given.items() if not _is_same(tensor, known.get(name))}
        if odd:
            raise ValueError(f"{len(odd)} tensors fit nothing there, such as {sorted(odd)[0]}")
        return adapted.merge_and_unload()
    except Exception as error:  # PEFT raises whatever it meets
        raise CheckpointError(
            f"{path}: the adapter cannot be merged into its model ({error!s:.200}); is it of that "
            "model, and whole?"
        ) from error


def _check_ranks(folder: Path, within: Path) -> None:
    """Refuse ranks of LoRA that no tensor of the adapter has: PEFT makes matrices of them first."""
    values, shapes = _read(folder, within), shapes_of(folder / WEIGHTS, within=within)
    longest = max((length for shape in shapes.values() for length in shape), default=0)
    pattern = values.get("rank_pattern")
    of_modules = pattern.values() if isinstance(pattern, dict) else ()
    for rank in (values.get("r"), *of_modules):
        if isinstance(rank, int) and rank > longest:
            raise CheckpointError(
                f"{folder / CONFIG}: r: expected a rank of at most {longest:,} by the weights "
                f"beside it, got {rank:,}; are these the weights of this adapter?"
            )


def _require_untied(model: Any, used: Iterable[str]) -> None:
    """Refuse, by a ValueError, an adapter of weights that another module has, too.

    PEFT changes one of the two while they are apart, and both when they are merged.
    """
    tied = {name for pair in model.all_tied_weights_keys.items() for name in pair}
    for name in used:
        module = name.removeprefix("base_model.model.").partition(".lora_")[0]
        if module != name.removeprefix("base_model.model.") and f"{module}.weight" in tied:
            raise ValueError(f"{module} has its weights in common with another module")


def _is_same(given: torch.Tensor, used: torch.Tensor | None) -> bool:
    """Return whether PEFT uses a tensor as a file has it, perhaps in a longer type."""
    if used is None or used.shape != given.shape:
        return False
    return torch.allclose(used, given.to(used), rtol=0, atol=0, equal_nan=True)
