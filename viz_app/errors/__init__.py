"""Abilities of the page Errors, a folder each; what they compute is in ``analysis/``."""
