from __future__ import annotations

import warnings

import pytest
from transformers.utils import logging

from headwise.model.pretrained.quiet import quiet


def test_warnings_advice_and_bars_are_kept_away_and_come_back() -> None:
    logging.enable_progress_bar()
    before = logging.get_verbosity()
    with quiet():
        warnings.warn("advice", stacklevel=1)  # an error in these tests, if it were not kept away
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
    with pytest.raises(RuntimeError, match="as ever"), quiet():
        raise RuntimeError("as ever")
    assert logging.get_verbosity() == before
    assert logging.is_progress_bar_enabled()


def test_bars_that_were_off_stay_off() -> None:
    logging.disable_progress_bar()
    try:
        with quiet():
            pass
        assert not logging.is_progress_bar_enabled()
    finally:
        logging.enable_progress_bar()
