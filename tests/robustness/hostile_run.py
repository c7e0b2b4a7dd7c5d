"""A run of which all texts look like markup: of HTML, Markdown, Streamlit, LaTeX and Plotly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from headwise.model.checkpoint import TrainedRun, create_run, save_weights
from headwise.model.files import append_log
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.files import read_measures, write_measures
from headwise.viz_app.measuring.pair_files import write_pairs
from headwise.viz_app.records.measures import Sentence
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs, PairScores

NAME = (
    '<img src=x onerror="window.__hacked = 1"> **b** _i_ `c` $x^2$ :red[d] :smile: a -> b -- c >= '
    "d [e](f) &lt; %{z} {{g}} https:h www.w.example a@m.example :material_home: <br>"
)
"""Of a run, so without a slash."""
SAID = f"{NAME} https://h.example <https://i.example> :material/kitesurfing: :streamlit: </b>"
"""By all else that files and links say."""
STEPS = (5, 10, 20)


def make_hostile_run(folder: Path, base: TrainedRun, said: str = SAID) -> None:
    """Write a run of which all texts but its name are ``said``; else it is as another run."""
    config = replace(base.info.model, max_length=401)
    about = replace(base.info.data, name=said, licence=said, attribution=said, valid_file=said)
    info = replace(base.info, name=folder.name, model=config, data=about)
    create_run(folder, info, base.tokenizers, base.counts)
    model = Transformer(config)
    for step in STEPS:
        sha256 = save_weights(folder, model, run=folder.name, step=step)
    row = {"source": said, "reference": said, "translation": said, "shows": said}
    append_log(folder / "samples.jsonl", [row | {"step": step} for step in STEPS])
    append_log(folder / "metrics.jsonl", [{"step": step, "valid_loss": 1 / step} for step in STEPS])
    measures = read_measures(base.folder, STEPS[-1])
    write_measures(
        folder,
        replace(
            measures,
            run=folder.name,
            sha256=sha256,
            corpus=replace(measures.corpus, name=said),
            examples_corpus=replace(measures.examples_corpus, name=said),
            sentences=tuple(Sentence(said, said) for _ in measures.sentences),
            translated=tuple(replace(each, translation=said) for each in measures.translated),
        ),
    )
    pairs = (ContrastivePair(said, said, f"{said} {said}", said),)
    scores = PairScores(STEPS[-1], sha256, np.array([-2.0]), np.array([-1.0]))
    write_pairs(folder, MeasuredPairs(folder.name, said, pairs, {STEPS[-1]: scores}), STEPS)
