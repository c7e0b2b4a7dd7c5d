"""Heads off together: what a set of heads costs, beside the costs of each alone."""
