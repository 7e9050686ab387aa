"""Width n: exact simulation."""
