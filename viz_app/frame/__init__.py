"""What stands around every page: run, checkpoint, sentence, and the panel of a lesson."""
