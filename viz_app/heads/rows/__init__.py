"""Finding rows: in which rows of its maps, over a corpus, a head has weight on something."""
