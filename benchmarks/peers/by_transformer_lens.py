"""What a researcher asks of a head, by TransformerLens' bridge around a model of transformers.

The bridge's own tokenizer begins each text with ``<s>`` and leaves ``</s>`` out, which a Marian
does not read, so the one of transformers is taken.
"""

from pathlib import Path
from typing import Any


def load(folder: Path) -> Any:
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoTokenizer

    return TransformerBridge.boot_transformers(str(folder)), AutoTokenizer.from_pretrained(folder)


def cross_attention(opened: Any, source: str, target: str) -> Any:
    import torch

    bridge, ids = opened[0], _ids(*opened, source, target)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(
            ids[0],
            decoder_input=ids[1][:, :-1],
            names_filter=lambda name: name.endswith("cross_attn.hook_pattern"),
        )
    return torch.cat(list(cache.values()))


def without_a_head(opened: Any, source: str, target: str) -> Any:
    bridge, ids = opened[0], _ids(*opened, source, target)
    off = _loss(bridge, *ids, ("decoder_blocks.1.cross_attn.hook_z", 3))
    return off - _loss(bridge, *ids)


def gradient(opened: Any, source: str, target: str) -> Any:
    import torch

    bridge, (source_ids, target_ids) = opened[0], _ids(*opened, source, target)
    scale, found = bridge.original_model.model.encoder.embed_scale, []

    def keep(embedded: Any, hook: Any) -> Any:
        found.append(embedded.detach().requires_grad_())
        return found[0]

    logits = bridge.run_with_hooks(
        source_ids, decoder_input=target_ids[:, :-1], fwd_hooks=[("hook_embed", keep)]
    )
    gradient = torch.autograd.grad(logits[0, 3, target_ids[0, 4]], found[0])[0][0]
    return (gradient / scale).norm(dim=-1)


def ranked(opened: Any, source: str, target: str) -> Any:
    bridge, ids = opened[0], _ids(*opened, source, target)
    on, found = _loss(bridge, *ids), {}
    for kind, path in (
        ("encoder_self", "encoder_blocks.{}.attn"),
        ("decoder_self", "decoder_blocks.{}.self_attn"),
        ("cross", "decoder_blocks.{}.cross_attn"),
    ):
        for layer in range(bridge.cfg.n_layers):
            for head in range(bridge.cfg.n_heads):
                off = _loss(bridge, *ids, (f"{path.format(layer)}.hook_z", head))
                found[f"{kind}.{layer + 1}.{head + 1}"] = off - on
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _ids(bridge: Any, tokenizer: Any, source: str, target: str) -> Any:
    import torch

    start = torch.tensor([[bridge.original_model.config.decoder_start_token_id]])
    ids = [tokenizer(text, return_tensors="pt").input_ids for text in (source, target)]
    return ids[0], torch.cat([start, ids[1]], dim=1)


def _loss(bridge: Any, source_ids: Any, target_ids: Any, off: Any = None) -> float:
    import torch

    def zero(z: Any, hook: Any) -> Any:
        z[:, :, off[1]] = 0
        return z

    hooks = [] if off is None else [(off[0], zero)]
    with torch.no_grad():
        logits = bridge.run_with_hooks(
            source_ids, decoder_input=target_ids[:, :-1], fwd_hooks=hooks
        )
    return float(torch.nn.functional.cross_entropy(logits[0], target_ids[0, 1:]))
