"""The page Errors: what a run translates badly, and which of two translations it prefers."""
