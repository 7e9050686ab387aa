"""A gated recurrent unit, weights shared over steps.

Source: Cho et al. 2014 (arXiv 1406.1078); as a Tensor Program: Yang 2019 (arXiv 1910.12478), Section 6.
Look at: gates multiply vectors coordinate by coordinate, so h is not Gaussian, and its moments are averages over
coordinates of the limit.
"""

from netsor import Program, matrix, sigmoid, tanh, vector


def gru(steps=2):
    Wz, Wr, Wh = (matrix(f"W{g}") for g in "zrh")
    Uz, Ur, Uh = (matrix(f"U{g}") for g in "zrh")
    h = vector("h0")
    variables = {"h0": h}
    for t in range(1, steps + 1):
        x = vector(f"x{t}")
        z = sigmoid(Wz @ h + Uz @ x)
        r = sigmoid(Wr @ h + Ur @ x)
        candidate = tanh(Wh @ (r * h) + Uh @ x)
        h = (1 - z) * h + z * candidate
        variables |= {f"z{t}": z, f"r{t}": r, f"h{t}": h}
    return Program("gru", **variables)
