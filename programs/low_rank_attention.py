"""Attention with heads of dimension n_H, fixed or wide.

Source: Sakai, Karakida, Imaizumi 2025 (arXiv 2506.00846), Appendix B.2.
Look at: with n_H fixed a head is a plate of n_H read-outs; scores are sums of products of Gaussians (excess kurtosis 6/n_H)
and the variance of y is that of the wide head only as n_H grows: .357872, .380265, .391130 at n_H = 1, 4, 64 against
.391971. `wide=1` makes the head dimension a width of its own.
"""

from netsor import Plate, Program, Width, dot, matrix, softmax, sqrt, sum_over, vector


def low_rank_attention(tokens=4, heads=1, rank=4, wide=0):
    token, head = Plate("token", tokens, "s"), Plate("head", heads, "H")
    i, j = token.indices("i j")
    a = head.index("a")
    x = vector("x", i)
    if wide:
        n, m = Width("n"), Width("m")
        WQ, WK, WV = (matrix(f"W{r}", a, shape=(m, n)) for r in "QKV")
        p = dot(WQ @ x, WK @ x[j])
        A = softmax(p, over=j)
        o = matrix("WO", a, shape=(n, m)) @ sum_over(A * (WV @ x[j]), j)
    else:
        dimension = Plate("dimension", rank, "n_H")
        c = dimension.index("c")
        q, k, v = (dot(vector(f"w{r}", a, c), t) for r, t in (("Q", x), ("K", x[j]), ("V", x[j])))
        p = sum_over(q * k, c) / sqrt(dimension.size)
        A = softmax(p, over=j)
        o = sum_over(sum_over(A * v, j) * vector("wO", a, c), c) / sqrt(dimension.size)
    return Program("low_rank_attention", x=x, p=p, A=A, o=o, y=sum_over(o, a) / sqrt(head.size))
