"""Draws the section *turn heads* of the page *Why*, a part of it a file."""
