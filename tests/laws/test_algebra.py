"""Laws of E[ . | scores] on random programs. Each law is a check of concrete terms, and has a mutant that fails it."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from calibrated import Deviates, assert_detects
from hypothesis import given
from hypothesis import strategies as st
from strategies import Draft, programs

from netsor import semantics
from netsor.algebra.moments import Moments
from netsor.algebra.poly import ZERO, Mono, Poly, simplify, total
from netsor.binding import table
from netsor.functions import erf, mean_over, relu, tanh
from netsor.infinite.engine import REPLICATES, Engine, Sampling
from netsor.infinite.kernels import Leaf
from netsor.ir import Index, Plate, Slot, Term, free_of
from netsor.numeric import interpreter
from netsor.numeric.named import Named, named
from netsor.numeric.streams import seed_of
from netsor.rules import Input, MatMul, matrix, vector
from netsor.rules.matmul import Sigma2

ROUNDING = 1e-11  # of the largest number; quadratures of one expectation in two ways differ by less


class Numbers:
    """E[x y .. | scores] of several terms in the same few draws of the scores below them."""

    def __init__(self, *terms: Term) -> None:
        self.moments = Moments()
        self.at, _ = next(iter(Engine(self.moments).replicates(terms, Sampling(REPLICATES, seed_of(0)))))

    def E(self, *terms: Term) -> Named:
        return self.at.poly(self.moments.expect(*terms), letters(*terms))

    @property
    def exact(self) -> bool:
        """No expectation came from random points."""
        return not self.at.sampled


def letters(*terms: Term) -> tuple[Index, ...]:
    return free_of(s for t in terms for s in t.slots)


def check_equal(*values: Named, over: tuple[Index, ...]) -> None:
    check_arrays(*(v.full(over) for v in values))


def check_arrays(*arrays: np.ndarray) -> None:
    first, *others = np.broadcast_arrays(*arrays)
    for other in others:
        gap, size = np.abs(first - other).max(), np.abs(first).max()
        if not gap <= ROUNDING * max(size, 1):
            raise Deviates(f"off by {gap:.3g} of {size:.3g}")


def plus(*parts: tuple[float, Named]) -> Named:
    out = named(0.0)
    for c, value in parts:
        out = interpreter.combine(lambda x, y, c=c: x + c * y, out, value)
    return out


Chosen = tuple[Draft, list[str]]


@st.composite
def choices(draw: Callable[[Any], Any], count: int) -> Chosen:
    """A random program and the names of vectors of it, perhaps the same one twice."""
    draft: Draft = draw(programs(statements=5))
    names = [name for name, term in draft.variables.items() if term.width is not None]
    return draft, draw(st.lists(st.sampled_from(names), min_size=count, max_size=count))


def terms(chosen: Chosen) -> list[Term]:
    draft, names = chosen
    return [draft.variables[name] for name in names]


numbers = st.sampled_from([-1, 2, 0.5, 1])

# What the mutants are run on.
TOKEN = Plate("token", 2)
i, j, k = TOKEN.indices("i j k")
X = vector("x", i, cov=[[1, 0.5], [0.5, 2]], mean=0.5)
G = matrix("W") @ X
H = tanh(G)


# -------------------------------------------------------------------------------------------------------------------- laws


def check_linear(x: Term, y: Term, z: Term, c: float) -> None:
    """E[(x + cy) z] = E[xz] + c E[yz], and the same without z."""
    s = x + c * y
    n = Numbers(s, z)
    check_equal(n.E(s), plus((1, n.E(x)), (c, n.E(y))), over=letters(x, y))
    check_equal(n.E(s, z), plus((1, n.E(x, z)), (c, n.E(y, z))), over=letters(x, y, z))


@given(choices(3), numbers)
def test_expectation_is_linear(chosen: Chosen, c: float) -> None:
    check_linear(*terms(chosen), c)


def check_symmetric(*terms: Term) -> None:
    """E[x y z] does not depend on the order of the factors."""
    n = Numbers(*terms)
    check_equal(*(n.E(*order) for order in permutations(terms)), over=letters(*terms))


@given(choices(3))
def test_factors_commute(chosen: Chosen) -> None:
    x, y, z = terms(chosen)
    check_symmetric(x, y.at({s: prime(s) for s in y.free}))
    check_symmetric(x, y, z)


def prime(letter: Index) -> Index:
    return letter.prime


def check_covariance_of_a_sum(x: Term, y: Term) -> None:
    """E ss' = E xx' + E xy' + E yx' + E yy' for s = x + y, primes other members."""
    s = x + y
    x_, y_, s_ = (t.at({a: a.prime for a in t.free}) for t in (x, y, s))
    n = Numbers(s, s_)
    parts = [(1, n.E(a, b)) for a in (x, y) for b in (x_, y_)]
    check_equal(n.E(s, s_), plus(*parts), over=letters(s, s_))


@given(choices(2))
def test_covariance_of_a_sum(chosen: Chosen) -> None:
    check_covariance_of_a_sum(*terms(chosen))


def check_sigma(x: Term, y: Term, sigma: float) -> None:
    """E[Wx Wy] grows with σ²; so does that of relu, which is homogeneous of degree 1."""
    big, one = (matrix("B", sigma=s) for s in (sigma, 1))
    n = Numbers(x, y)
    check_equal(n.E(big @ x, big @ y), plus((sigma**2, n.E(one @ x, one @ y))), over=letters(x, y))
    check_equal(
        n.E(relu(big @ x), relu(big @ y)),
        plus((sigma**2, n.E(relu(one @ x), relu(one @ y)))),
        over=letters(x, y),
    )


@given(choices(2), st.sampled_from([0, 0.5, 3]))
def test_matmul_scales_with_sigma(chosen: Chosen, sigma: float) -> None:
    check_sigma(*terms(chosen), sigma)


def check_split(x: Term, y: Term, z: Term) -> None:
    """W(x + cy) or Wx + cWy: equal beside Wz, beside a function of it, and inside one."""
    W, V = matrix("W_"), matrix("V_")
    merged, split = W @ (x + 2 * y), W @ x + 2 * (W @ y)
    n = Numbers(merged, split, z)
    over = letters(x, y, z)
    for other in (W @ z, tanh(W @ z), V @ z):
        check_equal(n.E(merged, other), n.E(split, other), over=over)
    check_equal(*(n.E(a, b) for a in (merged, split) for b in (merged, split)), over=letters(x, y))
    inside = [n.E(tanh(a), W @ z) for a in (merged, split)]
    if n.exact:
        check_equal(*inside, over=over)


@given(choices(3))
def test_linear_maps_split_and_merge(chosen: Chosen) -> None:
    check_split(*terms(chosen))


def check_renaming(x: Term, y: Term, to: dict[Slot, Slot]) -> None:
    """Letters replaced in the terms, or in the axes of the array: by other letters, by one letter twice, by members."""
    n = Numbers(x, y)
    before = n.E(x, y).full(letters(x, y))
    after = n.E(x.at(to), y.at(to))
    if n.exact:
        check_equal(after, Named(letters(x, y), before).relabel(to), over=letters(x.at(to), y.at(to)))


@given(choices(2), st.data())
def test_renaming_letters(chosen: Chosen, data: st.DataObject) -> None:
    x, y = terms(chosen)
    to = {s: data.draw(st.sampled_from([*s.plate.indices("a i j b"), *members(s)])) for s in letters(x, y)}
    check_renaming(x, y, to)


def members(letter: Index) -> list[Slot]:
    return list(vector("v", letter)[0].slots)


def network(steps: list[str], cov: np.ndarray, weights: np.ndarray) -> Term:
    """A small network on three members of a plate, which knows them by their covariance and weight only."""
    i = Plate("token", 3).index("i")
    x = vector("x", i, cov=cov, mean=0.5)
    for k, step in enumerate(steps):
        x = {
            "matmul": lambda x, k=k: matrix(f"W{k}") @ x,
            "tanh": tanh,
            "relu": relu,
            "pool": lambda x: x - mean_over(x, i),
            "weigh": lambda x: table("c", i, values=weights) * x,
        }[step](x)
    return x


def check_permutation(steps: list[str], root: np.ndarray, weights: np.ndarray, order: tuple[int, ...]) -> None:
    """E y_i y_j of permuted members is the array with both axes permuted."""
    p = np.array(order)
    cov = root @ root.T
    before, after = (network(steps, *at) for at in ((cov, weights), (cov[np.ix_(p, p)], weights[p])))
    (i,) = before.free
    n = Numbers(before, after)
    one, two = (n.E(y, y.at({i: i.prime})).full((i, i.prime)) for y in (before, after))
    if n.exact:
        check_arrays(one[p][:, p], two)


@given(
    st.lists(st.sampled_from(["matmul", "tanh", "relu", "pool", "weigh"]), max_size=4),
    st.lists(st.integers(-2, 2), min_size=6, max_size=6),
    st.permutations(range(3)),
)
def test_permuting_a_plate(steps: list[str], root: list[int], order: tuple[int, ...]) -> None:
    check_permutation(steps, np.reshape(root, (3, 2)) / 2, np.array([0.5, -1, 2]), order)


def check_independent(x: Term, y: Term) -> None:
    """E[Wx Vy] = 0, and E[f(Wx) g(Vy)] = E f(Wx) E g(Vy); so are two copies of one matrix, and no copy of itself."""
    W, V = matrix("W_"), matrix("V_")
    a, b = Plate("copy", 2).indices("a b")
    U = matrix("U_", a)
    n = Numbers(x, y)
    over = letters(x, y)
    check_equal(n.E(W @ x, V @ y), named(0), over=over)
    f, g = relu(W @ x), erf(V @ y + 1)
    check_equal(n.E(f, g), interpreter.combine(np.multiply, n.E(f), n.E(g)), over=over)
    delta = Named((a, b), np.eye(2)[..., None, None])
    copies = interpreter.combine(np.multiply, delta, n.E(x, y))
    check_equal(n.E(U @ x, U[b] @ y), copies, over=(a, b, *over))


@given(choices(2))
def test_different_matrices_are_independent(chosen: Chosen) -> None:
    check_independent(*terms(chosen))


# ----------------------------------------------------------------------------------------------------------------- mutants

Mutant = Callable[[pytest.MonkeyPatch], None]


def overwritten_terms(patch: pytest.MonkeyPatch) -> None:
    """Of two like terms of a sum the second is kept."""
    patch.setattr(Poly, "__add__", lambda p, q: total({m.atoms + m.scalars: m for m in (*p, *q)}.values()))


def one_sided_prior(patch: pytest.MonkeyPatch) -> None:
    """Cov(x_i, x_j) read at (i, i)."""
    right = semantics.cumulant

    def cumulant(op: Any, terms: tuple[Term, ...], at: Moments) -> Poly:
        return right(op, (terms[0],) * len(terms) if isinstance(op, Input) else terms, at)

    patch.setattr(semantics, "cumulant", cumulant)


def no_cross_terms(patch: pytest.MonkeyPatch) -> None:
    """(a + b)(c + d) = ac + bd."""

    def product(p: Poly, q: Poly) -> Poly:
        terms = zip(p, q, strict=True) if len(p) == len(q) else ((a, b) for a in p for b in q)
        return total(m for a, b in terms if (m := simplify(a * b)) is not None)

    patch.setattr(Poly, "__mul__", product)


def sigma_for_its_square(patch: pytest.MonkeyPatch) -> None:
    right = interpreter.entry

    def entry(op: Any, term: Term) -> Named:
        return named(op.matrix.sigma) if isinstance(op, Sigma2) else right(op, term)

    patch.setattr(interpreter, "entry", entry)


def products_of_one_vector_only(patch: pytest.MonkeyPatch) -> None:
    """W x and W y independent for x other than y."""
    right = semantics.cumulant

    def cumulant(op: Any, terms: tuple[Term, ...], at: Moments) -> Poly:
        apart = isinstance(op, MatMul) and len({t.family for t in terms}) > 1
        return ZERO if apart else right(op, terms, at)

    patch.setattr(semantics, "cumulant", cumulant)


def first_member_for_diagonal(patch: pytest.MonkeyPatch) -> None:
    """t[i, i] read as t[i, 0]."""
    right = Named.relabel

    def relabel(self: Named, to: dict[Slot, Slot]) -> Named:
        seen: set[Slot] = set()
        twice = {}
        for s in self.over:
            new = to.get(s, s)
            if new in seen:
                twice[s] = members(s)[0]
            seen.add(new)
        return right(self, {**to, **twice})

    patch.setattr(interpreter.Named, "relabel", relabel)


def shared_numbers_in_another_order(patch: pytest.MonkeyPatch) -> None:
    """Expectations that many members share are handed back sorted."""
    right = Leaf.__init__

    def init(self: Leaf, *args: Any) -> None:
        right(self, *args)
        self.back = None if self.back is None else np.sort(self.back.ravel())

    patch.setattr(Leaf, "__init__", init)


def one_source(patch: pytest.MonkeyPatch) -> None:
    """All matrices are one."""
    right = semantics.source
    patch.setattr(semantics, "source", lambda op: b"W" if isinstance(op, MatMul) else right(op))


def one_copy(patch: pytest.MonkeyPatch) -> None:
    """Copies of a matrix are one."""
    patch.setattr("netsor.rules.matmul.same", lambda left, right: Poly((Mono(1),)))


@pytest.mark.parametrize(
    ("mutant", "check", "args"),
    [
        (overwritten_terms, check_linear, (G, G, G, 2)),
        (one_sided_prior, check_symmetric, (X, X[j])),
        (no_cross_terms, check_covariance_of_a_sum, (G, H)),
        (sigma_for_its_square, check_sigma, (X, X[j], 3)),
        (products_of_one_vector_only, check_split, (X, relu(X), X)),
        (first_member_for_diagonal, check_renaming, (G, H[j], {j: i})),
        (shared_numbers_in_another_order, check_permutation, (["tanh"], np.diag([3, 2, 1]), np.ones(3), (1, 2, 0))),
        (one_source, check_independent, (X, X)),
        (one_copy, check_independent, (X, X)),
    ],
)
def test_a_mutant_breaks_its_law(
    mutant: Mutant, check: Callable[..., None], args: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*args)
    mutant(monkeypatch)
    assert_detects(check, *args)
