"""A vanilla recurrent network with one weight matrix for all steps, on two input sequences.

Source: Yang 2019 (arXiv 1910.12478), Section 6 (weight tying over time is covered by the same master theorem).
Look at: covariances between different times, E[h_s h_t] enters because W is the same; for these sequences
Var g4 = 4.851078 and Cov(g4, g4') = 4.255525.
"""

from netsor import Plate, Program, erf, matrix, sqrt, table, vector

SEQUENCES = [(1, -1, 0.5, 2), (1, 1, 0.5, 2)]


def rnn(steps=4, phi=erf):
    r = Plate("sequence", 2).index("r")
    W, u, b = matrix("W"), vector("u"), vector("b", cov=0.1)
    variables, h = {}, None
    for t in range(steps):
        x = table(f"x{t + 1}", r, values=[s[t % 4] for s in SEQUENCES])
        g = x * u + b if h is None else sqrt(1.5) * (W @ h) + x * u + b
        h = phi(g)
        variables |= {f"g{t + 1}": g, f"h{t + 1}": h}
    return Program("rnn", **variables)
