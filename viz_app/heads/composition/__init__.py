"""Head composition: which heads read what earlier ones write, and what a path carries."""
