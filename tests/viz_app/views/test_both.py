"""Fields that a busy server is told of at once."""

from __future__ import annotations

from tests.viz_app.views.driver import CATS, DOG, Start, choose, widget


def test_a_target_does_not_outlive_the_sentence_it_was_typed_for(start_page: Start) -> None:
    app = choose(start_page("translate", q=CATS), sentence=DOG, target="El gato.")
    assert widget(app, "target").value == ""
    assert "target" not in app.query_params
    assert widget(app, "sentence").value == DOG
