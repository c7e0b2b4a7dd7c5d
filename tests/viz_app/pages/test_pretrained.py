"""Hugging Face models of every family: pages say nothing false, and show what they compute."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.hooks import hook_names
from headwise.model.interface import KINDS, Kind
from headwise.model.runs import Run, open_folder
from headwise.viz_app.model.angles import encodings
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session import caches
from headwise.viz_app.session.panels import files_state
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate.shown_map import MOST_LABELLED
from tests.floats import PASS, assert_near, near
from tests.model.pretrained.eager import Eager
from tests.model.pretrained.tiny import change_json, stack_of
from tests.viz_app.pages.conftest import SENTENCE
from tests.viz_app.pages.driver import (
    PAGES,
    Folders,
    Page,
    Start,
    array,
    assert_drawn,
    field_of,
    texts_in,
    unescaped,
)
from tests.viz_app.pages.test_words_from_outside import TOKEN, words_shown

SPANISH = "El perro ve una casa."
_SECTIONS = ("diagram", "input", "positions", "lens", "modules")
_FALSE_OF_T5 = (
    *("<s>", "LayerNorm", "PE(", "PE_", r"\sqrt{d_k}", "/√d_k", "÷", "√D ·", "+ β"),
    *("+ b_O", "+ b_Q", "+ b_1", "+ b₁"),
)
_FALSE_OF_GEMMA = (
    *("<s>", "LayerNorm", "PE(", "PE_", r"\sqrt{d_k}", "/√d_k", "+ β", "max(0", "+ B"),
    *("+ b_O", "+ b_Q", "+ b_1", "+ b₁", "relative position"),
)
FALSE_OF: dict[str, tuple[str, ...]] = {
    "marian": ("<s>", "RMSNorm", "max(0"),
    "t5": (*_FALSE_OF_T5, "max(0"),
    "t5_relu": (*_FALSE_OF_T5, "GELU"),
    "t5_1_1": (*_FALSE_OF_T5, "max(0"),
    "pegasus": ("<s>", "RMSNorm", "max(0"),
    "bart": ("RMSNorm", "max(0", "10000", "√D ·"),
    "mbart": ("RMSNorm", "max(0", "10000"),
    "m2m_100": ("RMSNorm", "GELU"),
    "bert2bert": ("<s>", "</s>", "RMSNorm", "max(0", "10000", "√D ·", "final norm"),
    "t5gemma": _FALSE_OF_GEMMA,
    "t5gemma2": (*_FALSE_OF_GEMMA, "after the layer's self-attention", r"1.5\tanh"),
    "bert2gpt2": ("<s>", "</s>", "RMSNorm", "max(0", "10000", "√D ·", "W_T"),
}
"""Words and signs that are false of each: of its first token, norm, activation, scale, biases.

Of models of one description, as T5 1.1 and mT5 or M2M-100 and NLLB, one stands for both.
"""
_INSIDE = {"inside": "projections"}
OPENED: list[tuple[str, str, dict[str, str]]] = [
    *(("t5", page, at) for page, at in PAGES if page != "inside" or at == _INSIDE),
    *(
        (family, page, at)
        for family in FALSE_OF
        if family != "t5"
        for page, at in (
            ("translate", {}),
            ("inside", _INSIDE),
            *(("model", {"section": each}) for each in _SECTIONS),
        )
    ),
    *((family, "why", {}) for family in ("marian", "bert2bert", "t5gemma2")),
]
"""Of a T5 whose tokens are markup each page, of others those that say what a model is like."""


def opened(folder: Path) -> tuple[Run, Any, Trace]:
    """Open a folder: the run, the model of its last step, and its trace of the sentence."""
    run = open_folder(folder, "theirs")
    model = run.load(run.steps()[-1]).model
    return run, model, run_trace(model, run.tokenizers, SENTENCE)


@pytest.fixture(scope="module")
def hostile_model(measured_folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a T5 of which all tokens of three letters or more are markup."""
    folder = shutil.copytree(measured_folders("t5"), tmp_path_factory.mktemp("tokens") / "t5")
    for path in folder.rglob("tokenizer*.json"):
        text = path.read_text()
        if path.name == "tokenizer.json":
            pieces = [piece for piece, _ in json.loads(text)["model"]["vocab"] if len(piece) > 2]
        for piece in pieces:
            text = text.replace(json.dumps(piece), json.dumps(piece + TOKEN))
            text = text.replace(json.dumps(piece, ensure_ascii=False), json.dumps(piece + TOKEN))
        path.write_text(text)
    return folder


def words_of(app: Page) -> str:
    """Return all that a page says: texts, formulas, HTML, labels and helps of widgets."""
    elements = [*app.markdown, *app.caption, *app.text, *app.latex, *app.info]
    widgets = [*app.selectbox, *app.multiselect, *app.button_group, *app.toggle, *app.select_slider]
    told = [element.value for element in elements] + [each.proto.help for each in app.markdown]
    told += [f"{widget.label} {widget.proto.help}" for widget in widgets]
    told += [re.sub("<style>.*?</style>", "", body, flags=re.DOTALL) for body in app.markup()]
    return "\n".join(told)


# What is said


@pytest.mark.parametrize(
    ("family", "page", "address"), OPENED, ids=["-".join([*o[:2], *o[2].values()]) for o in OPENED]
)
def test_pages_say_nothing_false(
    start_model: Start,
    folders: Folders,
    hostile_model: Path,
    family: str,
    page: str,
    address: dict[str, str],
) -> None:
    def see() -> None:
        assert (app.errors, app.warnings) == ([], [])
        told = words_of(app)
        assert [sign for sign in FALSE_OF[family] if sign in told] == []
        if family == "t5":  # whose tokens are markup
            assert words_shown(app) or page in ("learn", "training", "heads", "errors")

    asked = {"below": "steps", "measure": "end", "kind": "encoder_self"} | address
    app = start_model(page, hostile_model if family == "t5" else folders(family), **asked)
    see()
    shown_by = {"kind": "cross", "side": "target"}
    for field in shown_by.keys() & set(map(field_of, app.segmented_control)):
        app.choose(**{field: shown_by[field]})
        see()
    for step in app.widget("inside").options if address == {"inside": "projections"} else []:
        app.choose(inside=step)
        see()


@pytest.mark.parametrize(
    ("family", "formulas"),
    [
        (
            "t5gemma",
            (
                r"1.5\tanh\left(\frac{QK^\top}{\sqrt{7}}\,/\,1.5\right)",
                r"x + \mathrm{RMSNorm}(\mathrm{Sublayer}(\mathrm{RMSNorm}(x)))",
                r"P = \mathrm{softmax}(6\tanh\frac{x\,W}{6})",
                "in the encoder each 2 heads in a row, of 4, and in the decoder each 2",
            ),
        ),
        (
            "t5",
            (
                r"\mathrm{softmax}\left(QK^\top + B\right)V",
                r"x + \mathrm{Sublayer}(\mathrm{RMSNorm}(x))",
                r"\mathrm{hidden} &= \mathrm{GELU}(x\,W_1) \odot x\,V",
                r"P = \mathrm{softmax}(\frac{x}{\sqrt{D}}\,W)",
                "the final norm and then the factor 1/√D and then the unembedding",
            ),
        ),
        (
            "marian",
            (
                r"PE_{(pos,\,D/2+i)} &= \cos\left(pos / 10000^{2i/D}\right)",
                r"\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))",
                r"P = \mathrm{softmax}(x\,W + b)",
                "2 heads projects from 24 to 12 in the encoder, each of 3 heads projects from 24",
                "W₁ is 24 × 31, W₂ 31 × 24 in the encoder, 24 × 29, W₂ 29 × 24 in the decoder",
            ),
        ),
        (
            "bert2bert",
            (
                r"P = \mathrm{softmax}(\mathrm{LayerNorm}(\mathrm{GELU}(x\,W_T + b_T))\,W + b)",
                r"x_{pos} = \mathrm{LayerNorm}(E_{id} + PE_{pos})",
                "To each the vector of the first type of tokens is added",
                "if the layer before the unembedding and then the unembedding read",
            ),
        ),
    ],
)
def test_formulas_and_the_tree_are_those_of_the_model(
    start_model: Start,
    folders: Folders,
    eager: Callable[[str], Eager],
    family: str,
    formulas: Sequence[str],
) -> None:
    run, model, _ = opened(folders(family))
    sections = ("diagram", "lens", "modules")
    apps = [start_model("model", folders(family), section=each) for each in sections]
    app, told = apps[-1], " ".join(map(words_of, apps))
    assert [formula for formula in formulas if formula not in told] == []
    [tree] = app.markup('<div class="modules"')
    assert re.findall(r'data-hook="(.*?)"', tree) == hook_names(model)
    rows = re.findall(r'<tr data-module="(.*?)">(.*?)</tr>', tree)
    counts = {name: int(texts_in(row, "td")[-1].replace(",", "")) for name, row in rows}
    assert sum(counts.values()) == run.parameters
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        table = stack_of(eager(family).inner, stack).get_input_embeddings().weight
        found = caches.embedding_table(run, run.steps()[-1], side)
        np.testing.assert_array_equal(found, table.numpy(force=True))
    if family == "marian":  # its end has the id 0, which is padding in runs of ours
        app = start_model("model", folders(family), section="masks")
        alone, batch = app.markup('<div class="padding"')
        assert "×" not in alone
        cells = [unescape(cell) for cell in texts_in(batch, "td")]
        assert cells.count("<pad> ×") == 3


def test_positions_are_those_of_the_model(start_model: Start, folders: Folders) -> None:
    """Sinusoids in another order, or learned ones."""
    _, _, trace = opened(folders("marian"))
    app = start_model("model", folders("marian"), section="positions")
    drawn = app.cells("encodings")
    assert_near(drawn, encodings(np.arange(50), 24, "halves"), size=1, operations=1)
    recorded = trace.source_embedding.positions
    assert recorded is not None
    assert_near(drawn[: len(recorded)], recorded, size=1)
    [legend] = app.choose(dimensions=[3, 15]).run().markup('class="waves"')
    assert "PE(pos, 3) = sin(pos / 10.0)" in legend
    assert "PE(pos, 15) = cos(pos / 10.0)" in legend

    _, _, trace = opened(folders("bart"))
    app = start_model("model", folders("bart"), section="positions")
    app.expect_cells("encodings", trace.source_embedding.positions)
    assert list(app.charts) == ["encodings", "position_similarity"]
    assert "They are learned" in app.captions
    app = start_model("model", folders("bart"), section="input")
    app.expect_cells("total", trace.source_embedding.total)
    app.expect_cells("normed", trace.encoder_stream[0])


@pytest.mark.parametrize(("side", "kind"), [("source", "encoder_self"), ("target", "decoder_self")])
def test_relative_positions(start_model: Start, folders: Folders, side: str, kind: Kind) -> None:
    _, model, trace = opened(folders("t5"))
    app = start_model("model", folders("t5"), section="positions", side=side)
    bias = run_layer_trace(model, trace, kind, 0).attention.position_bias
    assert bias is not None
    lines = app.charts["relative"]["data"]
    size = float(np.abs(bias).max())
    for line, of_head in zip(lines, bias, strict=True):
        for distance, value in zip(array(line["x"]), array(line["y"]), strict=True):
            query, key = (0, distance) if distance > 0 else (-distance, 0)
            assert value == near(of_head[query, key], dtype=np.float32, size=size)
    assert "All layers add the same." in app.captions
    assert list(start_model("model", folders("t5"), section="input").charts) == ["tokens"]


def test_the_unknown_is_said(start_model: Start, folders: Folders) -> None:
    app = start_model("model", folders("marian"), section="similarity", all_pairs="true")
    told = "How often tokens occur in the training data is not known"
    assert told in app.captions
    assert "neighbours" in app.charts
    assert list(app.dataframe[0].value.columns) == ["token", "other token", "cosine"]
    for section, told in {
        "curves": "no trainer_state.json",
        "translations": "logged no translations",
        "compare": "one checkpoint only",
        "watch": "one checkpoint only",
        "heads": "has not been measured yet",
    }.items():
        app = start_model("training", folders("bart"), training=section)
        assert told in " ".join([app.captions, *(info.value for info in app.info)])
    command = start_model("heads", folders("bart")).code[0].value
    assert "--run PATH/bart --data FILE --columns SOURCE TARGET" in command


def test_folders_that_are_not_among_the_checkpoints_are_named(
    start_model: Start, folders: Folders, tmp_path: Path
) -> None:
    folder = shutil.copytree(folders("marian", trained=True), tmp_path / "out")
    newest = max(folder.glob("checkpoint-*"))
    shutil.copytree(newest, folder / "checkpoint-*best*")
    (folder / "checkpoint-*best*" / "trainer_state.json").unlink()
    (folder / "checkpoint-9" / "pytorch_model_fsdp_0").mkdir(parents=True)
    (folder / "checkpoint-9" / "pytorch_model_fsdp_0" / "__0_0.distcp").touch()
    app = start_model("training", folder, training="curves")
    told = unescaped(app.captions)
    assert "checkpoint-9: the weights are shards of FSDP" in told
    assert "in it says its step; its own path opens it: out/checkpoint-*best*" in told
    assert str(tmp_path) not in told


# What is computed


@pytest.fixture(scope="module")
def eager(folders: Folders) -> Callable[[str], Eager]:
    """Return a function that opens a family's model as ``transformers`` does, once."""
    return cache(lambda family: Eager.open(folders(family)))


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_maps_and_predictions_are_those_of_transformers(
    start_model: Start, folders: Folders, eager: Callable[[str], Eager], family: str
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), layer="2", head="2", at="3")
    source = theirs.tokenizer(SENTENCE)["input_ids"]
    target = theirs.generate(source, len(app.token_row("target")))
    assert theirs.tokenizer.decode(target, skip_special_tokens=True).strip() in app.texts
    for kind in KINDS:
        app.choose(kind=kind).run()
        weights = theirs.attention(source, target, kind)[1, 1]
        app.expect_cells("large", weights, operations=PASS)
    app.choose(at=3).run()
    logits = theirs.forward(source, target).logits[0, 3]
    probabilities = np.sort(logits.softmax(dim=-1).numpy())[::-1]
    bars = array(app.charts["top_tokens"]["data"][0]["x"])
    assert_drawn(bars, probabilities[: len(bars)], operations=PASS)
    rows = theirs.attention(source, target, "cross")[:, :, 3].reshape(-1, len(source))
    app.expect_cells("rows_cross", rows, operations=PASS)

    # Special tokens are those of the model; their ids in runs of ours are others' here.
    run = open_folder(folders(family), "theirs")
    kept = [at for at, id in enumerate(source) if id not in run.tokenizers.source.control_ids]
    assert 0 < len(kept) < len(source)
    app.choose(special=False).choose(kind="encoder_self").run()
    weights = theirs.attention(source, target, "encoder_self")[1, 1]
    app.expect_cells("large", weights[kept][:, kept], operations=PASS)

    # A forced target.
    app.choose(special=True).choose(kind="cross", target=SPANISH).run()
    first = theirs.inner.config.decoder_start_token_id
    target = [first, *theirs.tokenizer(text_target=SPANISH)["input_ids"]]
    weights = theirs.attention(source, target, "cross")[1, 1]
    app.expect_cells("large", weights, operations=PASS)
    total = theirs.log_probabilities(source, target).sum()
    assert app.says("{:.2f} nats", total, operations=PASS)


@pytest.mark.parametrize(
    ("family", "asked"),
    [
        ("nllb", {"to": "spa_Latn"}),
        ("mbart", {"to": "de_DE"}),
        ("marian", {"task": ">>cat<< "}),
        ("t5_relu", {"task": "translate English to Spanish: "}),
    ],
)
def test_languages_and_tasks_are_given_as_transformers_gives_them(
    start_model: Start,
    folders: Folders,
    eager: Callable[[str], Eager],
    family: str,
    asked: dict[str, str],
) -> None:
    theirs = eager(family)
    app = start_model("translate", folders(family), **asked)
    source = theirs.tokenizer(asked.get("task", "") + SENTENCE)["input_ids"]
    settings = {}
    if "to" in asked:
        first = "decoder_start_token_id" if family == "mbart" else "forced_bos_token_id"
        settings[first] = theirs.tokenizer.convert_tokens_to_ids(asked["to"])
    target = theirs.generate(source, len(app.token_row("target")), **settings)
    drawn = app.cells("large")
    expected = theirs.attention(source, target, "cross")[-1, 0][:MOST_LABELLED]
    assert_drawn(drawn, expected, operations=PASS)
    assert {*settings.values()} <= {*target[:2]}
    without = start_model("translate", folders(family)).cells("large")
    assert drawn.shape != without.shape or not np.allclose(drawn, without, atol=1e-3)
    # What "Leave them out" does where heads rest on </s> and language codes.
    content = app.choose(special=False).choose(punctuation=False).cells("large")
    texts = theirs.tokenizer.convert_ids_to_tokens(source)
    codes = {"</s>", ".", ":", "eng_Latn", "en_XX", ">>cat<<"}
    assert content.shape[1] == len([text for text in texts if text not in codes])


@pytest.mark.parametrize(
    ("settings", "told", "asked"),
    [
        ({"num_beams": 6, "length_penalty": 2.0}, "length_penalty = 2.0, num_beams = 6", 6),
        ({"max_new_tokens": 7, "do_sample": True}, "do_sample = True, max_new_tokens = 7", None),
        ({"num_beams": 1, "length_penalty": 1.0}, None, None),
    ],
)
def test_settings_of_generation_are_named_beside_decoding_and_their_beam_is_taken(
    start_model: Start,
    folders: Folders,
    tmp_path: Path,
    settings: dict[str, Any],
    told: str | None,
    asked: int | None,
) -> None:
    folder = shutil.copytree(folders("t5"), tmp_path / "asking")
    change_json(folder / "generation_config.json", **settings)
    app = start_model("translate", folder)
    said = [text.value for text in app.sidebar.caption if "generation settings" in text.value]
    assert len(said) == (told is not None)
    if told is not None:
        named = unescaped(said[0]).rstrip(".").rsplit(": ", 1)[1]
        assert sorted(named.split(", ")) == told.split(", ")
    buttons = [button for button in app.sidebar.button if button.key == "asked-beam"]
    assert len(buttons) == (asked is not None)
    if asked is not None:
        buttons[0].click().run()
        assert [slider.value for slider in app.sidebar.select_slider][-1] == asked
        assert not [b for b in app.sidebar.button if b.key == "asked-beam"]
        left = unescaped("".join(text.value for text in app.sidebar.caption))
        assert "penalty" in left
        assert "num_beams" not in left


# A training that goes on


def test_a_running_training_is_named(start_model: Start, folders: Folders, tmp_path: Path) -> None:
    folder = shutil.copytree(folders("marian", trained=True), tmp_path / "going")
    last = max(open_folder(folder, "theirs").steps())
    change_json(folder / f"checkpoint-{last}" / "trainer_state.json", max_steps=3_000)
    said = [each.value for each in start_model("translate", folder).markdown]
    told = f"**theirs**, training: step {last} of 3,000, loss {50 / last:.3g}"
    assert [each for each in said if told in each]


# A training that has just begun


def test_a_training_is_waited_for_until_its_first_checkpoint_is_complete(
    start_model: Start, folders: Folders, tmp_path: Path
) -> None:
    """The look at its files sees each thing that comes, until it is."""
    complete = folders("marian", trained=True) / "checkpoint-10"
    folder = tmp_path / "begun"
    folder.mkdir()
    app = start_model("translate", folder)
    written = folder / complete.name
    written.mkdir()
    before = files_state("theirs", [folder, written])
    shutil.copy(complete / "config.json", written)
    assert files_state("theirs", [folder, written]) != before
    assert "as soon as it is complete" in app.run().info[0].value
    shutil.copy(complete / "model.safetensors", written)
    assert "there is no tokenizer" in app.run().errors[0]
    for path in complete.iterdir():
        shutil.copy(path, written)
    assert (app.run().errors, [*app.info]) == ([], [])
    assert app.view.step == 10
    assert app.token_row("source")


# An adapter


def test_an_adapter_beside_its_base(start_model: Start, folders: Folders, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from tests.model.pretrained.test_adapters import adapt

    base, folder = folders("t5_relu"), tmp_path / "adapter"
    adapt(base, folder)
    app = start_model("training", folder, training="compare", other_step="0")
    assert (app.errors, app.warnings) == ([], [])
    assert f"With an adapter (LoRA) of {base.name}; step 0 is without it." in app.captions
    assert np.abs(app.cells("difference")).max() > 0
