"""The app and what it is made of: traces of a transformer, their analysis and their figures.

Threads of PyTorch that wait sleep instead of spinning, so that pages and tools leave the cores to a
training that runs beside them. OpenMP reads how they wait when PyTorch is imported: it is set here,
before that, unless the environment says otherwise.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
