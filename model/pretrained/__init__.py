"""Hugging Face encoder-decoders behind the interface of ``model/interface.py``.

Only this package imports ``transformers``, and only when such a model is opened.
"""
