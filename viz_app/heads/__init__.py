"""Abilities of the page Heads, a folder each: what is computed, its words, and its section."""
