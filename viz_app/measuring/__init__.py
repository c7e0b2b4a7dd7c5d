"""Measures of heads over a corpus, their strongest examples, and failures of translations."""
