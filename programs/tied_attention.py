"""Attention with tied queries and keys under 1/sqrt(n): refused on purpose.

Source: the pivot criterion, docs/theory.md, Lemma 1.
Look at: the refusal. On the diagonal the score is n^{-1/2} |W x_i|^2, which grows like sqrt(n); off it the fourth moment
of the limit gives a wrong variance (1 instead of 2 for independent tokens).
"""

from netsor import Plate, Program, dot, matrix, softmax, sum_over, vector


def tied_attention(tokens=4):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")
    W, WV = matrix("W"), matrix("WV")
    x = vector("x", i)
    p = dot(W @ x, W @ x[j])
    A = softmax(p, over=j)
    y = sum_over(A * (WV @ x[j]), j)
    return Program("tied_attention", x=x, p=p, A=A, y=y)
