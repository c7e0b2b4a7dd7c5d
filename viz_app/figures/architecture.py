"""Draws the encoder and the decoder as boxes with the shapes of a sentence (figure 1 of the paper).

The drawing is an SVG that is as readable in 360 pixels as in 500; ``describe_architecture`` says in
words what it shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TypedDict

from headwise.model.interface import Description
from headwise.viz_app.figures.theme import Theme

_WIDTH, _BOX, _GAP = 360, 122, 11
"""Pixels of the drawing, of a box across, and between two boxes."""
_LINE, _LETTERS = 13, 11
"""Pixels of a line of text in a box, and of its letters."""
_TOP, _BYPASS = 14, 76
"""Pixels above the decoder, and from the middle of a stack to its residual connections."""


@dataclass
class _Column:
    """A column draws its boxes one above the other, from the bottom; ``y`` is where it has come."""

    centre: float
    side: int
    """Where residual connections go around: -1 on the left, 1 on the right."""
    theme: Theme
    y: float = 0.0
    parts: list[str] = field(default_factory=list)

    def text(self, words: str, *, shift: float = 0.0) -> None:
        """Write a line above what was drawn, in the middle or beginning ``shift`` beside it."""
        self.parts.append(
            f'<text x="{self.centre + shift:g}" y="{self.y - 4:g}" '
            f'text-anchor="{"start" if shift else "middle"}" fill="{self.theme.muted}">'
            f"{escape(words)}</text>"
        )

    def arrow(self, shape: str = "") -> None:
        """Draw an arrow upwards, longer where the shape of what it carries stands beside it."""
        top = self.y - _GAP - (6 if shape else 0)
        self.parts.append(_path(f"M{self.centre:g} {self.y:g}V{top + 3:g}", self.theme))
        self.parts.append(_head(self.centre, top, self.theme))
        if shape:
            self.text(shape, shift=6)
        self.y = top

    def box(self, *lines: str, fill: str = "none") -> float:
        """Draw a box with lines of text; return the height of its middle."""
        height = 6 + _LINE * len(lines)
        top, left = self.y - height, self.centre - _BOX / 2
        self.parts.append(
            f'<rect x="{left:g}" y="{top:g}" width="{_BOX}" height="{height}" rx="4" '
            f'fill="{fill}" stroke="{self.theme.line}"/>'
        )
        for place, line in enumerate(lines):
            self.parts.append(
                f'<text x="{self.centre:g}" y="{top + 13.5 + _LINE * place:g}" '
                f'text-anchor="middle" fill="{self.theme.text}">{escape(line)}</text>'
            )
        self.y = top
        return top + height / 2

    def sublayer(
        self, *lines: str, fill: str, norm: str, before: bool, of_output: bool = False
    ) -> float:
        """Draw a sublayer with its norm and residual connection; return its middle's height."""
        self.arrow()
        start = self.y + _GAP - 3
        if before:
            self.box(norm)
            self.arrow()
        middle = self.box(*lines, fill=fill)
        if of_output:
            self.arrow()
            self.box(norm)
        self.arrow()
        radius, around = 7, self.centre + self.side * _BYPASS
        at = self.y - radius
        self.parts.append(
            f'<circle cx="{self.centre:g}" cy="{at:g}" r="{radius}" fill="none" '
            f'stroke="{self.theme.muted}"/>'
            + _path(f"M{self.centre - 4:g} {at:g}h8M{self.centre:g} {at - 4:g}v8", self.theme)
            + _path(
                f"M{self.centre:g} {start:g}H{around:g}V{at:g}"
                f"H{self.centre + self.side * radius:g}",
                self.theme,
            )
        )
        self.y = at - radius
        if not before:
            self.arrow()
            self.box(norm)
        return middle

    def frame(self, bottom: float, words: str) -> None:
        """Draw a frame around what stands above ``bottom``, with words in its upper corner."""
        half, top = _BYPASS + 8, self.y - 20
        self.parts.insert(
            0,
            f'<rect x="{self.centre - half:g}" y="{top:g}" width="{2 * half:g}" '
            f'height="{bottom - top:g}" rx="8" fill="none" stroke="{self.theme.line}" '
            'stroke-dasharray="4 3"/>'
            f'<text x="{self.centre - half + 7:g}" y="{top + 14:g}" font-weight="600" '
            f'fill="{self.theme.text}">{escape(words)}</text>',
        )
        self.parts.append(_path(f"M{self.centre:g} {self.y:g}V{top:g}", self.theme))
        self.y = top


class _Around(TypedDict):
    """What is around a sublayer: arguments of ``_Column.sublayer``."""

    norm: str
    before: bool
    of_output: bool


def _path(way: str, theme: Theme) -> str:
    return f'<path d="{way}" fill="none" stroke="{theme.muted}"/>'


def _head(x: float, y: float, theme: Theme) -> str:
    """Draw the head of an arrow that points upwards."""
    return f'<path d="M{x:g} {y:g}l-3.5 6h7z" fill="{theme.muted}"/>'


def architecture_svg(model: Description, *, source: int, steps: int, theme: Theme) -> str:
    """Return a drawing of the two stacks as SVG.

    There are ``source`` tokens for the encoder, and the decoder consumes ``steps``.
    """
    attention, feed_forward, ends = theme.weights[1], theme.difference[2], theme.weights[0]
    encoder, decoder = _Column(90, -1, theme), _Column(270, 1, theme)
    whole, memory_width = model, model.of("encoder").d_model
    for column, length, what in ((encoder, source, "source"), (decoder, steps, "target so far")):
        is_encoder = column is encoder
        model = whole.of("encoder" if is_encoder else "decoder")
        around: _Around = {
            "norm": _norm(model),
            "before": model.norm == "pre",
            "of_output": model.output_norms,
        }
        column.text(f"{what}: 1 × {length:,}")
        column.y -= 16
        column.arrow()
        column.box(*_embedding(model), fill=ends)
        column.arrow(f"1 × {length:,} × {model.d_model:,}")
        bottom = column.y + 3
        d_ff = model.encoder_d_ff if is_encoder else model.decoder_d_ff
        heads = _heads(model, encoder=is_encoder)
        name = "self-attention" if is_encoder else "masked self-attention"
        if model.merged_attention and not is_encoder:
            across = column.sublayer(name, "+ cross-attention", heads, fill=attention, **around)
        else:
            column.sublayer(name, heads, fill=attention, **around)
        if not (model.merged_attention or is_encoder):
            across = column.sublayer("cross-attention", heads, fill=attention, **around)
        widths = f"{model.d_model:,} → {d_ff:,} → {model.d_model:,}"
        column.sublayer("feed-forward", widths, fill=feed_forward, **around)
        layers = model.n_encoder_layers if is_encoder else model.n_decoder_layers
        column.frame(bottom, f"{layers} ×")
        if model.final_norm:
            column.arrow()
            column.box(around["norm"])
    shape = f"1 × {source:,} × {memory_width:,}"
    over, between = encoder.y - 14, (encoder.centre + decoder.centre) / 2
    left = decoder.centre - _BOX / 2
    memory = [
        _path(f"M{encoder.centre:g} {encoder.y:g}V{over:g}H{between:g}V{across:g}H{left:g}", theme),
        f'<path d="M{left:g} {across:g}l-6 -3.5v7z" fill="{theme.muted}"/>',
        f'<text x="{encoder.centre:g}" y="{over - 18:g}" text-anchor="middle" '
        f'fill="{theme.text}">memory</text>',
        f'<text x="{encoder.centre:g}" y="{over - 5:g}" text-anchor="middle" '
        f'fill="{theme.muted}">{shape}</text>',
    ]
    decoder.arrow(f"1 × {steps:,} × {model.d_model:,}")
    if model.output_transform:
        decoder.box("linear, activation", "+ norm", fill=ends)
        decoder.arrow()
    decoder.box("unembedding", f"{model.d_model:,} → {model.target_vocab_size:,}", fill=ends)
    decoder.arrow()
    decoder.box("softmax")
    decoder.arrow(f"1 × {steps:,} × {model.target_vocab_size:,}")
    decoder.text("next token’s probabilities")
    top = decoder.y - _TOP - 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:g} {_WIDTH} {6 - top:g}" '
        f'width="{_WIDTH}" height="{6 - top:g}" role="img" font-family="Source Sans, sans-serif" '
        f'font-size="{_LETTERS}"><title>'
        f"{escape(describe_architecture(model, source=source, steps=steps))}</title>"
        f"{''.join([*memory, *encoder.parts, *decoder.parts])}</svg>"
    )


def describe_architecture(model: Description, *, source: int, steps: int) -> str:
    """Say in words what the drawing shows."""
    encoder = model.of("encoder")
    transform = "a linear layer, an activation function and a norm, " * model.output_transform
    return (
        f"Encoder: {source:,} source tokens become vectors, 1 × {source:,} × {encoder.d_model:,}, "
        f"by {' '.join(_embedding(encoder))}; {model.n_encoder_layers} × a layer of self-attention "
        f"({_heads(model, encoder=True)}) and feed-forward ({model.encoder_d_ff:,} wide), "
        f"{_around(encoder)}. Its output, the memory, is read by cross-attention in each layer of "
        f"the decoder. Decoder: {steps:,} tokens become vectors, 1 × {steps:,} × "
        f"{model.d_model:,}; "
        f"{model.n_decoder_layers} × a layer of masked self-attention"
        f"{' and cross-attention in one' if model.merged_attention else ', cross-attention'} "
        f"({_heads(model, encoder=False)}) and feed-forward ({model.decoder_d_ff:,} wide), "
        f"{_around(model)}. Then {transform}the unembedding and the softmax: probabilities, "
        f"1 × {steps:,} × {model.target_vocab_size:,}."
    )


def _around(model: Description) -> str:
    """Say in words what is around the sublayers of a stack, and on top of it."""
    norm = f"{_norm(model)} {'before it' if model.norm == 'pre' else 'after the sum'}"
    norm += " and after it" * model.output_norms
    final = ", and a norm on top" if model.final_norm else ""
    return f"each with a residual connection around it and {norm}{final}"


def _norm(model: Description) -> str:
    return "LayerNorm" if model.norm_kind == "layer" else "RMSNorm"


def _heads(model: Description, *, encoder: bool) -> str:
    heads, d_k = (
        (model.n_encoder_heads, model.encoder_d_k)
        if encoder
        else (model.n_decoder_heads, model.decoder_d_k)
    )
    shared = model.of("encoder" if encoder else "decoder").key_heads
    of_keys = "" if shared is None else f", {shared} of keys"
    return f"{heads} heads{of_keys}, d_k = {d_k}"


def _embedding(model: Description) -> tuple[str, ...]:
    lines = ["embedding"]
    lines += ["+ norm"] * model.token_norm
    lines += ["+ positions"] * model.adds_positions
    return (*lines, *["+ norm"] * model.embedding_norm)
