"""Sources of Gaussian randomness that a variable is affine in, and the variable with these integrated out."""

from __future__ import annotations

from collections.abc import Callable

from netsor import semantics
from netsor.algebra.moments import Moments, gaussian
from netsor.algebra.poly import Mono, Poly, bind
from netsor.ir import Term, postorder
from netsor.ops import Generator

Second = Callable[[Term, Term], Poly]


def affine_sources(moments: Moments, poly: Poly) -> set[bytes]:
    """Sources of Gaussian generators in which, taken together, every term of the polynomial is affine."""
    free: set[bytes] = set()
    spoiled: set[bytes] = set()
    for m in poly:
        for a in m.atoms:
            (free if isinstance(a.op, Generator) and gaussian(a) else spoiled).update(moments.sources(a))
    free -= spoiled
    for m in poly:
        mine = [s for a in m.atoms for s in moments.sources(a) if s in free]
        free -= set(mine[1:])  # of a product of two, one is kept
    return free


def last_sources(moments: Moments, poly: Poly) -> set[bytes]:
    """Those of the affine sources that nothing else in the program depends on, not even through a score: at finite
    width they are Gaussian given all the rest."""
    free = affine_sources(moments, poly)
    below = [t for m in poly for t in m.scalars]
    for m in poly:
        for a in m.atoms:
            below += a.args if moments.sources(a) <= free else [a]
    used = {semantics.source(f.op) for f in postorder(*below)}
    return free - used


def integrate(moments: Moments, poly: Poly, free: set[bytes], second: Second) -> tuple[Poly, Poly]:
    """Mean and variance of the variable given everything but the free sources, as polynomials in the other atoms.

    `second(g, h)` is the covariance of two atoms of one free source given the rest.
    """
    mean = Poly()
    parts: list[Mono] = []
    for m in poly:
        place = [k for k, a in enumerate(m.atoms) if moments.sources(a) <= free]
        if not place:
            mean = mean + Poly((m,))
            continue
        (k,) = place
        parts.append(Mono(m.number, m.bound, m.scalars, (*m.atoms[:k], *m.atoms[k + 1 :], m.atoms[k])))
        atom = m.atoms[k]
        mean = mean + bind(cofactor(parts[-1]) * semantics.cumulant(atom.op, (atom,), moments), m.bound)
    variance = Poly()
    for m in parts:
        for other in parts:
            q = other.apart([*m.bound, *m.letters])
            g, h = m.atoms[-1], q.atoms[-1]
            if semantics.source(g.op) == semantics.source(h.op):
                variance = variance + bind(cofactor(m) * cofactor(q) * second(g, h), (*m.bound, *q.bound))
    return mean, variance


def cofactor(m: Mono) -> Poly:
    """What stands beside the last atom, bound letters left open."""
    return Poly((Mono(m.number, (), m.scalars, m.atoms[:-1]),))
