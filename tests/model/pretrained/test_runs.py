"""Models are opened by the name of a run, by a path, and by a name on the hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwise.model.checkpoint import TrainedRun
from headwise.model.files import CheckpointError
from headwise.model.interface import Languages
from headwise.model.runs import (
    choose_languages,
    find_folder,
    log_file,
    open_checkpoint,
    open_run,
    read_log_file,
    require_languages,
    steps_in,
)
from tests.model.pretrained.saved import MakeFolder


def test_a_run_of_ours_opens_by_name_and_by_path(trained_run: TrainedRun, tmp_path: Path) -> None:
    root = trained_run.folder.parent
    by_name, by_path = open_run("tiny", root=root), open_run(str(trained_run.folder), root=tmp_path)
    assert by_name.folder == by_path.folder == trained_run.folder
    assert steps_in(trained_run.folder) == trained_run.steps()
    assert not by_name.choices.targets
    run, checkpoint = open_checkpoint("tiny", None, root)
    assert checkpoint.step == run.steps()[-1]
    assert checkpoint.sha256 == run.sha256(checkpoint.step)


def test_a_folder_of_a_model_opens_by_its_path(make_folder: MakeFolder) -> None:
    folder = make_folder("t5")
    run = open_run(str(folder))
    assert (run.name, run.steps(), run.data, run.counts) == (folder.name, [0], None, None)
    assert run.load(0).sha256 == run.sha256(0)


def test_a_name_on_the_hub_opens_from_the_cache_without_a_network(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "models--someone--tiny-t5"
    shutil.copytree(make_folder("t5"), kept / "snapshots" / "abc")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    run = open_run("someone/tiny-t5", root=tmp_path / "no-runs")
    assert (run.name, run.steps()) == ("tiny-t5", [0])
    with pytest.raises(CheckpointError, match="someone/else: there is no such folder, and it"):
        open_run("someone/else", root=tmp_path / "no-runs")


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected a run \(run.json\), a Hugging Face model"):
        open_run(str(tmp_path))
    with pytest.raises(CheckpointError, match="no run named 'nothing'"):
        open_run("nothing", root=tmp_path)
    with pytest.raises(CheckpointError, match="no/such/folder: there is no such folder"):
        open_run("no/such/folder", root=tmp_path)
    assert find_folder("nothing", root=tmp_path) is None


def test_languages_are_chosen_among_those_that_a_model_has(
    make_folder: MakeFolder, trained_run: TrainedRun
) -> None:
    folder = make_folder("nllb")
    chosen = Languages(target="fra_Latn")
    run, _ = open_checkpoint(str(folder), None, folder.parent, languages=chosen)
    assert run.tokenizers.target.tokens(run.tokenizers.prefix) == ["</s>", "fra_Latn"]
    with pytest.raises(ValueError, match="has no target language 'french'; it has: '"):
        choose_languages(run, Languages(target="french"))
    with pytest.raises(ValueError, match="tiny has no prefix 'x'; it has: none"):
        choose_languages(trained_run, Languages(prefix="x"))


def test_a_run_without_languages_needs_columns(make_folder: MakeFolder) -> None:
    run = open_run(str(make_folder("t5")))
    with pytest.raises(ValueError, match=r"does not name its languages: .*--columns en es"):
        require_languages(run, None)
    require_languages(run, ("en", "es"))


def test_curves_are_those_of_the_newest_checkpoint(make_folder: MakeFolder, tmp_path: Path) -> None:
    for step, loss in ((5, 3.5), (10, 2.5)):
        folder = tmp_path / f"checkpoint-{step}"
        shutil.copytree(make_folder("t5"), folder)
        (folder / "trainer_state.json").write_text(
            f'{{"global_step": {step}, "max_steps": 20, "log_history": ['
            f'{{"step": {step}, "loss": {loss}, "epoch": 1}}, {{"step": {step}, "eval_loss": 2}}]}}'
        )
    run = open_run(str(tmp_path))
    assert (run.steps(), steps_in(tmp_path), run.planned_steps) == ([5, 10], [5, 10], 20)
    expected = [{"step": 10, "train_loss": 2.5}, {"step": 10, "valid_loss": 2}]
    assert list(run.metrics()) == expected
    assert list(read_log_file(log_file(tmp_path, "metrics.jsonl"))) == expected
