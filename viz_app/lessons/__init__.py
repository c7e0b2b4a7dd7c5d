"""Lessons, read from text files. They drive the pages; the pages show them."""
