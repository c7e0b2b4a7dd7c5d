"""The app and what it is made of: traces of a transformer, their analysis and their figures."""
