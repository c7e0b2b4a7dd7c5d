"""Parts of a score: what each part of a query makes with each part of a key."""
