"""Attention without softmax: the scores are the weights.

Source: Katharopoulos et al. 2020 (arXiv 2006.16236), without a feature map.
Look at: the weights are off the simplex, so the variance of y given the scores is not bounded, and y is not sub-Gaussian:
with s independent tokens its excess kurtosis is 6/s, and no variance proxy is claimed.
"""

from netsor import Plate, Program, dot, matrix, sum_over, vector


def linear_attention(tokens=4):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")
    x = vector("x", i)
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    y = sum_over(p * (matrix("WV") @ x[j]), j)
    return Program("linear_attention", x=x, p=p, y=y)
