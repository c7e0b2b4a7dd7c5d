"""The runs that ship; people's own trainings may stand beside them in ``checkpoints/``."""

SHIPPED = ("books-small", "copy", "de-en", "en-es")
