"""Multi-head attention at initialisation, scores under 1/sqrt(n).

Source: Sakai, Karakida, Imaizumi 2025 (arXiv 2506.00846), Example 3.1 and Section 5: independent tokens phi(W_i h).
Look at: the scores p are a Gaussian vector independent of every Z; the output y is Gaussian given p, not Gaussian: with
4 tokens and 2 heads its variance is 0.391971 and its excess kurtosis 0.12166. `heads=0` leaves their number open, for
`head=oo`: infinitely many heads give a Gaussian.
"""

from netsor import Plate, Program, clip, dot, matrix, softmax, sqrt, sum_over, vector


def attention(tokens=4, heads=2, phi=clip(100.0)):
    token, head = Plate("token", tokens, "s"), Plate("head", heads or None, "H")
    i, j = token.indices("i j")
    a = head.index("a")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    x = phi(matrix("Win", i) @ vector("h"))
    q = WQ @ x
    k = WK @ x[j]
    v = WV @ x[j]
    p = dot(q, k)
    A = softmax(p, over=j)
    o = WO @ sum_over(A * v, j)
    y = sum_over(o, a) / sqrt(head.size)
    return Program("attention", x=x, q=q, k=k, v=v, p=p, A=A, o=o, y=y)
