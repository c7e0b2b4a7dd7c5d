"""The account of a word as it is read: its bars and their names, on parts written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.model.interface import Head
from headwise.viz_app.analysis.labels import head_of, part_label
from headwise.viz_app.why.word.account import Account, Parts
from headwise.viz_app.why.word.bars import (
    bars_by_size,
    by_layer,
    disagrees,
    largest_bars,
    lines_by_part,
    neuron_bars,
)
from tests.floats import assert_near

# Two layers of two heads a kind, two keys each; powers of 2, whose sums are exact.
OWN = np.array([[[1, 2], [4, 8]], [[16, 32], [64, 128]]], dtype=np.float64)
CROSS = -OWN
NEURONS = np.array([[0.5, 0.25, 0.125], [-0.5, 0, 2]])
BY_LAYER = {
    "Token": 256.0,
    "Position": -512.0,
    "Decoder self 1": 15.0,
    "Cross 1": -15.0,
    "Feed-forward 1": 0.875,
    "Decoder self 2": 240.0,
    "Cross 2": -240.0,
    "Feed-forward 2": 1.5,
    "Biases": 1024.0,
}
"""What each sublayer brought."""


def account(*, scale: float = 1.0, position: bool = True) -> Account:
    """An account of the parts above; of the encoder, that of part n at each cell is n."""
    parts = Parts(
        token=np.array(256.0 * scale),
        position=np.array(-512.0) if position else None,
        heads={"decoder_self": OWN * scale, "cross": CROSS * scale},
        neurons=NEURONS * scale,
        biases=np.array(1024.0 * scale),
    )
    cells = np.ones((2, 2, 2))
    from_encoder = Parts(
        token=cells,
        position=2 * cells if position else None,
        heads={"encoder_self": np.multiply.outer(cells, [[3.0, 4.0], [6.0, 7.0]])},
        neurons=np.multiply.outer(cells, [5.0, 8.0]),
        biases=9 * cells,
    )
    return Account(0, 5, 6, parts.total, parts, from_encoder, "")


def test_each_sublayer_has_a_bar_in_the_order_of_the_computation() -> None:
    assert list(by_layer(account()).items()) == list(BY_LAYER.items())
    without = by_layer(account(position=False))
    assert list(without) == [label for label in BY_LAYER if label != "Position"]


def test_the_parts_of_a_stream_have_the_names_of_links_and_files() -> None:
    assert list(account().named()) == [
        *(("token", 256), ("position", -512)),
        *(("decoder_self.1.1", 3), ("decoder_self.1.2", 12), ("cross.1.1", -3)),
        *(("cross.1.2", -12), ("feed_forward.1", 0.875), ("decoder_self.2.1", 48)),
        *(("decoder_self.2.2", 192), ("cross.2.1", -48), ("cross.2.2", -192)),
        *(("feed_forward.2", 1.5), ("biases", 1024)),
    ]
    assert "position" not in dict(account(position=False).named())
    assert account().limit == 1024


def test_names_are_written_as_people_read_them() -> None:
    for name, label in (("token", "Token"), ("feed_forward.2", "Feed-forward 2")):
        assert (part_label(name), head_of(name)) == (label, None)
    assert (part_label("cross.2.4"), head_of("cross.2.4")) == ("Cross 2.4", Head("cross", 1, 3))


def test_small_parts_are_one_bar_which_is_last() -> None:
    parts = {"token": -0.25, "cross.1.1": 2.0, "biases": 0.5, "position": -4.0}
    bars = bars_by_size(parts, 0.5)  # the least size of a bar of its own
    assert [(bar.name, bar.value) for bar in bars] == [
        *(("position", -4), ("cross.1.1", 2), ("biases", 0.5), ("rest", -0.25))
    ]
    assert [bar.label for bar in bars[2:]] == ["Biases", "1 smaller part"]
    assert bars_by_size(parts, 3)[1:] == [("rest", "3 smaller parts", 2.0 + 0.5 - 0.25)]
    assert len(bars_by_size(parts, 0)) == 4
    # Of a number of bars, those of the same size as the last one are not left out.
    assert [bar.name for bar in largest_bars({**parts, "x": -0.5}, 3)] == [
        *("position", "cross.1.1", "biases", "x", "rest")
    ]
    assert len(largest_bars(parts, 100)) == 4


def test_parts_of_the_encoder_say_so() -> None:
    """Else its feed-forwards would read as those of the decoder."""
    parts = {"feed_forward.1": 3.0, "encoder_self.1.2": 2.0, "token": 1.0}
    labels = [bar.label for bar in bars_by_size(parts, 0, encoder=True)]
    assert labels == ["Encoder feed-forward 1", "Encoder self 1.2", "Encoder token"]
    assert [bar.name for bar in bars_by_size(parts, 0, encoder=True)] == [*parts]


def test_neurons_that_brought_nothing_are_among_the_others() -> None:
    largest = [("3", "neuron 3", 2.0), ("1", "neuron 1", -0.5)]
    assert neuron_bars(NEURONS[1]) == [*largest, ("rest", "1 other", 0.0)]
    chosen = [*largest, ("2", "neuron 2", 0.0), ("rest", "0 others", 0.0)]
    assert neuron_bars(NEURONS[1], chosen=1) == chosen


def test_heads_of_the_encoder_have_what_they_brought_through_all_cells() -> None:
    assert account().from_encoder.sums() == {
        **{"token": 8, "position": 16, "encoder_self.1.1": 24, "encoder_self.1.2": 32},
        **{"feed_forward.1": 40, "encoder_self.2.1": 48, "encoder_self.2.2": 56},
        **{"feed_forward.2": 64, "biases": 72},
    }
    found = account().by_head()
    assert found["encoder_self"].tolist() == [[24, 32], [48, 56]]
    assert found["cross"].tolist() == [[-3, -12], [-48, -192]]
    assert found["decoder_self"].tolist() == [[3, 12], [48, 192]]


def test_lines_are_of_the_parts_that_are_largest_anywhere() -> None:
    accounts = [account(), account(scale=-0.5)]
    lines = lines_by_part(accounts, 3)
    assert list(lines) == ["Difference", "Token", "Position", "Biases", "6 smaller parts"]
    totals = [each.parts.total for each in accounts]
    assert lines["Difference"] == totals
    assert lines["Biases"] == [1024, -512]
    assert_near(np.sum([lines[name] for name in list(lines)[1:]], axis=0), totals, dtype=float)
    assert list(lines_by_part(accounts, 9)) == ["Difference", *BY_LAYER]
    assert list(lines_by_part(accounts, 8))[-1] == "1 smaller part"


@pytest.mark.parametrize(
    ("direct", "whole", "expected"),
    [
        (1.0, -1.0, True),
        (1.0, 0.5, False),  # half of the larger one, not more
        (1.0, 0.49, True),
        (-0.49, -1.0, True),
        (-1.0, -0.75, False),
        (1.0, 0.0, True),
        (4.0, 3.0, False),
        (0.09, -0.09, False),  # both below the smallest
        (0.1, -0.01, True),
    ],
)
def test_direct_and_whole_differ_in_sign_or_by_half(
    direct: float, whole: float, expected: bool
) -> None:
    assert disagrees(direct, whole, 0.1) is expected
