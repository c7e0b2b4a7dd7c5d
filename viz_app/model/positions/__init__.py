"""Positional encodings: their waves, their distances, two of them compared."""
