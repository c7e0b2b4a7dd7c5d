"""The page Heads: what each head does over a corpus, and with other heads."""
