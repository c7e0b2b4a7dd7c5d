"""*Two sentences*: activation patching, what of a sentence B brings its answer back in A."""
