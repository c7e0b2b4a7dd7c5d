"""What each module and hook point is, and its formula, in the notation of Vaswani et al. (2017).

``x`` is the stream, ``E`` the embeddings, ``D`` = d_model; formulas are those of a model's variant.
"""

from __future__ import annotations

from dataclasses import dataclass

_SUBLAYERS = {
    "self_attention": "SelfAttention",
    "cross_attention": "CrossAttention",
    "feed_forward": "FFN",
}
_WHAT_ATTENTION = {
    "encoder": "each source piece gathers from all of them",
    "decoder": "each step gathers from the pieces consumed so far",
    "cross": "each step gathers from memory",
}
_LETTERS = {"query": "Q", "key": "K", "value": "V"}
_POINTS = {
    "positions": "PE(pos)",
    "embedding.output": "their sum",
    "query": "Q",
    "key": "K",
    "value": "V",
    "scores": "QKᵀ/√d_k, before the mask",
    "weights": "softmax of the allowed scores",
    "heads": "weights × V, before W_O",
    "attention.output": "after W_O",
    "before": "before the norm",
    "after": "after the norm",
    "hidden": "max(0, x W₁ + b₁)",
    "feed_forward.output": "after W₂",
    "output": "the stream that the layer hands on",
    "logits": "before the softmax",
}


@dataclass(frozen=True)
class Variant:
    """What of a model decides its formulas."""

    norm_first: bool
    final_norm: bool
    attention_bias: bool
    output_bias: bool
    scaled: bool
    layers: int
    heads: int


@dataclass(frozen=True)
class Text:
    """A module's name for people, what it does, and its formula."""

    title: str
    what: str
    formula: str


def residual_formula(sublayer: str, variant: Variant) -> str:
    """A sublayer in its residual connection: section 3.1, or the norm before it (pre-norm)."""
    if variant.norm_first:
        return f"x + {sublayer}(LayerNorm(x))"
    return f"LayerNorm(x + {sublayer}(x))"


def describe_module(path: str, variant: Variant) -> Text:
    """What a module is, by its path; one that is not known has its name only."""
    *above, name = path.split(".")
    if name.isdecimal():
        return _layer(above[0], int(name), variant)
    if name in ("encoder", "decoder"):
        return _stack(name, variant)
    if name.endswith("attention"):
        return _attention("cross" if name.startswith("cross") else above[0], name, variant)
    if name.endswith("_projection"):
        return _projection(name.removesuffix("_projection"), above[-1], variant)
    if name.endswith("_residual"):
        around = name.removesuffix("_residual")
        title = f"residual and norm of {_title(around)}"
        formula = residual_formula(_SUBLAYERS.get(around, around), variant)
        return Text(title, "x is the stream", formula)
    scale, bias = "√D · " * variant.scaled, " + b" * variant.output_bias
    texts = {
        "": Text("Transformer", "figure 1 of the paper", f"softmax(decoder output · W{bias})"),
        "embedding": Text("embedding", "what enters the stack", f"{scale}E[id] + PE(pos)"),
        "table": Text("table", "a row for each piece of the vocabulary", "E"),
        "layers": Text("layers", "one after the other", f"x ← layer(x), {variant.layers} times"),
        "feed_forward": Text(
            "feed-forward", "the same for each position", "max(0, x W₁ + b₁) W₂ + b₂"
        ),
        "expand": Text("expand", "its first layer", "x W₁ + b₁"),
        "contract": Text("contract", "its second layer", "max(0, …) W₂ + b₂"),
        "norm": Text("norm", "its gains γ and biases β", "γ (x − mean) / √(variance + ε) + β"),
        "final_norm": Text("final norm", "on top of the stack", "LayerNorm(x)"),
        "unembedding": Text("unembedding", "from the stream to the vocabulary", f"x W{bias}"),
    }
    return texts.get(name, Text(_title(name), "", ""))


def describe_point(path: str, variant: Variant) -> str:
    """What the tensor at a hook point is, by its path; nothing for one that is not known."""
    above, _, name = path.rpartition(".")
    if name == "tokens":
        return "√D · E[id]" if variant.scaled else "E[id]"
    parent = above.rpartition(".")[2]
    parent = "attention" if parent.endswith("attention") else parent
    return _POINTS.get(f"{parent}.{name}", _POINTS.get(name, ""))


def _title(name: str) -> str:
    return name.replace("_", "-")


def _stack(name: str, variant: Variant) -> Text:
    on_top = "a norm on top" if variant.final_norm else "no norm on top"
    reads = (
        "the source" if name == "encoder" else "the target so far, and memory, the encoder's output"
    )
    formula = f"layer {variant.layers}(… layer 1(embedding))"
    formula = f"LayerNorm({formula})" if variant.final_norm else formula
    return Text(name, f"reads {reads}; {on_top}", formula)


def _layer(stack: str, index: int, variant: Variant) -> Text:
    names = ["SelfAttention", "CrossAttention", "FFN"]
    if stack == "encoder":
        names.remove("CrossAttention")
    formula = "; ".join(f"x ← {residual_formula(name, variant)}" for name in names)
    what = f"{'two' if stack == 'encoder' else 'three'} sublayers, each in a residual connection"
    return Text(f"layer {index + 1}", what, formula)


def _attention(kind: str, name: str, variant: Variant) -> Text:
    mask = " + mask" if kind == "decoder" else ""
    bias = " + b_O" if variant.attention_bias else ""
    several = f"headᵢ = softmax(QKᵀ/√d_k{mask})V; Concat(head₁ … head{_below(variant.heads)}) W_O"
    return Text(_title(name), _WHAT_ATTENTION[kind], several + bias)


def _projection(name: str, attention: str, variant: Variant) -> Text:
    title = f"{name} projection"
    if name == "output":
        return Text(title, "", "Concat(…) W_O" + " + b_O" * variant.attention_bias)
    letter = _LETTERS[name]
    read = "memory" if attention == "cross_attention" and name != "query" else "x"
    bias = f" + b_{letter}" if variant.attention_bias else ""
    return Text(title, "", f"{letter} = {read} W_{letter}{bias}")


def _below(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
