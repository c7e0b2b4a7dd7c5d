"""Make runs of other people's weights files."""
