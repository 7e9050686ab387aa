"""Attention layers that share their query and key matrices, with a residual stream.

Source: Dehghani et al. 2019 (arXiv 1807.03819); the joint law of the scores: docs/theory.md, Proposition 7.
Look at: scores of different layers are not independent, because the same matrices meet nearly the same vectors. With three
independent tokens E[p1 p2] = 1 and the overlap Sum_j A1 A2 is 0.45993, where independent layers would have 0 and 1/3.
"""

from netsor import Plate, Program, dot, matrix, softmax, sum_over, vector


def universal_transformer(tokens=3, layers=2):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")
    WQ, WK = matrix("WQ"), matrix("WK")
    x = vector("x", i)
    variables = {"x0": x}
    for level in range(1, layers + 1):
        p = dot(WQ @ x, WK @ x[j])
        A = softmax(p, over=j)
        x = x + sum_over(A * (matrix(f"WV{level}") @ x[j]), j)
        variables |= {f"p{level}": p, f"A{level}": A, f"x{level}": x}
    if layers > 1:
        variables["overlap"] = sum_over(variables["A1"] * variables["A2"], j)
    return Program("universal_transformer", **variables)
