"""Expectations of products of known functions of jointly Gaussian variables, over any field of numbers or formulas."""
