"""Attention, a perceptron, and attention again, all weights fresh.

Source: docs/theory.md, Theorem 4 (the founding paper proves one layer and conjectures the rest).
Look at: scores of the second layer are Gaussian only given those of the first: with three tokens Var p2 = E|A|^4 = .246799
and an excess kurtosis of .918; the perceptron after attention is not Gaussian either (.192663).
"""

from netsor import Plate, Program, dot, matrix, relu, softmax, sqrt, sum_over, vector


def two_layers(tokens=3, phi=relu):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")

    def attend(x, level):
        p = dot(matrix(f"WQ{level}") @ x, matrix(f"WK{level}") @ x[j])
        A = softmax(p, over=j)
        return p, A, sum_over(A * (matrix(f"WV{level}") @ x[j]), j)

    x = vector("x", i)
    p1, A1, y1 = attend(x, 1)
    m = matrix("W2") @ phi(sqrt(2) * (matrix("W1") @ y1))
    p2, A2, y2 = attend(m, 2)
    return Program("two_layers", x=x, p1=p1, A1=A1, y1=y1, m=m, p2=p2, A2=A2, y2=y2)
