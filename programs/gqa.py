"""Grouped-query attention: the heads of a group share keys and values.

Source: Ainslie et al. 2023 (arXiv 2305.13245); multi-query attention (Shazeer 2019, arXiv 1911.02150) is groups=1.
Look at: with separate query matrices the scores of two heads of a group are independent in the limit although they share
their keys, and the variance of the output does not depend on the sharing.
"""

from netsor import Plate, Program, dot, matrix, softmax, sqrt, sum_over, vector


def gqa(tokens=4, groups=2, members=2):
    token, group, member = Plate("token", tokens, "s"), Plate("group", groups, "G"), Plate("member", members, "R")
    i, j = token.indices("i j")
    g, r = group.index("g"), member.index("r")
    x = vector("x", i)
    p = dot(matrix("WQ", g, r) @ x, matrix("WK", g) @ x[j])
    A = softmax(p, over=j)
    o = matrix("WO", g, r) @ sum_over(A * (matrix("WV", g) @ x[j]), j)
    y = sum_over(o, g, r) / sqrt(group.size * member.size)
    return Program("gqa", x=x, p=p, A=A, o=o, y=y)
