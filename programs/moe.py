"""A mixture of experts: a router picks the k largest of E logits and weighs their perceptrons.

Source: Shazeer et al. 2017 (arXiv 1701.06538).
Look at: router logits are read-outs, Gaussian scores; the top-k choice is discontinuous and legal, because the differences of
logits have a density; the output is Gaussian given the logits.
"""

from netsor import Plate, Program, dot, matrix, relu, softmax, sqrt, sum_over, top_k, vector


def moe(experts=4, chosen=2, phi=relu):
    expert = Plate("expert", experts, "E")
    e = expert.index("e")
    x = vector("x")
    r = dot(vector("router", e), x)
    on = top_k(r, chosen, over=e)
    w = softmax(r, over=e) * on
    gate = w / sum_over(w, e)
    y = sum_over(gate * (matrix("W2", e) @ phi(sqrt(2) * (matrix("W1", e) @ x))), e)
    return Program("moe", x=x, r=r, on=on, gate=gate, y=y)
