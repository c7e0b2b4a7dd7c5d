"""The page Why, and ``python -m headwise.viz_app.why``, which writes an account of a word."""
