"""Abilities of the page Translate, a folder each: what is computed, words, and its section."""
