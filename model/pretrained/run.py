"""A folder of a Hugging Face model, or of a training with several checkpoints, as a run.

A folder with ``config.json`` and safetensors has one checkpoint. A folder with ``checkpoint-500``,
``checkpoint-1000``, … has one for each, as the Trainer writes them; those that a training still
writes appear when they are complete. Where these are adapters, the model that they are of is the
checkpoint of step 0. Nothing is ever written there, and pickles are not read.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

from headwise.model.budget import why_too_large
from headwise.model.checkpoint import Checkpoint
from headwise.model.files import CheckpointError, check_regular, read_bytes
from headwise.model.interface import Choices, Description, Languages, Origin
from headwise.model.pretrained import adapters, folders
from headwise.model.pretrained.adapters import is_adapter
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.checkpoint_folder import (
    MODEL_CONFIG,
    OF_TRAINER,
    base_folder,
    config_folder,
    new_vocabulary,
    run_folder_of,
    stamp_of,
    trainer_state,
)
from headwise.model.pretrained.checkpoints import find_checkpoints, weights_by_step
from headwise.model.pretrained.copies import Modules
from headwise.model.pretrained.families import FAMILIES
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.tokenizers import (
    TARGET_TOKENIZER,
    PretrainedTokenizers,
    choices_of,
    load_tokenizer,
)
from headwise.model.pretrained.weights_files import (
    check_shapes,
    check_sizes,
    shapes_in,
    tensors_in,
    weights_files,
)
from headwise.model.weights import require_finite, require_whole

# (GPT-2 once saved the causal mask.)
_IN_LAYER = re.compile(r"\.(layers?|block|h)\.\d+\.(?!(attn|crossattention)\.(masked_)?bias$)")


@dataclass(frozen=True)
class PretrainedRun:
    """An opened Hugging Face model, or the checkpoints of its training; ``Run`` describes it."""

    folder: Path
    name: str
    languages: Languages = field(default_factory=Languages)
    """The languages that were chosen, of a model that knows several."""
    # Such a folder does not say what it was trained on, nor with settings of ours.
    data = training = config = counts = None

    @cached_property
    def _named(self) -> dict[int, Path]:
        """Folders that were found, whose names say their steps."""
        return {}

    @cached_property
    def _modules(self) -> dict[torch.dtype, Modules]:
        """The modules of the first checkpoint that was loaded in a type."""
        return {}

    def _folder_of(self, step: int) -> Path:
        # Among hundreds, to look for all of them takes longer than to load one.
        if step in self._named and weights_files(self._named[step]):
            return self._named[step]
        checkpoints = weights_by_step(self.folder)
        self._named.update((s, p) for s, p in checkpoints.items() if OF_TRAINER.fullmatch(p.name))
        if step not in checkpoints:
            known = ", ".join(f"{s:,}" for s in checkpoints)
            raise CheckpointError(
                f"{self.folder}: no weights of step {step:,}; there are those of: "
                + ". ".join([known, *self.remarks])
            )
        return checkpoints[step]

    def steps(self) -> list[int]:
        return list(weights_by_step(self.folder))

    def weights_path(self, step: int) -> Path:
        return weights_files(self._folder_of(step))[0]

    @property
    def _newest(self) -> Path:
        return list(weights_by_step(self.folder).values())[-1]

    @property
    def _base_folder(self) -> Path:
        return base_folder(self._newest)

    @property
    def _model_folder(self) -> Path:
        return config_folder(self._base_folder)

    @property
    def adapter(self) -> str:
        if not is_adapter(self._newest):
            return ""
        kind = adapters.adapter_kind(self._newest, within=run_folder_of(self._newest))
        first = next(iter(weights_by_step(self.folder).values()))
        without = "; step 0 is without it" if first == self._base_folder else ""
        return f"adapter ({kind}) of {self._base_folder.name}{without}"

    @property
    def remarks(self) -> list[str]:
        return find_checkpoints(self.folder).remarks

    @cached_property
    def _config(self) -> Any:
        return folders.read_config(self._model_folder)

    @cached_property
    def _built(self) -> tuple[Any, dict[str, torch.Size], int]:
        """The model without weights; their shapes and how many they are, tied ones once."""
        path = self._model_folder / MODEL_CONFIG
        check_sizes(folders.read_settings(path), weights_files(self._base_folder), path)
        with folders.quiet(), torch.device("meta"):
            inner = AutoModelForSeq2SeqLM.from_config(
                copy.deepcopy(self._config), attn_implementation=ATTENTION
            )
        shapes = {name: tensor.shape for name, tensor in inner.state_dict().items()}
        return inner, shapes, _count(inner)

    @cached_property
    def _empty(self) -> PretrainedModel:
        """The model without weights, to read its properties from."""
        try:
            inner, shapes, numbers = self._built
            check_shapes(shapes, numbers, weights_files(self._base_folder))
            with folders.quiet(), torch.device("meta"):
                inner.generation_config = self._generation
                _untie(inner, weights_files(self._base_folder))
                if is_adapter(newest := self._newest):
                    if (tokens := new_vocabulary(newest)) is not None:
                        adapters.resize(inner, tokens)
                        files = [*weights_files(self._base_folder), *weights_files(newest)]
                        check_shapes({}, _count(inner), files)
                    adapters.untie_saved(inner, newest, within=run_folder_of(newest))
                _drop_images(inner)
                return PretrainedModel(inner)
        except CheckpointError:
            raise
        except Exception as error:  # modules raise whatever they meet in a configuration
            raise self._no_model(error) from error

    def _no_model(self, error: Exception) -> CheckpointError:
        path = self._model_folder / MODEL_CONFIG
        return CheckpointError(f"{path}: no model can be built from it ({error!s:.200})")

    @cached_property
    def _generation(self) -> GenerationConfig:
        return folders.read_generation(self._model_folder)

    @cached_property
    def ignored_settings(self) -> dict[str, Any]:
        return folders.settings_not_followed(self._generation)

    @property
    def source_language(self) -> str:
        """Return the chosen source language, or that of a Marian's tokenizer; "" if not known."""
        return self.languages.source or self._language("source_lang")

    @property
    def target_language(self) -> str:
        """Return the chosen target language, or that of a Marian's tokenizer; "" if not known."""
        return self.languages.target or self._language("target_lang")

    def _language(self, name: str) -> str:
        language = getattr(self._tokenizer, name, None)
        return language if isinstance(language, str) else ""

    @property
    def planned_steps(self) -> int | None:
        steps = trainer_state(folders.log_path(self.folder).parent).get("max_steps")
        return steps if isinstance(steps, int) and steps > 0 else None

    @property
    def description(self) -> Description:
        return self._empty.description

    @cached_property
    def parameters(self) -> int:
        return _count(self._empty.inner)

    @cached_property
    def _tokenizer_folder(self) -> Path:
        names = ("tokenizer_config.json", "tokenizer.json", "vocab.json", "vocab.txt")
        above = run_folder_of(self._newest)
        for folder in (self._newest, self.folder, above, self._model_folder):
            if any((folder / name).is_file() for name in names):
                return folder
        raise CheckpointError(
            f"{self._newest}: there is no tokenizer; save it beside the model: "
            "tokenizer.save_pretrained(folder), or Seq2SeqTrainer(…, processing_class=tokenizer)"
        )

    def for_languages(self, languages: Languages) -> PretrainedRun:
        return replace(self, languages=languages)

    @cached_property
    def choices(self) -> Choices:
        return choices_of(self._tokenizer, self._config, self._generation)

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._tokenizer_folder, max(self.description.vocab_sizes))

    @cached_property
    def tokenizers(self) -> PretrainedTokenizers:
        folder, sizes = self._tokenizer_folder, self.description.vocab_sizes
        own_target = folder / TARGET_TOKENIZER
        return PretrainedTokenizers(
            load_tokenizer(folder, max(sizes)),
            self._empty.special_ids,
            config=self._config,
            generation=self._generation,
            sizes=sizes,
            languages=self.languages,
            own_target=load_tokenizer(own_target, max(sizes)) if own_target.is_dir() else None,
            place=str(folder),
        )

    @cached_property
    def tokenizers_sha256(self) -> str:
        digest = hashlib.sha256(repr(self.languages).encode())
        for path in sorted(self._tokenizer_folder.iterdir()):
            if path.suffix in (".json", ".spm", ".model", ".txt") and path.is_file():
                digest.update(path.name.encode())
                check_regular(path)
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def metrics(self) -> list[dict[str, Any]]:
        return folders.trainer_log(folders.log_path(self.folder))

    def load(self, step: int, dtype: torch.dtype = torch.float32) -> Checkpoint:
        """Load a step in this type, in evaluation mode; what is damaged is a CheckpointError.

        (In float16, T5's ``wo`` stays float32: its products are too large for the shorter type.)
        """
        adapter = self._folder_of(step)
        folder = base_folder(adapter)
        folders.check_files(folder)
        files = weights_files(folder)
        _, shapes, numbers = self._built
        check_shapes(shapes, numbers, files)
        if told := why_too_large(numbers * dtype.itemsize):
            raise CheckpointError(f"{files[0]}: {told}")
        again = self._loaded_again(files, dtype) if folder == adapter else None
        inner = self._loaded(files, dtype) if again is None else again
        if folder != adapter:
            folders.check_files(adapter)
            files = weights_files(adapter)
            with folders.quiet():
                if (tokens := new_vocabulary(adapter)) is not None:
                    adapters.resize(inner, tokens)
                inner = adapters.merge(inner, adapter, within=run_folder_of(adapter))
        for name, tensor in itertools.chain(inner.named_parameters(), inner.named_buffers()):
            require_finite(files[0], name, tensor)
        _drop_images(inner)
        inner.generation_config = self._generation
        modules = None
        if again is None and folder == adapter and len(weights_by_step(self.folder)) > 1:
            with suppress(ValueError, RuntimeError):  # each is loaded as the first then
                modules = Modules(inner, _read_all(tensors_in(files, shapes)))
        try:
            model = PretrainedModel(inner, reached=again is not None)
        except ValueError as error:
            raise self._no_model(error) from error
        if modules is not None:
            self._modules[dtype] = modules
        model.origin = Origin(self.name, step, self.sha256(step))
        return Checkpoint(model)

    def _loaded(self, files: Sequence[Path], dtype: torch.dtype) -> Any:
        """Load the whole weights of a checkpoint as ``transformers`` does."""
        empty = self._empty.inner
        try:
            places = tensors_in(files, empty.state_dict().keys())
            with folders.quiet(), ExitStack() as stack:
                opened = {path: stack.enter_context(safe_open(path, "pt")) for path in files}
                inner, found = type(empty).from_pretrained(
                    None,
                    state_dict={
                        n: opened[file].get_slice(its) for n, (file, its) in places.items()
                    },
                    config=copy.deepcopy(self._config),
                    attn_implementation=ATTENTION,
                    dtype=dtype,
                    output_loading_info=True,
                    ignore_mismatched_sizes=True,  # they are refused below, with their names
                )
        except Exception as error:  # its loaders raise whatever they meet
            raise CheckpointError(
                f"{files[0]}: the weights cannot be loaded ({error!s:.200}); restore the file"
            ) from error
        wrong = {
            "missing": found["missing_keys"],
            "misshapen": [
                f"{name} (expected {tuple(expected)}, got {tuple(got)})"
                for name, got, expected in found["mismatched_keys"]
            ],
            "spare": filter(_IN_LAYER.search, found["unexpected_keys"]),
        }
        for what, names in wrong.items():
            if tensors := sorted(names):
                others = sorted(found["unexpected_keys"])[:1] if what == "missing" else []
                raise CheckpointError(
                    f"{files[0]}: {what} tensors: {', '.join(tensors[:3])}"
                    + "".join(f" (there is {name})" for name in others)
                    + "; are these the weights of this config.json?"
                )
        return inner

    def _loaded_again(self, files: Sequence[Path], dtype: torch.dtype) -> Any:
        """Fill the modules of another checkpoint; None where none fit, or a file cannot be read."""
        if (modules := self._modules.get(dtype)) is None:
            return None
        with suppress(CheckpointError, SafetensorError, OSError):
            places, shapes = tensors_in(files, self._built[1]), shapes_in(files)
            if modules.fit({name: shapes[place] for name, place in places.items()}):
                return modules.filled(_read_all(places))
        return None

    def sha256(self, step: int) -> str:
        digest = hashlib.sha256()
        folder = self._folder_of(step)
        for place in dict.fromkeys((base_folder(folder), folder)):
            folders.check_files(place)
            for path in weights_files(place):
                require_whole(path)
                digest.update(_digest(path, stamp_of(path)))
        if is_adapter(folder):  # which scales its weights
            digest.update(read_bytes(folder / adapters.CONFIG, within=run_folder_of(folder)))
        return digest.hexdigest()


@lru_cache(maxsize=1024)
def _digest(path: Path, _stamp: tuple[int, int] | None) -> bytes:
    """Return the sha256 of a file, which is read once for each stamp: loading asks for it, too."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _count(inner: Any) -> int:
    return sum(parameter.numel() for parameter in inner.parameters())


def _drop_images(inner: Any) -> None:
    """Take out of a model what only images go through."""
    family = FAMILIES.get(inner.config.model_type)
    for name in family.for_images if family else ():
        delattr(inner.get_encoder(), name)


def _untie(inner: Any, files: Sequence[Path]) -> None:
    """Give a model without weights one more where the files have two that differ, not one.

    Configurations may call weights tied that are not, as those of T5 1.1 do.
    """
    try:
        places = tensors_in(files, inner.state_dict().keys())
    except (SafetensorError, OSError):
        return  # loading it says why
    for one, other in inner.all_tied_weights_keys.items():
        if one in places and other in places:
            tensors = _read_all({name: places[name] for name in (one, other)})
            if not torch.equal(*tensors.values()):
                module, _, name = one.rpartition(".")
                empty = torch.nn.Parameter(torch.empty_like(inner.get_parameter(one)))
                setattr(inner.get_submodule(module), name, empty)


def _read_all(places: Mapping[str, tuple[Path, str]]) -> dict[str, torch.Tensor]:
    """Return the tensors at these places, where their files are mapped into memory."""
    with ExitStack() as stack:
        files = {path for path, _ in places.values()}
        opened = {path: stack.enter_context(safe_open(path, "pt")) for path in files}
        return {name: opened[path].get_tensor(its) for name, (path, its) in places.items()}
