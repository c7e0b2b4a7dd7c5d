"""Abilities of the page Inside a head, a folder each: what is computed, words, and its section."""
