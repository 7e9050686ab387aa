"""What attention weights look like, and what they do to tokens: concentration, entropy, rank collapse.

Source: Dong, Cordonnier, Loukas 2021 (arXiv 2103.03404) for rank collapse; the limit by docs/theory.md, Theorem 4.
Look at: all of these stay random in the limit. V = mean(y y) is the variance of y given the scores, so that two
coordinates of y are uncorrelated and their squares are not: Cov(y_1^2, y_2^2) = Var V.
"""

from netsor import Plate, Program, dot, exp, log, matrix, mean, softmax, sqrt, sum_over, vector


def attention_observables(tokens=4, heads=1, beta=1.0, sigma=1.0, correlation=0.0):
    token, head = Plate("token", tokens, "s"), Plate("head", heads, "H")
    i, j = token.indices("i j")
    a = head.index("a")
    x = vector("x", i, cov=[[1.0 if r == c else correlation for c in range(tokens)] for r in range(tokens)])
    WQ, WK, WV = matrix("WQ", a, sigma=sigma), matrix("WK", a, sigma=sigma), matrix("WV", a)
    p = dot(WQ @ x, WK @ x[j])
    A = softmax(beta * p, over=j)
    squares = sum_over(A * A, j)
    y = sum_over(sum_over(A * (WV @ x[j]), j), a) / sqrt(head.size)
    return Program(
        "attention_observables",
        x=x,
        p=p,
        A=A,
        squares=squares,
        participation=1 / squares,
        entropy=log(sum_over(exp(beta * p), j)) - beta * sum_over(A * p, j),
        y=y,
        V=mean(y * y),
        before=mean(x[0] * x[1]) / sqrt(mean(x[0] * x[0]) * mean(x[1] * x[1])),
        after=mean(y[0] * y[1]) / sqrt(mean(y[0] * y[0]) * mean(y[1] * y[1])),
    )
