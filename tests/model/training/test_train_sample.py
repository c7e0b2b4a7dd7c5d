from __future__ import annotations

from pathlib import Path

import pytest

from headwise.model.files import CheckpointError, append_log, read_log
from headwise.model.training import train_sample
from headwise.model.training.data import Examples
from headwise.model.training.train_sample import add_to_log, draw_train_sample, require_milestones


def examples(count: int) -> Examples:
    """Pairs whose ids tell which one it is."""
    return Examples([], [[i] for i in range(count)], [[i, i] for i in range(count)], count, 0, 0, 0)


def test_a_sample_depends_on_the_seed_only() -> None:
    sources, targets = draw_train_sample(examples(5_000), seed=3)
    assert len(sources) == 1_000
    assert len({source[0] for source in sources}) == 1_000
    assert targets == [source * 2 for source in sources]
    assert draw_train_sample(examples(5_000), seed=3) == (sources, targets)
    assert draw_train_sample(examples(5_000), seed=4) != (sources, targets)
    # From the whole corpus, not from a part of it.
    assert sum(source[0] < 2_500 for source in sources) == pytest.approx(500, abs=80)


@pytest.mark.parametrize("count", [1, 6, 7])
def test_of_few_pairs_all_are_drawn(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(train_sample, "MOST_PAIRS", 7)
    sources, targets = draw_train_sample(examples(count), seed=0)
    assert sorted(sources) == examples(count).sources
    assert sorted(targets) == examples(count).targets


def test_losses_are_written_into_the_rows_of_milestones(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 0, "valid_loss": 9.5, "bleu": 0.0},
        {"step": 5, "tokens": 70, "train_loss": 8.0},
        {"step": 5, "valid_loss": 8.5, "bleu": 1.0, "train_sample_loss": 3.0},
        {"step": 9, "valid_loss": 8.25, "bleu": 2.0},
    ]
    append_log(log, rows)
    add_to_log(log, {0: 9.123456, 5: 7.5})
    assert list(read_log(log)) == [
        rows[0] | {"train_sample_loss": 9.1235},
        rows[1],
        rows[2] | {"train_sample_loss": 7.5},
        rows[3],
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_log_without_a_milestone_is_named(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    append_log(log, [{"step": 0, "valid_loss": 9.5}, {"step": 2_000, "train_loss": 9.0}])
    require_milestones(log, [0])
    message = r"metrics\.jsonl: expected a row with valid_loss for each step, got none for 2,000; "
    with pytest.raises(CheckpointError, match=message):
        require_milestones(log, [0, 2_000])
