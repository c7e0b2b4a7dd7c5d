"""What a researcher asks of a head, by inseq; it has no way to switch a head off.

inseq 0.7.1 scales the embeddings that it gives a model, and the decoder of a Marian scales them
again (transformers 5.23): without the second line of ``load`` this is another pass.
"""

from pathlib import Path
from typing import Any


def load(folder: Path) -> Any:
    import inseq

    model = inseq.load_model(str(folder), "saliency")
    model.model.model.decoder.embed_scale = 1.0
    return model


def cross_attention(model: Any, source: str, target: str) -> Any:
    found = model.attribute(source, target, method="attention", show_progress=False)
    return found.sequence_attributions[0].source_attributions.permute(2, 3, 1, 0)


def gradient(model: Any, source: str, target: str) -> Any:
    places = {"attr_pos_start": 4, "attr_pos_end": 5}
    found = model.attribute(source, target, attributed_fn="logit", show_progress=False, **places)
    return found.sequence_attributions[0].source_attributions[:, 0].norm(dim=-1)
