"""Runs of ours, saved for ``transformers``: they compute what ours do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, TrainerState
from transformers.utils import logging

from headwise.model.checkpoint import CHECKPOINTS, TrainedRun, load_weights, open_trained_run
from headwise.model.config import BOS, PAD
from headwise.model.decoding.greedy import greedy, longest_target
from headwise.model.decoding.translation import translate
from headwise.model.files import CheckpointError
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, attention_path
from headwise.model.layers import sinusoidal_positions
from headwise.model.masks import PADDING, pad
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.pretrained.to_transformers import (
    TARGET_TOKENIZER,
    save_for_transformers,
    to_tokenizer,
)
from headwise.model.tokenizer import TokenizerPair
from tests.floats import PASS, assert_near
from tests.tiny import tiny_model, write_run

logging.disable_progress_bar()

PAIRS = [
    ("The book is on the table.", "El libro está en la mesa."),
    ("Where is the key?", "¿Dónde está la llave?"),
    ("We don't want water.", "No queremos agua."),
]
Command = Callable[..., str]
TEXTS = [source for source, _ in PAIRS]
STEP = 3

PRE = {"norm": "pre", "final_norm": True}
POST = {"norm": "post", "final_norm": False}
NO_BIAS: dict[str, Any] = {"attention_bias": False, "scale_embeddings": False}
UNEQUAL = {"n_encoder_layers": 1, "n_decoder_layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "pre, all tied, sources begin with <s>": PRE | {"tied": "all", "source_start": True},
    "pre, output tied": PRE | UNEQUAL | {"tied": "output", "output_bias": True},
    "pre, none tied, words": PRE | NO_BIAS | {"tied": "none", "kind": "word"},
    "post, all tied": POST | NO_BIAS | {"tied": "all"},
    "post, output tied": POST | UNEQUAL | {"tied": "output", "own": True},
    "post, none tied, words": POST
    | {"tied": "none", "own": True, "output_bias": True, "kind": "word"},
}


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainedRun]:
    """A tiny run on disk; ``own`` gives each language a vocabulary of its own."""

    def make(
        *, own: bool = False, kind: str = "bpe", source_start: bool = False, **changes: Any
    ) -> TrainedRun:
        pair = TokenizerPair.train(PAIRS, kind=kind, vocab_sizes=(290, 307), shared=not own)
        pair = TokenizerPair(pair.source, pair.target, source_start=source_start)
        sizes = pair.source.vocab_size, pair.target.vocab_size
        shape = {"n_heads": 2, "d_k": None, "max_length": 97} | changes
        model = tiny_model(source_vocab_size=sizes[0], target_vocab_size=sizes[1], **shape)
        return write_run(tmp_path_factory.mktemp("runs") / "tiny", {STEP: model}, pair)

    return make


@pytest.fixture(scope="module", params=MODELS)
def converted(
    request: pytest.FixtureRequest,
    make_run: Callable[..., TrainedRun],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[TrainedRun, Path]:
    """A tiny run, and the folder to which it was saved."""
    run = make_run(**MODELS[request.param])
    folder = tmp_path_factory.mktemp("converted") / "out"
    save_for_transformers(run, folder)
    return run, folder


def with_our_positions(theirs: Any) -> Any:
    """Give a saved model our positions, once they are compared with its own, and make it float64.

    Both are computed in float32, by different formulas, from angles of up to as many radians as
    there are positions. What is computed with the same numbers is equal in all digits.
    """
    for stack in (theirs.get_encoder(), theirs.get_decoder()):
        table = stack.embed_positions.weight
        length, width = table.shape
        pairs = sinusoidal_positions(length, width)
        ours = torch.cat([pairs[:, 0::2], pairs[:, 1::2]], dim=1)
        assert_near(table, ours, size=length, operations=2)
        table.data = ours
    return theirs.double()


def test_logits_and_maps_are_equal(converted: tuple[TrainedRun, Path]) -> None:
    """In a padded batch, all three kinds."""
    run, folder = converted
    ours: Any = load_weights(run, STEP, torch.float64).model
    theirs = with_our_positions(
        AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager")
    )
    source = pad([run.tokenizers.encode_source(text) for text, _ in PAIRS])
    target = pad([run.tokenizers.encode_target(text)[:-1] for _, text in PAIRS])
    assert bool((source == PADDING).any())
    points = [
        f"{attention_path(kind, layer)}.weights"
        for kind in KINDS
        for layer in range(run.description.layers(kind))
    ]
    with torch.inference_mode(), capture(ours, points) as seen:
        logits = ours(source, target)
        found = theirs(
            input_ids=source.clamp(min=PAD),
            attention_mask=source != PADDING,
            decoder_input_ids=target.clamp(min=PAD),
            output_attentions=True,
        )
    assert float(logits.std()) > 0.1
    assert_near(found.logits, logits, operations=PASS)
    maps = [*found.encoder_attentions, *found.decoder_attentions, *found.cross_attentions]
    for point, theirs_map in zip(points, maps, strict=True):
        assert_near(theirs_map, seen[point][0], size=1, operations=PASS)


def test_generate_translates_as_ours(converted: tuple[TrainedRun, Path]) -> None:
    run, folder = converted
    ours = load_weights(run, STEP, torch.float64).model
    theirs = with_our_positions(AutoModelForSeq2SeqLM.from_pretrained(folder))
    source_tokenizer = target_tokenizer = AutoTokenizer.from_pretrained(folder)
    if (folder / TARGET_TOKENIZER).exists():
        target_tokenizer = AutoTokenizer.from_pretrained(folder, subfolder=TARGET_TOKENIZER)
    longest = run.description.max_length
    for text, translation in zip(TEXTS, translate(ours, run.tokenizers, TEXTS), strict=True):
        ids = run.tokenizers.encode_source(text)
        batch = source_tokenizer(text, return_tensors="pt")
        assert batch["input_ids"].tolist() == [ids]
        [expected] = greedy(ours, [ids])
        limit = longest_target(len(ids), longest)
        assert theirs.generation_config.max_length == longest + 1 > limit
        theirs.generation_config.max_length = limit + 1
        [found] = theirs.generate(**batch).tolist()
        theirs.generation_config.max_length = longest + 1
        assert found == expected
        if "\ufffd" not in translation:  # for bytes that are no character, one or several
            assert target_tokenizer.decode(found, skip_special_tokens=True) == translation
        labels = target_tokenizer(text_target=translation)["input_ids"]
        assert [BOS, *labels] == run.tokenizers.encode_target(translation)


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_its_tokenizers_give_equal_tokens(make_run: Callable[..., TrainedRun], kind: str) -> None:
    """Also for names of special tokens in a text."""
    ours = make_run(kind=kind, norm="pre", tied="all").tokenizers.source
    theirs = to_tokenizer(ours, 97)
    texts = st.text() | st.text("</s>unkpad Ll'’ ¿?tT.,()") | st.sampled_from(["</s>", "<pad> a"])

    @given(texts)
    def check(text: str) -> None:
        ids = ours.encode(text)
        assert theirs(text)["input_ids"] == [*ids, 3]
        if kind == "bpe":
            assert theirs.decode(ids) == ours.decode(ids) == text
        known = [id for id in ids if id != 1]
        assert theirs.decode(known) == ours.decode(known)

    check()


@pytest.mark.parametrize(
    ("changes", "step", "message"),
    [
        (PRE | {"final_norm": False}, None, "norms before .* none at the end .* all .* has one"),
        (POST | {"final_norm": True}, None, "norms after .* others at the end .*: Marian has none"),
        ({"d_k": 5}, None, "a head is d_k = 5 wide, .* converted: .* 2 heads and d_model = 14"),
        ({"own": True, "tied": "output"}, None, r"different sizes, \d+ and \d+ tokens, .*one size"),
        ({"tied": "all"}, 7, "no weights of step 7; there are those of: 3"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_leaves_nothing(
    make_run: Callable[..., TrainedRun],
    tmp_path: Path,
    changes: dict[str, Any],
    step: int | None,
    message: str,
) -> None:
    with pytest.raises(CheckpointError, match=f"/tiny.*: .*{message}"):
        save_for_transformers(make_run(**changes), tmp_path / "out", step)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(make_run: Callable[..., TrainedRun], tmp_path: Path) -> None:
    run = make_run(tied="all")
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(CheckpointError, match=f"{folder}: there is something already; name"):
            save_for_transformers(run, folder)
    (tmp_path / "empty").mkdir()
    save_for_transformers(run, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").is_file()


def test_all_steps_become_a_folder_of_the_trainer(
    command: Command, trained_run: TrainedRun, trained_root: Path, tmp_path: Path
) -> None:
    flags = ["--run", "tiny", "--step", "all", "--checkpoints", trained_root]
    output = command("convert", "to-transformers", *flags, tmp_path / "out")
    assert output == f"{tmp_path / 'out'}: Pegasus, step 0, 3, 5, 8\n"
    back = PretrainedRun(tmp_path / "out", "back")
    assert back.steps() == trained_run.steps() == [0, 3, 5, 8]
    assert back.planned_steps == 8
    for step in back.steps():
        state = tmp_path / "out" / f"checkpoint-{step}" / "trainer_state.json"
        history = TrainerState.load_from_json(str(state)).log_history
        rows = [row for row in trained_run.metrics() if row["step"] <= step]
        for theirs, ours in (
            *(("loss", "train_loss"), ("grad_norm", "gradient_norm")),
            *(("eval_loss", "valid_loss"), ("eval_chrf", "chrf")),
        ):
            expected = [(row["step"], row[ours]) for row in rows if ours in row]
            assert [(row["step"], row[theirs]) for row in history if theirs in row] == expected
        one, other = (run.load(step).model for run in (back, trained_run))
        expected = translate(other, trained_run.tokenizers, TEXTS)
        assert translate(one, back.tokenizers, TEXTS) == expected


THEIRS_ALONE = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("out")
model = AutoModelForSeq2SeqLM.from_pretrained("out")
batch = tokenizer(json.loads(sys.argv[1]), padding=True, return_tensors="pt")
texts = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
print(json.dumps({"texts": texts, "ours": [n for n in sys.modules if n.startswith("headwise")]}))
"""


def test_a_shipped_run_translates_with_nothing_of_ours(tmp_path: Path) -> None:
    run = open_trained_run("en-es", root=CHECKPOINTS)
    save_for_transformers(run, tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-I", "-c", THEIRS_ALONE, json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    expected = translate(run.load(run.steps()[-1]).model, run.tokenizers, TEXTS)
    assert json.loads(done.stdout) == {"texts": expected, "ours": []}
