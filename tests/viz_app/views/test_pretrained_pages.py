"""Every page of Hugging Face models of every family, some with the checkpoints of a training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.hooks import hook_names
from headwise.model.runs import Run, open_folder
from headwise.viz_app.analysis.positions import encodings
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near
from tests.viz_app.views.conftest import SENTENCE
from tests.viz_app.views.driver import (
    PAGES,
    Folders,
    Start,
    array,
    assert_cells,
    captions,
    cells,
    charts,
    choose,
    errors,
    field_of,
    html,
    texts_in,
)

FAMILIES = ("marian", "t5")
MEASURED = (*FAMILIES, "mbart", "m2m_100")
"""Families whose every page is opened; of the others those that differ by family."""
_FALSE_OF_T5 = (
    *("<s>", "LayerNorm", "PE(", "PE_", r"\sqrt{d_k}", "/√d_k", "÷", "√D ·", "+ β"),
    *("+ b_O", "+ b_Q", "+ b_1", "+ b₁"),
)
FALSE_OF: dict[str, tuple[str, ...]] = {
    "marian": ("<s>", "RMSNorm", "max(0"),
    "t5": (*_FALSE_OF_T5, "max(0"),
    "t5_relu": (*_FALSE_OF_T5, "GELU"),
    "t5_1_1": (*_FALSE_OF_T5, "max(0"),
    "mt5": (*_FALSE_OF_T5, "max(0"),
    "pegasus": ("<s>", "RMSNorm", "max(0"),
    "bart": ("RMSNorm", "max(0", "10000", "√D ·"),
    "mbart": ("RMSNorm", "max(0", "10000"),
    "m2m_100": ("RMSNorm", "GELU"),
    "nllb": ("RMSNorm", "GELU"),
}
"""Words and signs that are false of each: of its first token, norm, activation, scale, biases."""


def opened(folder: Path) -> tuple[Run, Any, Trace]:
    """Open a folder: the run, the model of its last step, and its trace of the sentence."""
    run = open_folder(folder, "theirs")
    checkpoint = run.load(run.steps()[-1])
    return run, checkpoint.model, run_trace(checkpoint.model, run.tokenizers, SENTENCE)


def words_of(app: AppTest) -> str:
    """Return all that a page says: texts, formulas, HTML, labels and helps of widgets."""
    elements = [*app.markdown, *app.caption, *app.text, *app.latex, *app.info]
    widgets = [*app.selectbox, *app.multiselect, *app.button_group, *app.toggle, *app.select_slider]
    told = [element.value for element in elements]
    told += [f"{widget.label} {widget.proto.help}" for widget in widgets]
    told += [re.sub("<style>.*?</style>", "", body, flags=re.DOTALL) for body in html(app)]
    return "\n".join(told)


SINGLE = [name for name in FALSE_OF if name not in MEASURED]
OPENED = [
    *((family, page, address) for family in MEASURED for page, address in PAGES),
    *((family, page, {}) for family in SINGLE for page in ("translate", "inside", "architecture")),
]


@pytest.mark.parametrize(
    ("family", "page", "address"), OPENED, ids=["-".join([*o[:2], *o[2].values()]) for o in OPENED]
)
def test_pages_say_nothing_false(
    start_model: Start,
    folders: Folders,
    measured: Folders,
    family: str,
    page: str,
    address: dict[str, str],
) -> None:
    folder = measured(family) if family in MEASURED else folders(family)
    app = start_model(page, folder, rank="true", **address)
    for kind in ("encoder_self", "cross"):
        if "kind" in map(field_of, app.segmented_control):
            app = choose(app, kind=kind).run()
        assert errors(app) == []
        assert [warning.value for warning in app.warning] == []
        told = words_of(app)
        assert [sign for sign in FALSE_OF[family] if sign in told] == []


@pytest.mark.parametrize(
    ("family", "section"),
    [
        *((family, section) for family in FALSE_OF for section in ("input", "positions")),
        *((family, section) for family in FAMILIES for section in ("similarity", "projection")),
    ],
)
def test_embeddings_of_either_side(
    start_model: Start, folders: Folders, family: str, section: str
) -> None:
    for side in ("source", "target"):
        app = start_model("embeddings", folders(family), section=section, side=side)
        assert errors(app) == []
        told = words_of(app)
        assert [sign for sign in FALSE_OF[family] if sign in told] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tree_has_all_weights_and_hook_points_at_their_modules(
    start_model: Start, folders: Folders, family: str
) -> None:
    run, model, _ = opened(folders(family))
    [tree] = html(start_model("architecture", folders(family)), '<div class="modules"')
    assert re.findall(r'data-hook="(.*?)"', tree) == hook_names(model)
    rows = re.findall(r'<tr data-module="(.*?)">(.*?)</tr>', tree)
    counts = {name: int(texts_in(row, "td")[-1].replace(",", "")) for name, row in rows}
    assert sum(counts.values()) == run.parameters
    weight, bias = model.linear("decoder.layers.1.cross_attention.key_projection")
    expected = weight.numel() + (bias.numel() if bias is not None else 0)
    assert counts["decoder.layers.1.cross_attention.key_projection"] == expected


def test_formulas_of_a_t5(start_model: Start, folders: Folders) -> None:
    told = words_of(start_model("architecture", folders("t5")))
    for formula in (
        r"\mathrm{softmax}\left(QK^\top + B\right)V",
        r"x + \mathrm{Sublayer}(\mathrm{RMSNorm}(x))",
        r"\mathrm{FFN}(x) &= \mathrm{hidden}\,W_2",
        r"\mathrm{hidden} &= \mathrm{GELU}(x\,W_1) \odot x\,V",
        r"P = \mathrm{softmax}(\frac{x}{\sqrt{D}}\,W)",
        "the final norm and then the factor 1/√D and then the unembedding",
        "γ x / √(mean of x² + ε)",
        "headᵢ = softmax(QKᵀ + B)V",
        "headᵢ = softmax(QKᵀ)V",
    ):
        assert formula in told


def test_formulas_of_a_marian(start_model: Start, folders: Folders) -> None:
    told = words_of(start_model("architecture", folders("marian")))
    for formula in (
        r"PE_{(pos,\,D/2+i)} &= \cos\left(pos / 10000^{2i/D}\right)",
        r"\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))",
        r"\mathrm{FFN}(x) &= \mathrm{hidden}\,W_2 + b_2",
        r"\mathrm{hidden} &= \mathrm{GELU}(x\,W_1 + b_1)",
        r"P = \mathrm{softmax}(x\,W + b)",
        "2 heads projects from 24 to 12 in the encoder, each of 3 heads projects from 24 to 8 in",
        "W₁ is 24 × 31, W₂ 31 × 24 in the encoder, 24 × 29, W₂ 29 × 24 in the decoder",
    ):
        assert formula in told


def test_padding_is_that_of_the_model(start_model: Start, folders: Folders) -> None:
    """Of a Marian the end has the id 0, which is padding in runs of ours."""
    alone, batch = html(start_model("architecture", folders("marian")), '<div class="padding"')
    assert "×" not in alone
    assert (
        texts_in(batch, "td").count("&lt;pad&gt; ×") + texts_in(batch, "td").count("<pad> ×") == 3
    )


def test_sinusoids_in_the_order_of_the_model(start_model: Start, folders: Folders) -> None:
    _, model, trace = opened(folders("marian"))
    app = start_model("embeddings", folders("marian"), section="positions")
    drawn = cells(app, "encodings")
    width = model.description.d_model
    assert_near(drawn, encodings(np.arange(50), width, "halves"), size=1, operations=1)
    recorded = trace.source_embedding.positions
    assert recorded is not None
    assert_near(drawn[: len(recorded)], recorded, size=1)
    app = choose(app, dimensions=[3, 15]).run()
    [legend] = html(app, 'class="waves"')
    assert "PE(pos, 3) = sin(pos / 10.0)" in legend
    assert "PE(pos, 15) = cos(pos / 10.0)" in legend


def test_learned_positions_are_drawn_as_recorded(start_model: Start, folders: Folders) -> None:
    _, _, trace = opened(folders("bart"))
    app = start_model("embeddings", folders("bart"), section="positions")
    assert_cells(app, "encodings", trace.source_embedding.positions)
    assert list(charts(app)) == ["encodings", "position_similarity"]
    assert "They are learned" in captions(app)
    app = start_model("embeddings", folders("bart"))
    assert_cells(app, "total", trace.source_embedding.total)
    assert_cells(app, "normed", trace.encoder_stream[0])


@pytest.mark.parametrize("side", ["source", "target"])
def test_relative_positions_as_a_curve_a_head(
    start_model: Start, folders: Folders, side: str
) -> None:
    _, model, trace = opened(folders("t5"))
    app = start_model("embeddings", folders("t5"), section="positions", side=side)
    kind: Any = "encoder_self" if side == "source" else "decoder_self"
    bias = run_layer_trace(model, trace, kind, 0).attention.position_bias
    assert bias is not None
    lines = charts(app)["relative"]["data"]
    assert len(lines) == len(bias)
    size = float(np.abs(bias).max())
    for line, of_head in zip(lines, bias, strict=True):
        for distance, value in zip(array(line["x"]), array(line["y"]), strict=True):
            query, key = (0, distance) if distance > 0 else (-distance, 0)
            assert value == near(of_head[query, key], dtype=np.float32, size=size)
    assert "All layers add the same." in captions(app)
    assert list(charts(start_model("embeddings", folders("t5")))) == ["tokens"]


def test_neighbours_and_pairs_without_counts(start_model: Start, folders: Folders) -> None:
    app = start_model("embeddings", folders("marian"), section="similarity")
    assert "among all tokens. How often tokens occur in the training data is not known" in captions(
        app
    )
    assert "neighbours" in charts(app)
    assert list(app.dataframe[0].value.columns) == ["token", "other token", "cosine"]


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_are_those_of_the_model(
    start_model: Start, folders: Folders, family: str
) -> None:
    """The ids of special tokens in our runs, 0, 2 and 3, are those of other tokens here."""
    run, _, trace = opened(folders(family))
    app = start_model("translate", folders(family), special="false", layer="1")
    app = choose(app, kind="encoder_self").run()
    control = run.tokenizers.source.control_ids
    kept = [i for i, id in enumerate(trace.source.ids) if id not in control]
    assert 0 < len(kept) < len(trace.source)
    assert_cells(app, "large", trace.attention["encoder_self"][0, 0][kept][:, kept])


def test_curves_are_those_of_the_trainer(start_model: Start, folders: Folders) -> None:
    app = start_model("training", folders("marian", trained=True), training="curves")
    lines = {line.get("name"): line for line in charts(app)["curves"]["data"]}
    drawn = sorted(array(line["y"]).tolist() for line in lines.values() if len(line["x"]) > 1)
    assert [3.0, 6.0] in [sorted(values) for values in drawn]
    assert set(lines) == {"training batches", "valid"}
    assert "Not logged: BLEU, learning rate, chrF, norm of the gradient" in captions(app)
    assert "label smoothing" not in captions(app)


def test_what_a_single_model_lacks_is_said(start_model: Start, folders: Folders) -> None:
    said = {}
    for section in ("curves", "translations", "compare", "play", "heads", "embeddings"):
        app = start_model("training", folders("bart"), training=section)
        assert errors(app) == []
        said[section] = " ".join(info.value for info in app.info)
    assert "no trainer_state.json" in said["curves"]
    assert "logged no translations" in said["translations"]
    assert "one checkpoint only" in said["compare"]
    assert "one checkpoint only" in said["play"]
    assert "one checkpoint only" in said["embeddings"]
    assert "has not been measured yet" in said["heads"]
    command = start_model("heads", folders("bart")).code[0].value
    assert "--run PATH/bart --data FILE --columns SOURCE TARGET" in command


def test_measures_name_the_first_token_of_the_model(start_model: Start, measured: Folders) -> None:
    app = start_model("training", measured("t5"), training="heads")
    app = choose(app, measure="begin")
    assert errors(app) == []
    assert charts(app)["head_matrix"]["data"]
    assert r"\texttt{<pad>}" in words_of(app)
