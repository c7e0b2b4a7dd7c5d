"""What changes on the disk meanwhile reaches the page, and nobody's choice is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun, load_weights, save_weights, steps_of, weights_path
from headwise.model.files import append_log, only_writer
from headwise.viz_app.views.shared.panels import FilesState, files_state
from tests.viz_app.views.driver import CATS, Start, choose, errors, widget

PAGE = "training"


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def test_a_new_checkpoint_is_offered_and_the_one_in_use_stays(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    app = start(own_root)
    assert widget(app, "step").value == 60
    save_weights(own_root / "tiny", load_weights(run, 60).model, run="tiny", step=80)
    app.run()
    slider = widget(app, "step")
    assert (slider.value, slider.options) == (60, ["0", "20", "60", "80"])
    app.button(key="newer").click().run()
    assert widget(app, "step").value == 80
    assert "Newer checkpoint: step 80" not in labels(app)
    assert errors(app) == []


def test_an_older_checkpoint_that_was_chosen_needs_no_button(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    app = start(own_root, step="20")
    assert not [label for label in labels(app) if label.startswith("Newer")]
    save_weights(own_root / "tiny", load_weights(run, 60).model, run="tiny", step=80)
    app.run()
    assert widget(app, "step").value == 20
    assert "Newer checkpoint: step 80" in labels(app)


def test_a_look_sees_runs_checkpoints_and_lines_and_nothing_else(
    own_root: Path, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(own_root))
    folder = own_root / "tiny"
    paths = [folder / "metrics.jsonl"]

    def seen() -> FilesState:
        return files_state("tiny", paths)

    first = seen()
    assert first == ((("tiny",), (0, 20, 60)), (None,))
    (folder / "training.lock").touch()
    (folder / ".step-0000080.safetensors.unfinished").touch()
    assert seen() == first
    found = [first]
    append_log(paths[0], [{"step": 60, "train_loss": 1.0}])
    found.append(seen())
    with paths[0].open("a", encoding="utf-8") as file:
        file.write('{"step"')
    found.append(seen())
    save_weights(folder, load_weights(run, 60).model, run="tiny", step=80)
    found.append(seen())
    shutil.copytree(folder, own_root / "other")
    found.append(seen())
    shutil.rmtree(folder)
    found.append(seen())
    assert found[-1] == ((("other",), ()), (None,))
    assert len(set(found)) == len(found)


def test_what_the_frame_offers_is_what_a_look_sees(start: Start, own_root: Path) -> None:
    """Else the app would be drawn again at each look."""
    for name in ("tiny", "other"):  # a folder may have another name than its run
        app = start(own_root, run=name)
        assert app.session_state["offered"] == files_state(name, [])[0]
        if name == "tiny":
            shutil.copytree(own_root / "tiny", own_root / "other")
    (own_root / "other" / "run.json").write_text("{", encoding="utf-8")
    app.run()
    assert app.session_state["offered"] == files_state("other", [])[0]


def test_a_training_says_how_far_it_is(start: Start, own_root: Path) -> None:
    row = {"step": 30, "tokens": 3_000, "train_loss": 2.0, "tokens_per_second": 25.0}
    append_log(own_root / "tiny" / "metrics.jsonl", [row])
    app = start(own_root)
    assert not [text for text in app.markdown if "training:" in text.value]
    with only_writer(own_root / "tiny"):
        app.run()
        (said,) = [text.value for text in app.markdown if "training:" in text.value]
    assert said.endswith("**tiny**, training: step 30 of 60, 25 tokens/s, about 2 min left")


def test_another_run_that_is_trained_can_be_opened(start: Start, own_root: Path) -> None:
    shutil.copytree(own_root / "tiny", own_root / "other")
    with only_writer(own_root / "other"):
        app = start(own_root, run="tiny")
        assert labels(app).count("Show it") == 1
        (said,) = [text.value for text in app.markdown if "training:" in text.value]
        assert said.endswith("**other**, training: begun, 60 steps to go")
        app.button(key="show-other").click().run().run()
        assert widget(app, "run").value == "other"
        assert "Show it" not in labels(app)


def test_a_run_that_cannot_be_opened_says_so_while_it_is_trained(
    start: Start, own_root: Path
) -> None:
    shutil.copytree(own_root / "tiny", own_root / "other")
    (own_root / "other" / "run.json").write_text("{", encoding="utf-8")
    with only_writer(own_root / "other"):
        app = start(own_root, run="tiny")
    assert errors(app) == []
    assert [c for c in app.caption if c.value.startswith("other is being trained, but cannot")]


def test_a_deleted_run_gives_way_to_another(start: Start, own_root: Path) -> None:
    shutil.copytree(own_root / "tiny", own_root / "b-copy")
    app = start(own_root, run="tiny")
    shutil.rmtree(own_root / "tiny")
    app.run()
    assert widget(app, "run").value == "b-copy"
    assert errors(app) == []
    shutil.rmtree(own_root / "b-copy")
    app.run()
    assert errors(app)[0].startswith(f"there is no run in {own_root.name}")


def test_a_run_without_checkpoints_waits_for_them(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    folder = own_root / "tiny"
    samples = folder / "samples.jsonl"
    later = samples.rename(own_root / "later.jsonl")
    for step in steps_of(folder):
        weights_path(folder, step).unlink()
    app = start(own_root)
    assert "there are no weights yet" in errors(app)[0]
    save_weights(folder, load_weights(run, 0).model, run="tiny", step=0)
    app.run()
    assert errors(app) == []
    assert widget(app, "sentence").value == ""
    later.rename(samples)
    app.run()
    assert widget(app, "sentence").value == CATS
    choose(app, sentence="")
    assert widget(app, "sentence").value == ""  # as a person wants it
    choose(app, sentence="Where is the dog?")
    assert widget(app, "training").value == "curves"


def test_a_run_of_another_language_waits_for_its_first_example(
    start: Start, own_root: Path, run: TrainedRun
) -> None:
    """And for its first checkpoint; the sentence of the other language is not taken."""
    other = shutil.copytree(own_root / "tiny", own_root / "other")
    info = (other / "run.json").read_text(encoding="utf-8")
    (other / "run.json").write_text(
        info.replace('"source_language": "en"', '"source_language": "de"'), encoding="utf-8"
    )
    samples = (other / "samples.jsonl").rename(own_root / "later.jsonl")
    for step in steps_of(other):
        weights_path(other, step).unlink()
    app = start(own_root, run="tiny")
    choose(app, run="other")
    assert "there are no weights yet" in errors(app)[0]
    save_weights(other, load_weights(run, 0).model, run="tiny", step=0)
    app.run()
    assert widget(app, "sentence").value == ""
    samples.rename(other / "samples.jsonl")
    app.run()
    assert widget(app, "sentence").value == CATS
    assert widget(app, "training").value == "curves"
