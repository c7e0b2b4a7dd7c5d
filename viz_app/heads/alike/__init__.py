"""Heads alike: which heads look where a head does, over a corpus."""
