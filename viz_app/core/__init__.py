"""What every ability stands on: records of arrays and their files, and declared computations."""
