"""Values of initial vectors, in the limit and at finite width alike: they are the same law."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.ir import Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.joint import Normals, draw_jointly
from netsor.numeric.named import Named, combine, count
from netsor.rules.input import Input


def initial(at: Interpreter, moments: Moments, op: Input, term: Term, normals: Normals) -> Named:
    """Coordinates of x over its free letters: N(mean, cov), or the quantiles of another law."""
    if op.law is not None:
        values = np.asarray(op.law.quantile(ndtr(normals(term.family.order, count(term.free)))), dtype=float)
        return Named(term.free, values.reshape(*(count([i]) for i in term.free), *values.shape[1:]))
    centred = centred_initial(at, moments, op, term, normals)
    return combine(np.add, centred, at.poly(semantics.cumulant(op, (term,), moments), term.free))


def centred_initial(at: Interpreter, moments: Moments, op: Input, term: Term, normals: Normals) -> Named:
    """Coordinates of x - E x over its free letters, linear in the normals. The law is Gaussian."""
    (centred,) = draw_jointly(at, moments, [term], lambda g, h: semantics.cumulant(op, (g, h), moments), normals)
    return centred
