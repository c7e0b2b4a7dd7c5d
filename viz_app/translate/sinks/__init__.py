"""Attention sinks: where heads rest, and whether they do anything there."""
