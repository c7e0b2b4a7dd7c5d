"""Draws the section *this word* of the page *Why*, a part of it a file."""
