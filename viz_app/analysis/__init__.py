"""Pure functions over the arrays of a trace: NumPy in, NumPy or small frozen dataclasses out."""
