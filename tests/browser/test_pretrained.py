"""Folders of Hugging Face models in the app: what is drawn is what ``transformers`` computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headwise.model.interface import KINDS
from headwise.model.pretrained.folders import quiet
from headwise.model.runs import open_folder
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.served import MODELS
from headwise.viz_app.trace.sentence import to_tokens
from tests.browser.driver import TEXTS
from tests.floats import PASS, rounding
from tests.model.pretrained.eager import Eager
from tests.model.pretrained.tiny import FOLDERS

if TYPE_CHECKING:
    from tests.browser.driver import App

TYPED = "The dog sees a red house."
LANGUAGES = {
    "marian": ("task", ">>cat<< "),
    "t5": ("task", "translate English to Spanish: "),
    "m2m_100": ("to", "es"),
}
"""Parameter of the address and the choice, of the models that are opened."""
FIELDS = {"task": "task", "to": "target_language"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> dict[str, Path]:
    """A folder of each model."""
    rows = [json.loads(line) for line in (data_folder / "train.jsonl").read_text().splitlines()]
    sentences = {language: [row[language] for row in rows] for language in ("en", "es")}
    made = {}
    for name in LANGUAGES:
        made[name] = tmp_path_factory.mktemp(name)
        with quiet():
            FOLDERS[name](made[name], sentences)
    return made


@pytest.fixture(scope="module")
def theirs(
    serve: Callable[..., str],
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The address of a server of these models alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODELS, "\n".join(f"{name}\t{folder}" for name, folder in folders.items()))
        return serve(tmp_path_factory.mktemp("checkpoints"))


def expect_maps(app: App, eager: Eager, folder: Path, source: list[int], **settings: int) -> None:
    """Each kind's last layer and first head is drawn as ``transformers`` computes it."""
    app.rest()
    tokens = app.page.locator(".st-key-target_tokens bdi").evaluate_all(TEXTS)
    target = eager.generate(source, len(tokens), **settings)
    vocabulary = open_folder(folder, "").tokenizers.target
    assert tokens == token_labels(to_tokens(vocabulary, target[1:]))
    for kind in KINDS:
        maps = eager.attention(source, target, kind)
        app.choose(kind=kind)
        app.choose(layer=str(len(maps)), head="1")
        app.expect_drawn("large", maps[-1, 0], tolerance=rounding(np.float32, 1, PASS))


@pytest.mark.parametrize("name", LANGUAGES)
def test_maps_are_those_of_transformers_before_and_after_a_language_is_chosen(
    new_app: Callable[..., App], theirs: str, folders: dict[str, Path], name: str
) -> None:
    app, eager = new_app(theirs), Eager.open(folders[name])
    app.open(run=name)
    app.type(TYPED)
    source = eager.tokenizer(TYPED)["input_ids"]
    app.expect_address(q=TYPED)
    expect_maps(app, eager, folders[name], source)

    parameter, chosen = LANGUAGES[name]
    app.pick(FIELDS[parameter], chosen.strip())
    app.expect_address(**{parameter: chosen})
    settings = {}
    if parameter == "task":
        source = eager.tokenizer(chosen + TYPED)["input_ids"]
    else:
        code = eager.tokenizer.convert_tokens_to_ids(f"__{chosen}__")
        settings = {"forced_bos_token_id": code}
    app.expect_field("sentence", TYPED)
    expect_maps(app, eager, folders[name], source, **settings)
