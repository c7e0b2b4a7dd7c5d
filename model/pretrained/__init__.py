"""Hugging Face encoder-decoders behind the interface of ``model.interface``.

Only this package imports ``transformers``, and only when such a model is opened.
"""
