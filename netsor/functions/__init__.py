"""Nonlinearities: one file each, a record and the function that users call."""

from netsor.functions.along import hardmax, max_over, mean_over, softmax, sum_over, top_k
from netsor.functions.clip import clip
from netsor.functions.cos import cos
from netsor.functions.elementwise import elementwise
from netsor.functions.elu import elu
from netsor.functions.erf import erf
from netsor.functions.exp import exp
from netsor.functions.gelu import gelu
from netsor.functions.hard_sigmoid import hard_sigmoid
from netsor.functions.hermite import hermite
from netsor.functions.leaky_relu import leaky_relu
from netsor.functions.log import log
from netsor.functions.maximum import maximum, minimum
from netsor.functions.norms import layernorm, rmsnorm
from netsor.functions.probit import probit
from netsor.functions.rbf import rbf
from netsor.functions.relu import relu
from netsor.functions.relu_power import relu_power
from netsor.functions.sigmoid import sigmoid
from netsor.functions.sign import sign
from netsor.functions.silu import silu
from netsor.functions.sin import sin
from netsor.functions.softplus import softplus
from netsor.functions.sqrt import sqrt
from netsor.functions.step import step
from netsor.functions.tanh import tanh

__all__ = [
    "clip", "cos", "elementwise", "elu", "erf", "exp", "gelu", "hard_sigmoid", "hardmax", "hermite", "layernorm",
    "leaky_relu", "log", "max_over", "maximum", "mean_over", "minimum", "probit", "rbf", "relu", "relu_power",
    "rmsnorm", "sigmoid", "sign", "silu", "sin", "softmax", "softplus", "sqrt", "step", "sum_over", "tanh", "top_k",
]  # fmt: skip
