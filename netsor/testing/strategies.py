"""Hypothesis strategies: random programs inside the theorem, their terms, covariances and functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from netsor import functions as fs
from netsor.ir import Function, Index, Plate, Term
from netsor.testing.drafts import CONTINUOUS, KINDS, SCORES, Draft, initial

LAYOUT = (("token", "i j k"), ("head", "a b"))


@st.composite
def programs(
    draw: st.DrawFn, plates: int = 2, statements: int = 6, sized: bool = True, scores: bool = True, least: int = 2
) -> Draft:
    """A program inside the theorem, as a Draft: `draft.program`; it prints as the Python code that builds it.

    Plates, masks, shared and tied matrices, residual connections, Moments, sums, maxima and softmax along a plate, scores
    at several depths. Every score has a matrix of its own on one side at least, so it has a fresh pivot, and all pivots
    can be ordered. Shrinks to few statements.
    plates, statements: how many at most; least: statements at least. sized=False leaves the sizes of the plates open.
    scores=False: none.
    """
    letters: list[Index] = []
    lines: list[str] = []
    for name, names in LAYOUT[: draw(st.integers(1, plates))]:
        plate = Plate(name, draw(st.integers(1, 3)) if sized else None)
        letters += plate.indices(names)
        lines.append(f"{', '.join(names.split())} = Plate({name!r}, {plate.extent}).indices({names!r})")
    draft = Draft(letters, lines)
    draft.add("x", initial(draw, draft, "x"))
    kinds = (*KINDS, *SCORES) if scores else KINDS
    for k in range(max(least, statements)):
        if k >= least and draw(st.integers(0, 7)) == 0:  # asked before each statement, so that shrinking can take one out
            break
        piece = draw(st.sampled_from(kinds))(draw, draft, f"t{k}")
        if piece is not None:
            draft.add(f"t{k}", piece)
    return draft


@st.composite
def terms(draw: st.DrawFn, /, vector: bool = False, **options: Any) -> Term:
    """A variable of a random program, a vector if asked for; `options` as for `programs`."""
    draft = draw(programs(**options))
    names = [name for name, term in draft.variables.items() if not vector or term.width is not None]
    return draft.variables[draw(st.sampled_from(names))]


@st.composite
def covariances(draw: st.DrawFn, most: int = 4) -> np.ndarray:
    """A covariance matrix of 1 to `most` members, exactly symmetric: regular, singular (of any rank, 0 included), with
    repeated members, tiny (1e-12 and smaller), or with scales from 1e-6 to 1e6 side by side.

    Positive semidefinite up to the rounding of a product R R^T.
    """
    size = draw(st.integers(1, most))
    rank = draw(st.integers(0, size))
    entries = st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.0, 1 / 3])
    root = np.array(draw(st.lists(entries, min_size=size * rank, max_size=size * rank)), dtype=float).reshape(size, rank)
    kind = draw(st.sampled_from(["as it is", "regular", "repeated", "tiny", "ill-scaled"]))
    if kind == "repeated":
        root[-1] = root[0]
    if kind == "ill-scaled":
        root = root * (10.0 ** np.array(draw(st.lists(st.integers(-6, 6), min_size=size, max_size=size))))[:, None]
    if kind == "tiny":
        root = root * 1e-6 * draw(st.sampled_from([1.0, 1e-3, 1e-6]))
    product = root @ root.T
    if kind == "regular":
        product = product + np.eye(size)
    return np.asarray((product + product.T) / 2)


def nonlinearities(continuous: bool = True) -> st.SearchStrategy[Function]:
    """A coordinatewise function of one argument, of at most polynomial growth; with `continuous=False` also jumps."""
    positive = st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0])
    made = [
        st.sampled_from([*CONTINUOUS, fs.cos, fs.gelu, fs.sigmoid, fs.silu, fs.softplus, fs.hard_sigmoid]),
        positive.map(fs.clip),
        positive.map(fs.elu),
        positive.map(fs.leaky_relu),
        st.integers(1, 3).map(fs.relu_power),
        st.integers(0, 4).map(fs.hermite),
    ]
    return st.one_of(*made, *([] if continuous else [st.sampled_from([fs.sign, fs.step])]))
