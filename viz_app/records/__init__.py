"""Frozen dataclasses of NumPy arrays that traces, analyses, figures and pages share."""
