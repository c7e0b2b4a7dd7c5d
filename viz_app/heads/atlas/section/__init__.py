"""The section Atlas: all heads, and how the chosen one differs from the next."""
