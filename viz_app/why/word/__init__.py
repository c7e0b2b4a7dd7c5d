"""*This word*: direct logit attribution, the difference of two logits as a sum over parts."""
