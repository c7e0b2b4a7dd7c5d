"""The page Embeddings & positions: what enters the model before any attention."""
