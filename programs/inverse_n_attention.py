"""Attention with scores under 1/n: a Moment instead of a DotProduct.

Source: Yang 2019 (arXiv 1910.12478), Appendix on attention; Hron et al. 2020 (arXiv 2006.10540) discuss both scalings.
Look at: independent queries and keys give scores that tend to 0, uniform weights, and a Gaussian output of variance
1'K1 / s^2; nothing random is left of the softmax.
"""

from netsor import Plate, Program, matrix, mean, softmax, sum_over, vector


def inverse_n_attention(tokens=4, tied=0, covariance=None):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")
    WQ, WV = matrix("WQ"), matrix("WV")
    WK = WQ if tied else matrix("WK")
    x = vector("x", i, cov=covariance)
    p = mean((WQ @ x) * (WK @ x[j]))
    A = softmax(p, over=j)
    y = sum_over(A * (WV @ x[j]), j)
    return Program("inverse_n_attention", x=x, p=p, A=A, y=y)
