"""A deep multilayer perceptron with biases on two inputs, and its read-out: the neural network Gaussian process.

Source: Lee et al. 2018 (arXiv 1711.00165); Matthews et al. 2018 (arXiv 1804.11271).
Look at: the kernel E[h_i h_k] of the last layer; the read-out f is a DotProduct, a Gaussian process over inputs.
"""

from netsor import Plate, Program, dot, matrix, relu, sqrt, vector


def mlp(depth=3, phi=relu, correlation=0.5, bias=0.0):
    point = Plate("point", 2)
    i = point.index("i")
    h = vector("x", i, cov=[[1, correlation], [correlation, 1]])
    layers = {"x": h}
    for level in range(1, depth + 1):
        g = sqrt(2) * (matrix(f"W{level}") @ h)
        if bias:
            g = g + vector(f"b{level}", cov=bias)
        h = phi(g)
        layers |= {f"g{level}": g, f"h{level}": h}
    return Program("mlp", **layers, f=dot(vector("v"), h))
