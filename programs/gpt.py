"""A decoder-only transformer: pre-norm causal attention and perceptron, any number of layers.

Source: Radford et al. 2019 (GPT-2); Zhang, Sennrich 2019 (arXiv 1910.07467) for the norm.
Look at: the formulas of a layer do not grow with depth; the first token attends to itself with weight exactly 1; token
correlations are random, since they depend on the scores.
"""

from netsor import Plate, Program, dot, matrix, relu, rmsnorm, softmax, sqrt, sum_over, vector


def gpt(layers=2, tokens=4, heads=2, phi=relu):
    token, head = Plate("token", tokens, "s"), Plate("head", heads, "H")
    i, j = token.indices("i j")
    a = head.index("a")
    x = vector("x", i)
    variables = {"x0": x}
    for level in range(1, layers + 1):
        WQ, WK, WV, WO = (matrix(f"W{r}{level}", a) for r in "QKVO")
        z = rmsnorm(x)
        p = dot(WQ @ z, WK @ z[j])
        A = softmax(p, over=j, where=j <= i)
        o = WO @ sum_over(A * (WV @ z[j]), j)
        u = x + sum_over(o, a) / sqrt(head.size)
        m = matrix(f"W2{level}") @ phi(sqrt(2) * (matrix(f"W1{level}") @ rmsnorm(u)))
        x = u + m
        variables |= {f"p{level}": p, f"A{level}": A, f"u{level}": u, f"x{level}": x}
    return Program("gpt", **variables)
