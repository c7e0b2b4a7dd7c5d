"""Masks of a batch, and the checks of a trace."""
