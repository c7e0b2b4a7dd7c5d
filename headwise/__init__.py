"""Headwise: encoder-decoder transformers, and every attention head of them.

In a clone, ``headwise.model`` and ``headwise.viz_app`` are the folders ``model/`` and ``viz_app/``
beside this one. What is installed has them inside this folder.
"""

from pathlib import Path

__version__ = "0.1.0"

_FOLDER = Path(__file__).resolve().parent
if not (_FOLDER / "model").is_dir():
    __path__.append(str(_FOLDER.parent))
