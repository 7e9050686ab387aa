"""Numbers: named arrays, the interpreter of terms, quadrature, laws, statistics and random streams."""
