"""What each head does over a corpus, and how the chosen one differs from others."""
