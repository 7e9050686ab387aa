"""The rules of the Tensor Program: what makes randomness, and what averages it away. One file a rule."""

from netsor.rules.dot import Dot, dot
from netsor.rules.input import Input, Law, vector
from netsor.rules.matmul import MatMul, Matrix, matrix
from netsor.rules.mean import Mean, mean

__all__ = ["Dot", "Input", "Law", "MatMul", "Matrix", "Mean", "dot", "matrix", "mean", "vector"]
