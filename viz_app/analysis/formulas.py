"""Descriptions and formulas of modules and hook points, in the notation of Vaswani et al. (2017).

``x`` is the stream, ``E`` the embeddings, ``D`` = d_model.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwise.model.interface import Description, Kind, Stack

_SUBLAYERS = {
    "self_attention": "SelfAttention",
    "cross_attention": "CrossAttention",
    "feed_forward": "FFN",
}
_WHAT_ATTENTION = {
    "encoder": "each source token gathers from all of them",
    "decoder": "each position gathers from the tokens consumed so far",
    "cross": "each position gathers from memory",
}
_LETTERS = {"query": "Q", "key": "K", "value": "V"}
_POINTS = {
    "positions": "PE(pos)",
    "embedding.output": "their sum",
    "query": "Q",
    "key": "K",
    "value": "V",
    "bias": "B, what relative positions add",
    "uncapped": "before their cap",
    "weights": "softmax of the allowed scores",
    "heads": "weights × V, before W_O",
    "attention.output": "after W_O",
    "before": "before the norm",
    "after": "after the norm",
    "feed_forward.output": "after W₂",
    "output": "the stream that the layer hands on",
    "logits": "before the softmax",
}


@dataclass(frozen=True)
class ModuleDescription:
    """A module is described for people by a title, what it does, and a formula."""

    title: str
    what: str
    formula: str


_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_ACTIVATION_NAMES = {"relu": "ReLU", "silu": "Swish", "swish": "Swish", "tanh": "tanh"}


def norm_name(model: Description) -> str:
    """Return the name of the model's norm in formulas."""
    return "LayerNorm" if model.norm_kind == "layer" else "RMSNorm"


def _activation_name(activation: str) -> str:
    return _ACTIVATION_NAMES.get(activation, "GELU" if "gelu" in activation else activation)


def feed_forward_formula(activation: str, *, gated: bool, biased: bool, read: str = "x") -> str:
    """Write equation 2 as LaTeX in two lines, for any activation function. ``gated`` multiplies the
    hidden units by a second projection; ``read`` is the letter of what the feed-forward reads.
    """
    first = rf"{read}\,W_1{' + b_1' * biased}"
    if activation == "relu" and not gated:
        hidden = rf"\max(0,\, {first})"
    else:
        hidden = rf"\mathrm{{{_activation_name(activation)}}}({first})"
    if gated:
        hidden += rf" \odot {read}\,V"
    return (
        rf"\begin{{aligned}} \mathrm{{FFN}}({read}) &= \mathrm{{hidden}}\,W_2{' + b_2' * biased} "
        rf"\\ \mathrm{{hidden}} &= {hidden} \end{{aligned}}"
    )


def multi_head_formula(heads: str, *, biased: bool) -> str:
    """Write the output of all heads, h or a number, as LaTeX in two lines (section 3.2.2)."""
    return (
        rf"\mathrm{{MultiHead}} = C\,W_O{' + b_O' * biased} \\ "
        rf"C = \mathrm{{Concat}}(\mathrm{{head}}_1, …, \mathrm{{head}}_{{{heads}}})"
    )


def scores_formula(model: Description, kind: Kind) -> str:
    """Write the scores of a kind of attention as LaTeX."""
    model = model.of(kind)
    query = r"\tilde Q" if turns(model, kind) or _is_half(model, kind) else "Q"
    key = r"\tilde K" if turns(model, kind) else "K"
    root = rf"/\sqrt{{{divisor(model)}}}" if model.scale_scores else ""
    scores = rf"{query}{key}^\top{root}" + " + B" * _is_biased(model, kind)
    if model.score_cap is None:
        return scores
    return rf"{model.score_cap:g}\tanh\frac{{{scores}}}{{{model.score_cap:g}}}"


def turns(model: Description, kind: str) -> bool:
    """Return whether queries and keys of a kind of attention are turned by position."""
    return model.positions == "rotary" and kind != "cross"


def _is_half(model: Description, kind: str) -> bool:
    """Return whether a kind of attention, or a stack's, is half of one with turned queries."""
    return model.merged_attention and kind in ("cross", "decoder", "decoder_self")


def divisor(model: Description) -> str:
    """Return what stands below the root by which scores are divided."""
    return "d_k" if model.score_divisor is None else str(model.score_divisor)


def _is_biased(model: Description, kind: str) -> bool:
    return model.positions == "relative" and kind != "cross"


def _scores(kind: str, model: Description) -> str:
    turned = "turned " * (turns(model, kind) or _is_half(model, kind))
    root = f"/√{divisor(model)}" * model.scale_scores
    scores = f"{turned}QKᵀ{root}" + " + B" * _is_biased(model, kind)
    cap = model.score_cap
    return scores if cap is None else f"{cap:g} tanh({scores} / {cap:g})"


def _hidden(model: Description) -> str:
    first = "x W₁" + " + b₁" * model.feed_forward_bias
    if model.activation == "relu" and not model.gated:
        return f"max(0, {first})"
    return f"{_activation_name(model.activation)}({first})" + " ⊙ x V" * model.gated


def input_formula(model: Description) -> str:
    """Write what enters a stack in one line of text, before any norm of it."""
    return _token_formula(model) + " + PE(pos)" * model.adds_positions


def _token_formula(model: Description) -> str:
    tokens = "√D · E[id]" if model.scale_embeddings else "E[id]"
    return f"{norm_name(model)}({tokens})" if model.token_norm else tokens


def output_formula(model: Description, output: str) -> str:
    """Write the logits as LaTeX, of the decoder's output under this name."""
    scaled = rf"\frac{{{output}}}{{\sqrt{{D}}}}" if model.scale_output else output
    if model.output_transform:
        function = _activation_name(model.activation)
        scaled = rf"\mathrm{{{norm_name(model)}}}(\mathrm{{{function}}}({output}\,W_T + b_T))"
    logits = rf"{scaled}\,W{' + b' if model.output_bias else ''}"
    if model.logit_cap is None:
        return logits
    return rf"{model.logit_cap:g}\tanh\frac{{{logits}}}{{{model.logit_cap:g}}}"


def residual_formula(sublayer: str, model: Description) -> str:
    """Write a sublayer with its residual connection: section 3.1 of the paper, or pre-norm."""
    if model.norm == "pre":
        given = f"{sublayer}({norm_name(model)}(x))"
        return f"x + {norm_name(model)}({given})" if model.output_norms else f"x + {given}"
    return f"{norm_name(model)}(x + {sublayer}(x))"


def describe_module(path: str, model: Description) -> ModuleDescription:
    """Describe the module at a path; an unknown module is described by its name only."""
    *above, name = path.split(".")
    model = model.of(_stack_of(path))
    if (above or [name])[0] not in ("", "encoder", "decoder", "unembedding", "logits"):
        # Its place and name are those of another library.
        what = "further weights, by their names in the file" if path == name else ""
        return ModuleDescription(_title(name), what, "")
    if name == "layers":
        times = model.layers(_kind(above[0]))
        return ModuleDescription("layers", "one after the other", f"x ← layer(x), {times} times")
    if name.isdecimal():
        return _layer(above[0], int(name), model)
    if name in ("encoder", "decoder"):
        return _stack(name, model)
    if name.endswith("attention"):
        return _attention("cross" if name.startswith("cross") else above[0], name, model)
    if name.endswith("_projection"):
        return _projection(name.removesuffix("_projection"), above[-1], model)
    if name.endswith("_residual"):
        around = name.removesuffix("_residual")
        title = f"residual and norm of {_title(around)}"
        formula = residual_formula(_SUBLAYERS.get(around, around), model)
        if _is_half(model, above[0]) and around.endswith("attention"):
            title, formula = "residual and norm of both halves", _residual_of_halves(model)
        return ModuleDescription(title, "x is the stream", formula)
    stream = "decoder output" if not model.scale_output else "(decoder output / √D)"
    function = _activation_name(model.activation)
    if model.output_transform:
        stream = f"{norm_name(model)}({function}(decoder output · W_T + b_T))"
    whole_logits = f"{stream} · W{' + b' * model.output_bias}"
    if model.logit_cap is not None:
        whole_logits = f"{model.logit_cap:g} tanh(({whole_logits}) / {model.logit_cap:g})"
    bias, first = " + b" * model.output_bias, " + b₁" * model.feed_forward_bias
    hidden, second = _hidden(model), " + b₂" * model.feed_forward_bias
    inner = f"{hidden.partition('(')[0]}(…)"
    inner = f"({inner} ⊙ x V)" if model.gated else inner
    whole = f"({hidden}) W₂" if model.gated else f"{hidden} W₂"
    norm, entering = norm_name(model), input_formula(model)
    if model.norm_kind == "layer":
        gains, standard = "its gains γ and biases β", "γ (x − mean) / √(variance + ε) + β"
    else:
        gains, standard = "its gains γ", "γ x / √(mean of x² + ε)"
    texts = {
        "": ("Transformer", "figure 1 of the paper", f"softmax({whole_logits})"),
        "embedding": (
            "embedding",
            "what enters the stack",
            f"{norm}({entering})" if model.embedding_norm else entering,
        ),
        "table": ("table", "a row for each token of the vocabulary", "E"),
        "position_table": ("positions", "a row for each position", "PE"),
        "feed_forward": ("feed-forward", "the same for each position", f"{whole}{second}"),
        "expand": ("expand", "its first layer", f"x W₁{first}"),
        "gate": ("gate", "the second factor of its hidden units", "x V"),
        "contract": ("contract", "its second layer", f"{inner} W₂{second}"),
        "norm": ("norm", gains, standard),
        "final_norm": (
            ("last norm", "after the activation function", f"{norm}({function}(x W_T + b_T))")
            if model.output_transform
            else ("final norm", "on top of the stack", f"{norm}(x)")
        ),
        "unembedding": ("unembedding", "from the stream to the vocabulary", f"x W{bias}"),
    }
    return ModuleDescription(*texts.get(name, (_title(name), "", "")))


def describe_point(path: str, model: Description) -> str:
    """Describe the tensor at a hook point; an unknown hook point gives an empty string."""
    model = model.of(_stack_of(path))
    above, _, name = path.rpartition(".")
    if name == "tokens":
        return _token_formula(model)
    if name == "hidden":
        return _hidden(model)
    if name == "scores":
        kind = "cross" if above.endswith("cross_attention") else ""
        return f"{_scores(kind, model)}, before the mask"
    summed = model.adds_positions and not model.embedding_norm
    if path.endswith("embedding.output") and not summed:
        return "the stream that enters the first layer"
    parent = above.rpartition(".")[2]
    parent = "attention" if parent.endswith("attention") else parent
    return _POINTS.get(f"{parent}.{name}", _POINTS.get(name, ""))


def _stack_of(path: str) -> Stack:
    return "encoder" if path.startswith("encoder") else "decoder"


def _kind(stack: str) -> Kind:
    return "encoder_self" if stack == "encoder" else "decoder_self"


def _title(name: str) -> str:
    return name.replace("_", "-")


def _stack(name: str, model: Description) -> ModuleDescription:
    on_top = "a norm on top" if model.final_norm else "no norm on top"
    reads = (
        "the source" if name == "encoder" else "the target so far, and memory, the encoder's output"
    )
    formula = f"layer {model.layers(_kind(name))}(… layer 1(embedding))"
    formula = f"{norm_name(model)}({formula})" if model.final_norm else formula
    return ModuleDescription(name, f"reads {reads}; {on_top}", formula)


def _layer(stack: str, index: int, model: Description) -> ModuleDescription:
    names = ["SelfAttention", "CrossAttention", "FFN"]
    if stack == "encoder":
        names.remove("CrossAttention")
    formulas = [residual_formula(name, model) for name in names]
    if _is_half(model, stack):
        formulas = [_residual_of_halves(model), formulas[-1]]
    formula = "; ".join(f"x ← {each}" for each in formulas)
    number = "two" if len(formulas) == 2 else "three"
    what = f"{number} sublayers, each in a residual connection"
    return ModuleDescription(f"layer {index + 1}", what, formula)


def _attention(kind: str, name: str, model: Description) -> ModuleDescription:
    mask = " + mask" if kind == "decoder" else ""
    bias = " + b_O" if model.attention_bias else ""
    scores = _scores(kind, model)
    last = str(model.heads(_kind(kind))).translate(_BELOW)
    several = f"headᵢ = softmax({scores}{mask})V; Concat(head₁ … head{last}) W_O"
    half = "; half of one softmax over target and source" * _is_half(model, kind)
    return ModuleDescription(_title(name), _WHAT_ATTENTION[kind] + half, several + bias)


def _residual_of_halves(model: Description) -> str:
    norm = norm_name(model)
    given = f"SelfAttention({norm}(x)) + CrossAttention({norm}(x))"
    return f"x + {norm}({given})" if model.output_norms else f"x + {given}"


def _projection(name: str, attention: str, model: Description) -> ModuleDescription:
    title = f"{name} projection"
    if name == "output":
        return ModuleDescription(title, "", "Concat(…) W_O" + " + b_O" * model.attention_bias)
    letter = _LETTERS[name]
    read = "memory" if attention == "cross_attention" and name != "query" else "x"
    bias = f" + b_{letter}" if model.attention_bias else ""
    made = f"{read} W_{letter}{bias}"
    if model.head_norms and name != "value":
        made = f"{norm_name(model)}({made}) of each head"
    return ModuleDescription(title, "", f"{letter} = {made}")
