"""Pre-norm attention with queries and keys normalised again (QK-norm), residual stream.

Source: Ba et al. 2016 (arXiv 1607.06450); Dehghani et al. 2023 (arXiv 2302.05442) for QK-norm.
Look at: norms are Moments; LayerNorm(q) . LayerNorm(k) is legal although it has terms without a fresh form, because two
Moments of limit zero stand in them (docs/theory.md, Lemma 2); the scores then have variance 1 whatever the tokens.
"""

from netsor import Plate, Program, dot, layernorm, matrix, softmax, sum_over, vector


def layernorm_attention(tokens=4, covariance=None):
    token = Plate("token", tokens, "s")
    i, j = token.indices("i j")
    WQ, WK, WV, WO = (matrix(f"W{r}") for r in "QKVO")
    x = vector("x", i, cov=covariance)
    z = layernorm(x)
    q, k = layernorm(WQ @ z), layernorm(WK @ z[j])
    p = dot(q, k)
    A = softmax(p, over=j)
    y = WO @ sum_over(A * (WV @ z[j]), j)
    return Program("layernorm_attention", x=x, z=z, q=q, k=k, p=p, A=A, y=y, u=x + y)
