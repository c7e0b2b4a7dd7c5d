"""Head composition: how well what a head writes fits what later heads read, by weights alone.

A head writes by its rows W_O of the output projection, and a later one reads by its columns of W_Q,
W_K or W_V. How much of what the one can write the other can read is said by

    ‖W_O W‖_F / (‖W_O‖_F ‖W‖_F)

(Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", composition scores; they
take W_V W_O and W_Q W_Kᵀ as wholes). Matrices that have nothing to do with each other have about
1/√D, and more or less by their spectra. So the mean of random matrices of the same shapes and
singular values is taken off: with singular vectors drawn evenly, the product of A = U S Vᵀ and
B = P T Qᵀ has the norm of S (Vᵀ P) T, and Vᵀ P is a block of a random orthogonal matrix.

The gain of a norm of each head's queries or keys, and that of the norm between the two that stands
next to them, are a part of the matrices, and so is its centring: with pre-norm that before the
reader (for cross-attention, which reads the encoder's output, the encoder's last), with post-norm
that behind the writer. Other norms and feed-forwards on the way are left out, and biases.

``H`` heads of a layer, ``D`` = d_model, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import (
    Head,
    Kind,
    NormParameters,
    Seq2SeqModel,
    attention_path,
    head_name,
    parse_head,
)
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, sublayers, sublayers_before
from headwise.model.stream import HeldNorm
from headwise.viz_app.core.computed import of_weights
from headwise.viz_app.core.record import Record
from headwise.viz_app.records.trace import Floats

Role = Literal["query", "key", "value"]
"""What a later head makes of what it reads."""
ROLES: tuple[Role, ...] = get_args(Role)
STANDS_OUT = 3
"""An edge stands out from this many standard deviations of random matrices on."""
_BY_CHANCE = 1 / 740
"""Share of a normal distribution above three standard deviations, and below minus three."""
_MANY = 10
"""Times as many edges as by chance, on both sides: then random matrices are no baseline."""


_DRAWS = 64
"""Random matrices of which mean and standard deviation are taken."""
_SEED = 0


class Edge(NamedTuple):
    """An earlier head, and a later one that reads what it wrote: one of a ``Composition``."""

    earlier: Head
    later: Head
    role: Role
    score: float
    error: float
    chance: float

    @property
    def name(self) -> str:
        """The name that links have, such as ``encoder_self.1.2-cross.1.1-key``."""
        return f"{head_name(self.earlier)}-{head_name(self.later)}-{self.role}"

    @property
    def stands_out(self) -> bool:
        """Whether the score is beyond what random matrices have."""
        return self.score > STANDS_OUT * self.error


@dataclass(frozen=True)
class Composition(Record):
    """All E edges between a head and a later one that may read it, in the order of the model."""

    rows = "E"

    heads: tuple[Head, ...]
    """The heads that edges are between."""
    earlier: Annotated[NDArray[np.int64], "E"]
    """Indices of ``heads``; names in files."""
    later: Annotated[NDArray[np.int64], "E"]
    role: Annotated[NDArray[np.int64], "E"]
    """Indices of ``ROLES``; names in files."""
    score: Annotated[Floats, "E"]
    """The norm of the product of both matrices over the product of their norms, less ``chance``."""
    error: Annotated[Floats, "E"]
    """The standard deviation of what random matrices of the same shapes and spectra have."""
    chance: Annotated[Floats, "E"]
    """What these have on average."""

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Return which edges are beyond what random matrices have, (E,)."""
        return np.asarray(self.score > STANDS_OUT * self.error)

    @property
    def below(self) -> NDArray[np.bool_]:
        """Return which edges are as far below what random matrices have, (E,)."""
        return np.asarray(-self.score > STANDS_OUT * self.error)

    @property
    def by_chance(self) -> float:
        """How many edges would stand out if all matrices were random, and as many be below."""
        return _BY_CHANCE * len(self.score)

    @property
    def said(self) -> str:
        """How many edges are above and below what random matrices have, in few words."""
        return (
            f"Of {len(self.score):,} edges {self.stands_out.sum():,} lie above random matrices, "
            f"{self.below.sum():,} below (by chance {self.by_chance:.0f} each)"
        )

    @property
    def against_random(self) -> str:
        """What these counts are of, and what it means if both are large."""
        said = (
            "Counted are edges between a head and a later one that may read it that are more than "
            "three standard deviations above, or below, the mean of random matrices of the same "
            "shapes and spectra."
        )
        if min(self.stands_out.sum(), self.below.sum()) > _MANY * self.by_chance:
            said += (
                " So many on both sides say that random matrices, whose directions have nothing in "
                "common, are no fair baseline here: an edge that stands out need not be one that "
                "two heads made for each other, and the order says more than the number."
            )
        return said

    def edge(self, place: int) -> Edge:
        """Return one edge, by its place among the E."""
        ends = self.heads[self.earlier[place]], self.heads[self.later[place]]
        numbers = (float(each[place]) for each in (self.score, self.error, self.chance))
        return Edge(*ends, ROLES[self.role[place]], *numbers)

    def named(self, name: str) -> Edge | None:
        """Return the edge that has a name in links, or None if there is none."""
        try:
            earlier, later, role = name.split("-")
            return self.between(parse_head(earlier), parse_head(later), ROLES[ROLES.index(role)])
        except ValueError:
            return None

    def between(self, earlier: Head, later: Head, role: Role) -> Edge:
        """Return the edge of two heads; a ValueError if the later one does not read so."""
        of = self.heads.index(earlier), self.heads.index(later), ROLES.index(role)
        [*places] = np.flatnonzero(
            (self.earlier == of[0]) & (self.later == of[1]) & (self.role == of[2])
        )
        if not places:
            raise ValueError(f"expected an edge from {earlier} to {later} by its {role}")
        return self.edge(int(places[0]))

    def strongest(self, most: int) -> list[Edge]:
        """Return the edges that stand out, the largest score first."""
        order = self._by_score()
        return [self.edge(int(place)) for place in order[self.stands_out[order]][:most]]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the edges under the names that files have, (E,) each, the strongest first."""
        heads, roles = np.array([head_name(head) for head in self.heads]), np.array(ROLES)
        ends = {"earlier": heads[self.earlier], "later": heads[self.later]}
        named = ends | {"role": roles[self.role], "stands_out": self.stands_out}
        order = self._by_score()
        return {name: array[order] for name, array in (super().arrays() | named).items()}

    def _by_score(self) -> NDArray[np.int64]:
        return np.argsort(-self.score, kind="stable")


@dataclass(frozen=True)
class _Matrices:
    """What the heads of a layer write or read by, each divided by its Frobenius norm."""

    kind: Kind
    layer: int
    role: Role | None
    """None for what they write by."""
    matrices: Tensor
    """(H, K, D)."""
    spectra: Tensor
    """Squares of the singular values, which sum to 1, (H, K)."""


@of_weights("composition of heads", says="Comparing what heads write with what later ones read")
@torch.inference_mode()
def composition(model: Seq2SeqModel) -> Composition:
    """Compute the composition of every head with every later one that may read what it writes.

    In a stack a head reads what the sublayers before its own wrote; keys and values of
    cross-attention what all heads of the encoder wrote.
    """
    heads = tuple(model.description.all_heads())
    place = {head: number for number, head in enumerate(heads)}
    found: list[list[Tensor]] = []
    for writer, reader in _pairs(model):
        columns, rows = reader.matrices.flatten(0, 1).T, writer.matrices.flatten(0, 1)
        shape = (*writer.matrices.shape[:2], *reader.matrices.shape[:2])
        ratio = (rows @ columns).view(shape).square().sum(dim=(1, 3)).sqrt()  # (H, H)
        drawn = _random(writer.spectra, reader.spectra, writer.matrices.shape[-1])
        chance, error = drawn.mean(dim=0), drawn.std(dim=0)
        first = place[Head(writer.kind, writer.layer, 0)], place[Head(reader.kind, reader.layer, 0)]
        earlier, later = np.indices(ratio.shape)
        role = torch.full_like(ratio, ROLES.index(reader.role or "query"))
        places = torch.tensor(earlier + first[0]), torch.tensor(later + first[1])
        found.append([*places, role, ratio - chance, chance, error])
    earlier_, later_, role_, score, chance_, error_ = (
        torch.cat([each[part].flatten() for each in found]).cpu().numpy() for part in range(6)
    )
    earlier_, later_, role_ = (part.astype(np.int64) for part in (earlier_, later_, role_))
    return Composition(heads, earlier_, later_, role_, score, error_, chance_)


def _pairs(model: Seq2SeqModel) -> Iterator[tuple[_Matrices, _Matrices]]:
    """Yield what is written by a layer of heads, and what a later layer reads it by."""
    encoder = [sub for sub in sublayers(model, "encoder") if sub.kind is not None]
    decoder = [sub for sub in sublayers(model, "decoder") if sub.kind is not None]
    writers = {sub: _written_by(model, sub) for sub in (*encoder, *decoder)}
    for stack in (encoder, decoder):
        for place, reader in enumerate(stack):
            roles = ROLES[:1] if reader.kind == "cross" else ROLES
            for role in roles:
                read = _read_by(model, reader, role)
                before = sublayers_before(model, reader)
                yield from ((writers[writer], read) for writer in stack[:place] if writer in before)
            for role in ROLES[len(roles) :]:
                read = _read_by(model, reader, role)
                yield from ((writers[writer], read) for writer in encoder)


def _written_by(model: Seq2SeqModel, sub: Sublayer) -> _Matrices:
    kind = sub.kind or "cross"
    weight = in_float32(model.linear(f"{sub.path}.output_projection").weight)  # (H K, D)
    if (norm := model.output_norm(sub.path)) is not None:
        weight = _held(model, norm).direction(weight)
    if model.description.of(kind).norm == "post":
        weight = _held(model, model.norm(sub.path)).direction(weight)
    matrices = weight.unflatten(0, (model.description.heads(kind), -1))
    return _divided(kind, sub.layer, None, matrices)


def _read_by(model: Seq2SeqModel, sub: Sublayer, role: Role) -> _Matrices:
    kind = sub.kind or "cross"
    path = attention_path(kind, sub.layer)
    projection = f"{path}.{role}_projection"
    weight = in_float32(model.linear(projection).weight).T  # (H K, D)
    if (of_heads := model.head_norm(projection)) is not None:
        gain = in_float32(of_heads.gain)
        weight = (weight.unflatten(0, (-1, len(gain))) * gain[:, None]).flatten(0, 1)
    norm: NormParameters | None = None
    if kind == "cross" and role != "query":
        norm = model.final_norm("source")
    elif model.description.of(kind).norm == "pre":
        norm = model.norm(path)
    if norm is not None:
        weight = _held(model, norm).direction_before(weight)
    return _divided(kind, sub.layer, role, weight.unflatten(0, (model.description.heads(kind), -1)))


def _held(model: Seq2SeqModel, norm: NormParameters) -> HeldNorm:
    gain = in_float32(norm.gain)
    return HeldNorm(gain, torch.ones_like(gain[:1]), model.description.norm_kind != "rms")


def _divided(kind: Kind, layer: int, role: Role | None, matrices: Tensor) -> _Matrices:
    norms = matrices.flatten(1).norm(dim=1).clamp(min=1e-30)
    divided = matrices / norms[:, None, None]
    spectra = torch.linalg.eigvalsh(divided @ divided.mT).clamp(min=0)
    return _Matrices(kind, layer, role, divided, spectra)


def _random(writers: Tensor, readers: Tensor, width: int) -> Tensor:
    """Return what random matrices of these spectra have: (draws, H, H)."""
    blocks = _blocks(width, writers.shape[1], readers.shape[1]).to(writers)
    return torch.einsum("ak,nkm,bm->nab", writers, blocks, readers).sqrt()


@lru_cache(maxsize=8)
def _blocks(width: int, of_writer: int, of_reader: int) -> Tensor:
    """Return squares of blocks of random orthogonal matrices, (draws, K, K)."""
    generator = torch.Generator().manual_seed(_SEED)
    normal = torch.randn(_DRAWS, width, of_reader, generator=generator)
    return torch.linalg.qr(normal).Q[:, :of_writer].square()
