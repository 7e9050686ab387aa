"""One transformer block at initialisation: attention, residual, multilayer perceptron, residual.

Source: Vaswani et al. 2017 (arXiv 1706.03762) without norms; the limit by docs/theory.md, Theorem 4.
Look at: the stream u after attention is Gaussian given the scores, and so is the output y; the kernel of the perceptron is
averaged over the scores, so E[relu relu] is not the kernel at the average covariance.
"""

from netsor import Plate, Program, dot, matrix, relu, softmax, sqrt, sum_over, vector


def transformer_block(tokens=4, heads=2, phi=relu, covariance=None):
    token, head = Plate("token", tokens, "s"), Plate("head", heads, "H")
    i, j = token.indices("i j")
    a = head.index("a")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    x = vector("x", i, cov=covariance)
    p = dot(WQ @ x, WK @ x[j])
    A = softmax(p, over=j)
    o = WO @ sum_over(A * (WV @ x[j]), j)
    u = x + sum_over(o, a) / sqrt(head.size)
    m = matrix("W2") @ phi(sqrt(2) * (matrix("W1") @ u))
    return Program("transformer_block", x=x, p=p, A=A, o=o, u=u, m=m, y=u + m)
