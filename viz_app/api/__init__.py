"""What ``import headwise`` offers: texts in, and everything that the pages can do.

``headwise/__init__.py`` names it and imports a file here when its name is first asked for. Nothing
is computed here that a page would compute too: both call the same functions.
"""
