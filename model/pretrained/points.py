"""Hook points of a Hugging Face model, under the names that our own model has; are they reached?

A ``StackPoints`` has no weights: it is a tree of hook points beside a stack of ``transformers``,
whose modules pass their tensors through it by PyTorch hooks that are registered once and stay.

``B`` batch, ``S`` length, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headwise.model.hooks import HookPoint, capture, edit, matching_names
from headwise.model.interface import Stack
from headwise.model.pretrained.attention import AttentionPoints
from headwise.model.pretrained.families import Family, SublayerPaths
from headwise.model.pretrained.parts import find


def _pass_output(module: nn.Module, point: HookPoint) -> None:
    """Pass what a module returns, or the first part of it, through a hook point."""

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        if not point.in_use:
            return None
        return point(output) if isinstance(output, Tensor) else (point(output[0]), *output[1:])

    module.register_forward_hook(hook)


def _pass_input(module: nn.Module, point: HookPoint) -> None:
    """Pass the first argument of a module through a hook point."""

    def hook(_module: nn.Module, args: tuple[Any, ...]) -> Any:
        return (point(args[0]), *args[1:]) if point.in_use else None

    module.register_forward_pre_hook(hook)


def _pass_scaled(module: nn.Module, point: HookPoint, scale: float) -> None:
    """Pass what a module returns, times a factor that comes later, through a hook point."""

    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        if not point.in_use:
            return None
        scaled = output * scale
        passed = point(scaled)
        return None if passed is scaled else passed / scale

    module.register_forward_hook(hook)


def _pass_for_each_row(module: nn.Module, point: HookPoint, types: nn.Embedding | None) -> None:
    """Pass positions through a hook point for each row of the batch, also where all share them.

    The first argument of the module is the ids, (B, S), or that shape. ``types`` is a table of
    which the first row is added to all positions, and in use goes through the hook point with them.
    """

    def hook(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        if not point.in_use:
            return None
        rows, *_ = getattr(args[0], "shape", args[0])
        shared = output.view(-1, *output.shape[-2:])  # (1, S, D) or (B, S, D)
        # A copy, or an edit in place would change the table.
        own = shared.expand(rows, -1, -1).clone()
        return point(own if types is None else own + types.weight[0])

    def without_types(_module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        return torch.zeros_like(output) if point.in_use else None

    module.register_forward_hook(hook)
    if types is not None:
        types.register_forward_hook(without_types)


def _pass_halves(attention: nn.Module, project: Any, halves: tuple[Any, ...]) -> None:
    """Pass what the halves of an attention give, by its output projection, through their points.

    The attention is told how many of its keys are the source's. What it computes for each half
    goes through the projection by itself, and is added up behind it; a bias is the first half's.
    """

    def tell(_module: nn.Module, args: Any, given: dict[str, Any]) -> Any:
        return args, given | {"source_length": given["encoder_hidden_states"].shape[1]}

    def take_apart(_module: nn.Module, args: tuple[Tensor]) -> Tensor | None:
        width = len(halves) * project.in_features
        return args[0].unflatten(-1, (len(halves), -1)) if args[0].shape[-1] == width else None

    def add_up(_module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor | None:
        if args[0].dim() == 3:
            return None
        of_target, of_source = (output[:, :, half] for half in range(len(halves)))
        if project.bias is not None:
            of_source = of_source - project.bias
        return halves[0].output(of_target) + halves[1].output(of_source)

    attention.register_forward_pre_hook(tell, with_kwargs=True)
    project.register_forward_pre_hook(take_apart)
    project.register_forward_hook(add_up)


class NormPoints(nn.Module):
    """The hook points around a norm: the stream ``before`` and ``after`` it, each (B, S, D)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.before = HookPoint()
        self.after = HookPoint()
        _pass_input(norm, self.before)
        _pass_output(norm, self.after)


class ResidualPoints(nn.Module):
    """The hook points of a residual connection: those of its norm, and of a sublayer's output."""

    def __init__(self, layer: nn.Module, paths: SublayerPaths) -> None:
        super().__init__()
        self.norm = NormPoints(layer.get_submodule(paths.norm))
        if paths.output_norm:
            self.output_norm = NormPoints(layer.get_submodule(paths.output_norm))


class FeedForwardPoints(nn.Module):
    """The hook points of a feed-forward: ``hidden`` (B, S, d_ff) and ``output`` (B, S, D)."""

    def __init__(self, contract: nn.Module) -> None:
        super().__init__()
        self.hidden = HookPoint()
        self.output = HookPoint()
        _pass_input(contract, self.hidden)
        _pass_output(contract, self.output)


class EmbeddingPoints(nn.Module):
    """The hook points of the embedding: ``tokens`` (scaled or normed), ``positions``, ``output``.

    Each is (B, S, D); ``output`` is what the first layer is given. Where a norm follows the sum of
    the first two, there is ``norm`` as well, with the stream before and after it.
    """

    def __init__(self, stack: Any, family: Family) -> None:
        super().__init__()
        self.tokens = HookPoint()
        table, norm = (find(stack, at) for at in (family.position_table, family.embedding_norm))
        embedding = stack.get_input_embeddings()
        scale = getattr(stack, "embed_scale", 1.0)  # some scale outside of the module
        if family.scale_embeddings:  # T5Gemma rounds the root to the type of its weights
            dtype = embedding.weight.dtype
            root = torch.tensor(embedding.embedding_dim**0.5, dtype=dtype, device="cpu")
            scale = float(root)
        if family.token_norm:
            _pass_output(stack.get_submodule(family.token_norm), self.tokens)
        else:
            _pass_scaled(embedding, self.tokens, scale)
        if table is not None:
            self.positions = HookPoint()
            _pass_for_each_row(table, self.positions, find(stack, family.token_types))
        if norm is not None:
            self.norm = NormPoints(norm)
        self.output = HookPoint()
        _pass_input(stack.get_submodule(family.layers)[0], self.output)


class LayerPoints(nn.Module):
    """The hook points of a layer: those of its sublayers, and ``output`` (B, S, D)."""

    def __init__(self, layer: nn.Module, family: Family, stack: Stack) -> None:
        super().__init__()
        attentions = {"self_attention": family.self_attention}
        if stack == "decoder":
            attentions["cross_attention"] = family.cross_attention
        is_merged = stack == "decoder" and family.is_merged
        for name, paths in attentions.items():
            attention = layer.get_submodule(paths.module)
            relative = family.positions == "relative" and name == "self_attention"
            computes = attention.get_submodule(family.projections[0].rpartition(".")[0])
            is_capped = getattr(computes, family.score_cap, None) is not None
            points = AttentionPoints(relative=relative, capped=is_capped)
            if not is_merged:
                # An attribute and no submodule: a hook point has one name, that in this tree.
                object.__setattr__(computes, "hook_points", (points,))
                _pass_output(attention.get_submodule(family.projections[-1]), points.output)
            self.add_module(name, points)
            self.add_module(f"{name}_residual", ResidualPoints(layer, paths))
        if is_merged:
            attention = layer.get_submodule(family.self_attention.module)
            halves = tuple(self.get_submodule(name) for name in attentions)
            object.__setattr__(attention, "hook_points", halves)
            _pass_halves(attention, attention.get_submodule(family.projections[-1]), halves)
        paths = getattr(family, f"{stack}_feed_forward")
        contract = layer.get_submodule(paths.module).get_submodule(family.contract)
        self.feed_forward = FeedForwardPoints(contract)
        self.feed_forward_residual = ResidualPoints(layer, paths)
        self.output = HookPoint()
        _pass_output(layer, self.output)


class StackPoints(nn.Module):
    """The hook points of an encoder or a decoder."""

    def __init__(
        self,
        stack: Stack,
        module: nn.Module,
        family: Family,
        *,
        final_norm: nn.Module | None = None,
    ) -> None:
        """Set them up beside a module; ``final_norm`` is what a decoder's output has behind it."""
        super().__init__()
        self.embedding = EmbeddingPoints(module, family)
        layers: Any = module.get_submodule(family.layers)
        self.layers = nn.ModuleList(LayerPoints(layer, family, stack) for layer in layers)
        norm = final_norm or find(module, family.final_norm)
        if norm is not None:
            self.final_norm = NormPoints(norm)


if TYPE_CHECKING:
    from headwise.model.pretrained.model import PretrainedModel


class _FirstLayerEndsError(Exception):
    """Ends a pass behind the first layer: what later ones are made of is the same."""


def require_reached(model: PretrainedModel) -> None:
    """Run a token through the first layers, and see that each hook point gets a tensor.

    A family whose attention computes in place leaves some without; it is a ValueError. It takes 10
    ms of a core where layers are 512 wide, beside the seconds that loading the weights takes.
    """
    ids = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    width = model.description.of("encoder").d_model
    memory = torch.zeros((1, 1, width), dtype=model.inner.dtype, device=model.device)
    _require_first_layer(model, "encoder", lambda: model.encode(ids))
    _require_first_layer(model, "decoder", lambda: model.decode(ids, memory, None))


def _require_first_layer(model: PretrainedModel, stack: Stack, run: Callable[[], object]) -> None:
    def end(_: Tensor) -> Tensor:
        raise _FirstLayerEndsError

    of_what = f"model_type {model.inner.config.model_type!r:.60}"
    last = f"{stack}.layers.0.output"
    names = matching_names(model, [f"{stack}.embedding.*", f"{stack}.layers.0.*"])
    names.remove(last)
    try:
        with (
            edit(model, {last: end}),
            capture(model, names) as seen,
            torch.inference_mode(),
            suppress(_FirstLayerEndsError),
        ):
            run()
    except Exception as error:  # modules raise whatever they meet
        raise ValueError(
            f"{of_what}: no token goes through its {stack} ({error!s:.100})"
        ) from error
    if missed := [name for name in names if not seen[name]]:
        raise ValueError(
            f"{of_what}: nothing passes through {missed[0]} ({len(missed)} hook points in all), as "
            "if computed in place; see docs/add-a-family.md"
        )
