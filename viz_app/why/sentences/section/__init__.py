"""Draws the section *two sentences* of the page *Why*, a part of it a file."""
