"""Attention, drawn: traces of a transformer, their analysis, their figures, and the app."""
