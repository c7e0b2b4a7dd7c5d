"""The border from torch to NumPy: a pass of a model over a sentence becomes a record of arrays."""

from headwise.viz_app.trace.sentence import run_trace as run_trace
