"""Ways of decoding, written against the interface of a model."""
