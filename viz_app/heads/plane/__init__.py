"""Queries and keys of a head in one plane, where nearness means weight."""
