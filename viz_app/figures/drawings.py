"""Draws what is no data as SVG: the encoder and the decoder as boxes, and the signs of lessons."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from headwise.model.interface import Description
from headwise.viz_app.figures.theme import Theme, weight_colour

_WIDTH, _BOX, _GAP = 360, 122, 11
"""Pixels of the stacks, as readable in 360 as in 500, of a box, and between two."""
_LINE, _LETTERS = 13, 11  # pixels of a line of text in a box, and of its letters
_TOP, _BYPASS = 14, 76  # pixels above the decoder, and from a stack to its residual connections
Motif = Literal["map", "tokens", "curve", "bars"]
WIDTH, HEIGHT = 96, 56
_CELL = 8  # pixels of the sign of a lesson, and of its cells


def _tag(name: str, text: str = "", /, **attributes: object) -> str:
    """Write an element of SVG; ``_`` in the name of an attribute stands for ``-``."""
    values = (
        f' {key.replace("_", "-")}="{value:g}"'
        if isinstance(value, int | float)
        else f' {key.replace("_", "-")}="{value}"'
        for key, value in attributes.items()
    )
    return f"<{name}{''.join(values)}>{escape(text)}</{name}>"


# The two stacks (figure 1 of the paper)


@dataclass
class _Column:
    """A column draws its boxes one above the other, from the bottom; ``y`` is where it has come."""

    model: Description
    centre: float
    side: int  # where residual connections go around: -1 on the left, 1 on the right
    theme: Theme
    y: float = 0.0
    parts: list[str] = field(default_factory=list)

    def path(self, way: str, **style: object) -> None:
        """Draw a line."""
        drawn = {"fill": "none", "stroke": self.theme.muted} | style
        self.parts.append(_tag("path", d=way, **drawn))

    def text(self, words: str, *, shift: float = 0.0) -> None:
        """Write a line above what was drawn, in the middle or beginning ``shift`` beside it."""
        anchor, fill = "start" if shift else "middle", self.theme.muted
        x, y = self.centre + shift, self.y - 4
        self.parts.append(_tag("text", words, x=x, y=y, text_anchor=anchor, fill=fill))

    def arrow(self, shape: str = "") -> None:
        """Draw an arrow upwards, longer where the shape of what it carries stands beside it."""
        top = self.y - _GAP - (6 if shape else 0)
        self.path(f"M{self.centre:g} {self.y:g}V{top + 3:g}")
        self.path(f"M{self.centre:g} {top:g}l-3.5 6h7z", fill=self.theme.muted, stroke="none")
        if shape:
            self.text(shape, shift=6)
        self.y = top

    def box(self, *lines: str, fill: str = "none") -> float:
        """Draw a box with lines of text; return the height of its middle."""
        height = 6 + _LINE * len(lines)
        top, left, line = self.y - height, self.centre - _BOX / 2, self.theme.line
        place = {"x": left, "y": top, "width": _BOX, "height": height, "rx": 4}
        self.parts.append(_tag("rect", **place, fill=fill, stroke=line))
        for row, text in enumerate(lines):
            middle = {"x": self.centre, "y": top + 13.5 + _LINE * row, "text_anchor": "middle"}
            self.parts.append(_tag("text", text, **middle, fill=self.theme.text))
        self.y = top
        return top + height / 2

    def sublayer(self, *lines: str, fill: str) -> float:
        """Draw a sublayer with its norm and residual connection; return its middle's height."""
        norm, before = _norm(self.model), self.model.norm == "pre"
        self.arrow()
        start = self.y + _GAP - 3
        if before:
            self.box(norm)
            self.arrow()
        middle = self.box(*lines, fill=fill)
        if self.model.output_norms:
            self.arrow()
            self.box(norm)
        self.arrow()
        radius, around, x = 7, self.centre + self.side * _BYPASS, self.centre
        at = self.y - radius
        muted = self.theme.muted
        self.parts.append(_tag("circle", cx=x, cy=at, r=radius, fill="none", stroke=muted))
        self.path(f"M{x - 4:g} {at:g}h8M{x:g} {at - 4:g}v8")
        self.path(f"M{x:g} {start:g}H{around:g}V{at:g}H{x + self.side * radius:g}")
        self.y = at - radius
        if not before:
            self.arrow()
            self.box(norm)
        return middle

    def frame(self, bottom: float, words: str) -> None:
        """Draw a frame around what stands above ``bottom``, with words in its upper corner."""
        half, top = _BYPASS + 8, self.y - 20
        left, dashes = self.centre - half, {"stroke": self.theme.line, "stroke_dasharray": "4 3"}
        size = {"width": 2 * half, "height": bottom - top, "rx": 8}
        at = {"x": left + 7, "y": top + 14, "font_weight": 600, "fill": self.theme.text}
        around = _tag("rect", x=left, y=top, **size, fill="none", **dashes)
        self.parts.insert(0, around + _tag("text", words, **at))
        self.path(f"M{self.centre:g} {self.y:g}V{top:g}")
        self.y = top


def architecture_svg(model: Description, *, source: int, steps: int, theme: Theme) -> str:
    """Return a drawing of the two stacks as SVG.

    There are ``source`` tokens for the encoder, and the decoder consumes ``steps``.
    """
    attention, feed_forward, ends = theme.weights[1], theme.difference[2], theme.weights[0]
    encoder = _Column(model.of("encoder"), 90, -1, theme)
    decoder = _Column(model.of("decoder"), 270, 1, theme)
    for column, length, what in ((encoder, source, "source"), (decoder, steps, "target so far")):
        is_encoder, own = column is encoder, column.model
        column.text(f"{what}: 1 × {length:,}")
        column.y -= 16
        column.arrow()
        column.box(*_embedding(own), fill=ends)
        column.arrow(f"1 × {length:,} × {own.d_model:,}")
        bottom = column.y + 3
        heads = _heads(own, encoder=is_encoder)
        name = "self-attention" if is_encoder else "masked self-attention"
        if own.merged_attention and not is_encoder:
            across = column.sublayer(name, "+ cross-attention", heads, fill=attention)
        else:
            column.sublayer(name, heads, fill=attention)
        if not (own.merged_attention or is_encoder):
            across = column.sublayer("cross-attention", heads, fill=attention)
        d_ff = own.encoder_d_ff if is_encoder else own.decoder_d_ff
        widths = f"{own.d_model:,} → {d_ff:,} → {own.d_model:,}"
        column.sublayer("feed-forward", widths, fill=feed_forward)
        layers = own.n_encoder_layers if is_encoder else own.n_decoder_layers
        column.frame(bottom, f"{layers} ×")
        if own.final_norm:
            column.arrow()
            column.box(_norm(own))
    model, over, between = decoder.model, encoder.y - 14, (encoder.centre + decoder.centre) / 2
    left = decoder.centre - _BOX / 2
    encoder.path(f"M{encoder.centre:g} {encoder.y:g}V{over:g}H{between:g}V{across:g}H{left:g}")
    encoder.path(f"M{left:g} {across:g}l-6 -3.5v7z", fill=theme.muted, stroke="none")
    named = {"x": encoder.centre, "text_anchor": "middle"}
    shape = f"1 × {source:,} × {encoder.model.d_model:,}"
    encoder.parts.append(_tag("text", "memory", y=over - 18, **named, fill=theme.text))
    encoder.parts.append(_tag("text", shape, y=over - 5, **named, fill=theme.muted))
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
    said = escape(describe_architecture(model, source=source, steps=steps))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:g} {_WIDTH} {6 - top:g}" '
        f'width="100%" role="img" aria-label="{said}" '
        f'font-size="{_LETTERS}">{"".join([*encoder.parts, *decoder.parts])}</svg>'
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
    heads = model.n_encoder_heads if encoder else model.n_decoder_heads
    d_k = model.encoder_d_k if encoder else model.decoder_d_k
    shared = model.of("encoder" if encoder else "decoder").key_heads
    of_keys = "" if shared is None else f", {shared} of keys"
    return f"{heads} heads{of_keys}, d_k = {d_k}"


def _embedding(model: Description) -> tuple[str, ...]:
    lines = ["embedding"]
    lines += ["+ norm"] * model.token_norm
    lines += ["+ positions"] * model.adds_positions
    return (*lines, *["+ norm"] * model.embedding_norm)


# The signs of groups of lessons


def lesson_picture(motif: Motif, theme: Theme) -> str:
    """Return a picture as an image in HTML, which readers of the screen leave out."""
    drawn = "".join(_curves(theme) if motif == "curve" else _cells(motif, theme))
    return f'<img alt="" width="{WIDTH}" height="{HEIGHT}" src="{svg_image(drawn, WIDTH, HEIGHT)}">'


def svg_image(drawn: str, width: int, height: int) -> str:
    """Return elements of SVG as the address of an image.

    Streamlit takes SVG out of HTML, but not an image that is one.
    """
    view_box = f"0 0 {width} {height}"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view_box}">{drawn}</svg>'
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')}"


def _cells(motif: Motif, theme: Theme) -> Iterator[str]:
    """Draw rectangles: the cells of a map, tokens or bars."""
    columns, rows = WIDTH // _CELL, HEIGHT // _CELL
    for row in range(rows):
        if motif == "map":
            for column in range(columns):
                weight = math.exp(-abs(column - row * columns / rows))
                yield _rectangle(column * _CELL, row * _CELL, _CELL, _CELL, theme, weight)
        elif motif == "tokens" and row in (1, 4):
            for place in range(3):
                weight = 0.1 if row == 1 else (place + 1) / 3
                yield _rectangle(place * 32 + 2, row * _CELL, 28, 14, theme, weight)
        elif motif == "bars":
            width = (90, 54, 40, 22, 14, 8, 4)[row]
            yield _rectangle(0, row * _CELL + 1, width, _CELL - 2, theme, 0.5)


def _rectangle(x: float, y: float, width: float, height: float, theme: Theme, weight: float) -> str:
    colour = weight_colour(theme, weight)
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="1" fill="{colour}"/>'


def _curves(theme: Theme) -> Iterator[str]:
    for colour, floor in zip(theme.series, (50, 36), strict=False):
        heights = [floor - (floor - 4) * math.exp(-x / 18) for x in range(WIDTH)]
        points = " ".join(f"{x},{y:.1f}" for x, y in enumerate(heights))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
