"""What a head writes: a dictionary of target tokens, and how good it is."""
