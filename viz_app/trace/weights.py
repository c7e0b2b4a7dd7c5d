"""Names the weights of a model by the modules whose hook points use them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from headwise.model.interface import NormParameters, Seq2SeqModel, Side, attention_path

_PARTS = ("encoder", "decoder", "unembedding")  # which hold hook points and, in ours, weights


def named_weights(model: Seq2SeqModel) -> list[tuple[str, tuple[int, ...], int]]:
    """Return names, shapes and memory addresses of all weights; tied ones under each name. Those
    that the interface gives are named by its hook points; others as in the file.
    """
    own: list[tuple[str, Tensor]] = list(model.named_parameters(remove_duplicate=False))
    foreign = [(name, tensor) for name, tensor in own if name.partition(".")[0] not in _PARTS]
    named = own
    if foreign:
        stored = {(tensor.data_ptr(), tensor.numel()) for _, tensor in own}
        given = _given_by_interface(model)  # some are computed from those in the file
        named = [item for item in given if (item[1].data_ptr(), item[1].numel()) in stored]
        known = {tensor.data_ptr() for _, tensor in named}
        named += [(name, tensor) for name, tensor in foreign if tensor.data_ptr() not in known]
    return [(name, tuple(tensor.shape), tensor.data_ptr()) for name, tensor in named]


def _given_by_interface(model: Seq2SeqModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights that the interface gives, stored as outputs × inputs."""
    description, bias = model.description, model.linear("unembedding").bias
    if bias is not None:
        yield "unembedding.bias", bias
    sides: tuple[Side, ...] = ("source", "target")
    for side, stack in zip(sides, ("encoder", "decoder"), strict=True):
        yield f"{stack}.embedding.table.weight", model.embedding_table(side)
        positions = model.position_table(side)
        if positions is not None:
            yield f"{stack}.embedding.position_table.weight", positions
        norm = model.final_norm(side)
        if norm is not None:
            yield from _of_norm(f"{stack}.final_norm.norm", norm)
    for kind, (layers, _) in description.shapes.items():
        for layer in range(layers):
            path = attention_path(kind, layer)
            linears = {path: [f"{name}_projection" for name in ("query", "key", "value", "output")]}
            if kind != "cross":
                feed_forward = f"{path.rpartition('.')[0]}.feed_forward"
                linears[feed_forward] = ["expand", *["gate"] * description.gated, "contract"]
            for sublayer, names in linears.items():
                for name in names:
                    weight, bias = model.linear(f"{sublayer}.{name}")
                    yield f"{sublayer}.{name}.weight", weight.T
                    if bias is not None:
                        yield f"{sublayer}.{name}.bias", bias
                yield from _of_norm(f"{sublayer}_residual.norm.norm", model.norm(sublayer))


def _of_norm(name: str, norm: NormParameters) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", norm.gain
    if norm.bias is not None:
        yield f"{name}.bias", norm.bias
