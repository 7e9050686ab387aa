"""The moment algebra: polynomials in the atoms of a program, their expectations, and the legality of scores."""
