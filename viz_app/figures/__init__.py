"""Functions that take arrays and labels and return a Plotly figure; colours are in ``theme``."""
