"""Cross-attention: queries from one sequence, keys and values from another.

Source: Vaswani et al. 2017 (arXiv 1706.03762), Section 3.2.3.
Look at: Cov(p[i,j], p[i',j']) is the product of the kernel of the queries' tokens and that of the keys' tokens, whatever the
dependence between the two sequences.
"""

from netsor import Plate, Program, dot, matrix, softmax, sum_over, vector


def cross_attention(targets=2, sources=4, source_covariance=None):
    i = Plate("target", targets, "t").index("i")
    j = Plate("source", sources, "s").index("j")
    x, z = vector("x", i), vector("z", j, cov=source_covariance)
    p = dot(matrix("WQ") @ x, matrix("WK") @ z)
    A = softmax(p, over=j)
    y = sum_over(A * (matrix("WV") @ z), j)
    return Program("cross_attention", x=x, z=z, p=p, A=A, y=y)
