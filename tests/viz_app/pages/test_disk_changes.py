"""The disk changes under the open app: it says what is wrong in place, loses nothing, goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights, save_weights, weights_path
from headwise.model.files import append_log, only_writer
from headwise.model.tokenizer import Tokenizer, TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.panels import files_state
from tests.viz_app.pages.driver import (
    CATS,
    CATS_TRANSLATED,
    STEPS,
    Page,
    Start,
    break_file,
    edit_json,
    traced,
    unescaped,
    without_weights,
    write_run,
)

TYPED = "Where is the cat?"
READING = [
    *((page, {}) for page in ("translate", "inside", "why")),
    *(("training", {"training": section}) for section in ("watch", "compare", "embeddings")),
    *(("model", {"section": section}) for section in ("diagram", "similarity", "layers")),
    ("heads", {"heads": "feeds"}),
]
"""Pages, and sections, that read weights in ways of their own."""
PAGE = "training"


def labels(app: Page) -> list[str]:
    return [button.label for button in app.button]


# What is missing or broken


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes in a folder")
@pytest.mark.parametrize("file", ["run.json", "step-0000060.safetensors"])
def test_a_pipe_in_a_run_stops_no_page(start_page: Start, own_root: Path, file: str) -> None:
    app = start_page("app", own_root, q=TYPED)
    path = own_root / "tiny" / file
    path.unlink()
    os.mkfifo(path)
    said = " ".join(app.run().errors)
    assert f"{file}: expected a regular file" in said or "expected a run (run.json)" in said
    path.unlink()


@pytest.mark.parametrize(("page", "address"), READING)
def test_broken_weights_are_named_where_they_are_read(
    start_page: Start, own_root: Path, page: str, address: dict[str, str]
) -> None:
    app = start_page(page, own_root, q=TYPED, **address)
    weights = weights_path(own_root / "tiny", 60)
    content = weights.read_bytes()
    break_file(weights)
    app.run()
    problems = app.errors
    assert problems
    for problem in problems:
        assert problem.startswith(f"tiny/{weights.name}: truncated")
    weights.write_bytes(content)
    assert app.run().errors == []
    assert (app.widget("run").value, app.widget("sentence").value) == ("tiny", TYPED)


@pytest.mark.parametrize("typed", [TYPED, "the " * 400], ids=["short", "too long for the address"])
def test_runs_go_and_come_back(start: Start, own_root: Path, typed: str) -> None:
    tiny, away = own_root / "tiny", own_root.parent / "away"
    app = start(own_root, training="curves").choose(sentence=typed)
    tiny.rename(away)
    (problem,) = app.run().errors
    told = f"there is no run in {own_root.name}: train one with python -m headwise.model.train"
    assert problem.startswith(told)
    shutil.copytree(away, own_root / "other")
    assert app.run().errors == []
    assert (app.widget("run").value, app.widget("sentence").value) == ("other", typed)
    away.rename(tiny)
    app.run()
    assert app.widget("run").options == ["other", "tiny"]
    shutil.rmtree(own_root / "other")
    assert app.run().errors == []
    assert (app.widget("run").value, app.widget("sentence").value) == ("tiny", typed)


def test_a_broken_run_is_named_and_another_works(start_page: Start, own_root: Path) -> None:
    shutil.copytree(own_root / "tiny", own_root / "broken")
    (own_root / "broken" / "run.json").write_text("{")
    app = start_page("app", own_root)
    (message,) = app.errors
    assert message.startswith("broken/run.json: not JSON")
    app.choose(run="tiny")
    assert CATS_TRANSLATED in app.texts


def test_another_checkpoint_still_works(start_page: Start, own_root: Path, run: TrainedRun) -> None:
    weights_path(own_root / "tiny", 60).write_bytes(b"")
    app = start_page("translate", own_root, q=CATS)
    assert "truncated" in app.errors[0]
    app.choose(step=20)
    assert traced(run, step=20).target_text in app.texts
    assert app.choose(compare=True).errors[0].startswith("tiny/step-0000060.safetensors: truncated")
    assert traced(run, step=20).target_text in app.texts


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (10**9, "n_encoder_layers: expected at most 1,000, got 1000000000"),
        (3, "the model is not that of the weights in this folder; restore run.json"),
    ],
)
def test_widgets_are_never_made_for_layers_that_are_not_there(
    start: Start, own_root: Path, layers: int, message: str
) -> None:
    """In this section they are drawn before weights are read, or with those read earlier."""
    shutil.copytree(own_root / "tiny", own_root / "other")
    address = {"training": "watch", "shared": "own", "target": "El gato."}
    app = start(own_root, q=TYPED, run="tiny", **address)
    edit_json(own_root / "tiny" / "run.json", "model", n_layers=layers)
    (problem,) = app.run().errors
    assert problem.startswith(f"tiny/run.json: {message}")
    app.choose(run="other")
    assert app.widget("sentence").value == TYPED


# What is replaced


@pytest.fixture
def replace_run(run: TrainedRun) -> Callable[[Path], Callable[[int], Trace]]:
    """Puts another run into a folder; comes back with traces of ``CATS`` by it, by step.

    Its name, configuration and numbers of tokens are the same; its tokens and weights are not.
    """

    def put(folder: Path) -> Callable[[int], Trace]:
        numbers = [" ".join(map(str, range(1_000, 2_000)))]
        config, models = run.info.model, {}
        sizes = config.source_vocab_size, config.target_vocab_size
        pair = TokenizerPair(*(Tokenizer.train(numbers, size) for size in sizes))
        for step in run.steps():
            torch.manual_seed(step)
            models[step] = Transformer(config)
        shutil.rmtree(folder)
        new = write_run(folder.parent, run, models, pair)
        return lambda step: traced(new, step=step)

    return put


@pytest.mark.parametrize(
    ("page", "address", "button"),
    [
        ("translate", {"compare": "true", "second": "20"}, "next"),
        ("training", {"training": "compare"}, "farthest-0"),
        ("model", {"section": "similarity"}, None),
        ("training", {"training": "embeddings"}, None),
    ],
)
def test_a_replaced_run_is_read_again(
    start_page: Start,
    own_root: Path,
    replace_run: Callable[[Path], Callable[[int], Trace]],
    page: str,
    address: dict[str, str],
    button: str | None,
) -> None:
    """A part of the page never puts old tokens and new weights together.

    Nor keeps what came of it for those who look at the run next.
    """
    app = start_page(page, own_root, q=CATS, **address)
    trace_at = replace_run(own_root / "tiny")
    if button:  # draws some panels, with the run that they were given
        app.button(key=button).click()
    app.run()
    if button:
        assert {trace_at(step).target_text for step in (20, 60)} <= set(app.texts)
        assert trace_at(60).target_text in start_page("translate", own_root, q=CATS).texts


# What a training adds


def test_a_new_checkpoint_is_offered_and_the_one_in_use_stays(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    app = start(own_root, step="20")
    assert not [label for label in labels(app) if label.startswith("Newer")]
    save_weights(own_root / "tiny", load_weights(run, 60).model, run="tiny", step=80)
    app.run()
    slider = app.widget("step")
    assert (slider.value, slider.options) == (20, ["0", "20", "60", "80"])
    app.button(key="newer").click().run()
    assert app.widget("step").value == 80
    assert "Newer checkpoint: step 80" not in labels(app)


def test_a_look_sees_runs_checkpoints_and_lines_and_nothing_else(
    own_root: Path, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(own_root))
    folder = own_root / "tiny"
    log = folder / "metrics.jsonl"
    found = [files_state("tiny", [log])]
    assert found == [((("tiny",), STEPS), (None,))]
    (folder / "training.lock").touch()
    (folder / ".step-0000080.safetensors.unfinished").touch()
    assert files_state("tiny", [log]) == found[0]
    for change in (
        lambda: append_log(log, [{"step": 60, "train_loss": 1.0}]),
        lambda: log.write_text(log.read_text() + '{"step"'),
        lambda: save_weights(folder, load_weights(run, 60).model, run="tiny", step=80),
        lambda: shutil.copytree(folder, own_root / "other"),
        lambda: shutil.rmtree(folder),
    ):
        change()
        found.append(files_state("tiny", [log]))
    assert found[-1] == ((("other",), ()), (None,))
    assert len(set(found)) == len(found)


def test_what_the_frame_offers_is_what_a_look_sees(start: Start, own_root: Path) -> None:
    """Else the app would be drawn again at each look."""
    other = shutil.copytree(own_root / "tiny", own_root / "other")  # a folder of another name
    app = start(own_root, run="other")
    assert app.session_state["offered"] == files_state("other", [])[0]
    (other / "run.json").write_text("{", encoding="utf-8")
    assert app.run().errors
    assert app.session_state["offered"] == files_state("other", [])[0]


def training(app: Page) -> list[str]:
    """Return what is said of trainings that run."""
    return [unescaped(text.value) for text in app.markdown if "training:" in text.value]


def test_a_training_says_how_far_it_is(start: Start, own_root: Path) -> None:
    row = {"step": 30, "tokens": 3_000, "train_loss": 2.0, "tokens_per_second": 25.0}
    append_log(own_root / "tiny" / "metrics.jsonl", [row])
    app = start(own_root)
    assert not training(app)
    with only_writer(own_root / "tiny"):
        (said,) = training(app.run())
    assert said.endswith("**tiny**, training: step 30 of 60, loss 2, 25 tokens/s, about 2 min left")


def test_another_run_that_trains_can_be_opened_if_sound(start: Start, own_root: Path) -> None:
    other = shutil.copytree(own_root / "tiny", own_root / "other")
    with only_writer(other):
        app = start(own_root, run="tiny")
        assert labels(app).count("Show it") == 1
        (said,) = training(app)
        assert said.endswith("**other**, training: begun, 60 steps to go")
        app.button(key="show-other").click().run().run()
        assert app.widget("run").value == "other"
        assert "Show it" not in labels(app)
        (other / "run.json").write_text("{", encoding="utf-8")
        app = start(own_root, run="tiny")
    assert [c for c in app.caption if c.value.startswith("other is being trained, but cannot")]


@pytest.mark.parametrize("name", ["tiny", "other"])
def test_a_run_without_checkpoints_waits_for_them_and_for_its_first_example(
    start: Start, own_root: Path, run: TrainedRun, name: str
) -> None:
    """Of a run of another language the sentence is not taken."""
    other = shutil.copytree(own_root / "tiny", own_root / "other")
    edit_json(other / "run.json", source_language="de")
    folder = without_weights(own_root / name)
    later = (folder / "samples.jsonl").rename(own_root / "later.jsonl")
    if name == "tiny":
        app = start(own_root, run="tiny")
    else:
        app = start(own_root, run="tiny").choose(run="other")
    [said] = [info.value for info in app.info]
    assert "there are no weights yet" in said
    assert "shown here as soon as it is complete" in said
    save_weights(folder, load_weights(run, 0).model, run="tiny", step=0)
    assert app.run().errors == []
    assert app.widget("sentence").value == ""
    later.rename(folder / "samples.jsonl")
    assert app.run().widget("sentence").value == CATS
    app.choose(sentence="")
    assert app.widget("sentence").value == ""  # as a person wants it


# Examples of a run


def test_examples_have_names_and_are_not_too_many(start_page: Start, own_root: Path) -> None:
    alike = [f"{'The cats see the dog and ' * 3}{end}." for end in ("sleep", "run")]
    others = [f"Dog {number}." for number in range(500)]
    samples = own_root / "tiny" / "samples.jsonl"
    samples.unlink()
    rows = [{"step": 0, "source": text, "translation": ""} for text in (*alike, *others)]
    append_log(samples, rows)
    edit_json(own_root / "tiny" / "run.json", "data", attribution="somebody and " * 500 + "the end")
    app = start_page("app", own_root)
    assert "36 tokens, at most 31" in app.errors[0]
    menu = app.menu_button(key="example")
    assert menu.options[0] == "The cats see the dog and The cats see the dog and The cats s …"
    assert unescaped(menu.options[1]) == alike[1]
    assert len(menu.options) == 40
    assert "The first 40 of 502 sample sentences" in menu.help
    assert menu.click(alike[1]).run().errors
    assert app.widget("sentence").value == alike[1]
    (about,) = [text.proto.help for text in app.caption if "parameters" in text.value]
    assert "the end" in about  # of the attribution, however long
