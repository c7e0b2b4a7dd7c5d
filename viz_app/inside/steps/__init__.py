"""One query followed through a layer, step by step."""
