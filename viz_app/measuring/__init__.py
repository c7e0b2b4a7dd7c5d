"""What ``viz_app.measure`` computes: heads over a corpus, their strongest examples, failures."""
