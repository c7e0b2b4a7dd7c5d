"""Training: data, batches, the loop, and resuming after a stop."""
