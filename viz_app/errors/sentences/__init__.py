"""Sentences whose translation may have failed."""
