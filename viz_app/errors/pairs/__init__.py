"""Pairs of a right and a wrong translation: the accuracy over training, and what fails."""
