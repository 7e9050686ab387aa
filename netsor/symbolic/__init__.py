"""Formulas: the algebra read as text, LaTeX and sympy."""
