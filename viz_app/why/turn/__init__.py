"""*Turn heads*: strengths of heads and pinned rows, and the translation written anew."""
