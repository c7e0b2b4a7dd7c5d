"""The border from torch to NumPy: a pass of a model over a sentence becomes a record of arrays."""
