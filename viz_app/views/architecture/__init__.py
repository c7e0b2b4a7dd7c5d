"""The page Architecture: the whole model on one sentence, module by module."""
