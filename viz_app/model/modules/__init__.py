"""The modules of a model, as a tree."""
