"""What pages, lessons and documents say about the runs that ship, each computed from the files.

``claims.txt`` lists the claims: the words, where they stand, and the function that computes them.
``python -m benchmarks.claims`` prints them; ``tests/benchmarks/test_claims.py`` fails where a claim
is not true any more, or where its place does not have these words.
"""
