"""Normal forms and expectations of polynomials, against moments known in closed form."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from netsor import Plate, Program, dot, exp, matrix, mean, oo, param, relu, softmax, sqrt, sum_over, table, tanh, vector
from netsor.algebra.moments import LARGEST_POWER, Moments, components, gaussian, is_sum, leaf_of
from netsor.algebra.poly import ONE, ZERO, Mono, Poly, atom, bind, constant, scalar
from netsor.ir import Term, distinct, lift
from netsor.rules.input import Law

i, j, k = Plate("token", 3).indices("i j k")
a = Plate("head").index("a")
x, y, b, X = vector("x"), vector("y"), vector("b", mean=2, cov=3), vector("X", i)
W, V, c = matrix("W"), matrix("V"), param("c")
p, q = dot(matrix("Q") @ x, matrix("K") @ y), dot(matrix("R") @ x, y)
bit = vector("bit", law=Law("bit", lambda k: 1 - k % 2, float))
half = Fraction(1, 2)


def twice(poly: Poly) -> Poly:
    return poly.scaled(2)


EXPANDED: dict[str, tuple[Term, Poly]] = {
    "a vector": (x, atom(x)),
    "a number": (lift(3) + 0 * x, constant(3)),
    "a sum": (x + y, atom(x) + atom(y)),
    "a difference": (x - y, atom(x) + atom(y).scaled(-1)),
    "nested": (x - (y - x), twice(atom(x)) + atom(y).scaled(-1)),
    "a product": ((x + y) * (x - y), atom(x) * atom(x) + (atom(y) * atom(y)).scaled(-1)),
    "over a number": (x / 4, atom(x).scaled(Fraction(1, 4))),
    "over a fraction": (x / Fraction(1, 3), atom(x).scaled(3)),
    "over a float": (x / 0.5, atom(x).scaled(2.0)),
    "over a scalar": ((x + y) / p, (atom(x) + atom(y)) * scalar(1 / p)),
    "1 over a scalar": (1 / p * x, scalar(1 / p) * atom(x)),
    "2 over a scalar": (2 / p * x, twice(scalar(1 / p)) * atom(x)),
    "over a vector": (x / (1 + y * y), atom(x / (1 + y * y))),
    "a square": ((x + 1) ** 2, atom(x) * atom(x) + twice(atom(x)) + ONE),
    "a first power": ((x + 1) ** 1, atom(x) + ONE),
    "a zeroth power": (x**0, atom(x**0)),
    "an inverse power": (x**-1, atom(x**-1)),
    "a root": (abs(x) ** half, atom(abs(x) ** half)),
    "a large power": (x ** (LARGEST_POWER + 1), atom(x ** (LARGEST_POWER + 1))),
    "a power of a scalar": (p**2 * x, scalar(p**2) * atom(x)),
    "a power that is open": (abs(x) ** c, atom(abs(x) ** c)),
    "a scalar": (p, scalar(p)),
    "a sum of scalars": (p + q, scalar(p) + scalar(q)),
    "a sum over members": (sum_over(2 * X, i), twice(bind(atom(X), (i,)))),
    "a sum over some": (sum_over(X, i, where=distinct(i, j)), bind(scalar(distinct(i, j)) * atom(X), (i,))),
    "a sum over members of scalars": (sum_over(table("t", i), i) * x, scalar(sum_over(table("t", i), i)) * atom(x)),
    "a softmax": (softmax(X, over=i), atom(softmax(X, over=i))),
    "a function": (tanh(x + y), atom(tanh(x + y))),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_normal_form(name: str) -> None:
    term, poly = EXPANDED[name]
    assert not Moments().expand(term) + poly.scaled(-1)


def test_the_largest_power_that_is_multiplied_out() -> None:
    (m,) = Moments().expand(x**LARGEST_POWER)
    assert m.atoms == (x,) * LARGEST_POWER


def test_one_step_at_a_time() -> None:
    """With deep=False a sum below the root stays an atom; the two forms of one term are kept apart."""
    moments = Moments()
    inner = x + y
    assert not moments.expand(inner + b, deep=False) + (atom(inner) + atom(b)).scaled(-1)
    assert not moments.expand(inner + b) + (atom(x) + atom(y) + atom(b)).scaled(-1)
    assert not moments.expand(inner * inner, deep=False) + (atom(inner) * atom(inner)).scaled(-1)
    assert len(moments.expand(inner * inner)) == 3
    assert not moments.expand(p + q, deep=False) + scalar(p + q).scaled(-1)
    assert is_sum(inner)
    assert not is_sum(p + q)
    assert not is_sum(x * y)


def test_exact_numbers_stay_exact() -> None:
    (m,) = Moments().expand(x / 3)
    assert m.number == Fraction(1, 3)
    assert isinstance(m.number, Fraction)


@pytest.mark.parametrize(
    ("term", "so"),
    [
        (x, True),
        (W @ tanh(x), True),
        (2 * x + W @ x - b, True),
        (x + (x + (y + b)), True),
        (x + tanh(y + x), False),
        (p * x + y, True),
        (x * y, False),
        (x + (y + x * y), False),
        (tanh(x), False),
        (bit + x, False),
        (x + (y + bit), False),
        (sum_over(table("t", i) * X, i), True),
        (lift(1) + 0 * x, True),
    ],
)
def test_affine(term: Term, so: bool) -> None:
    assert Moments().affine(term) == so


def test_what_involves_a_score() -> None:
    moments = Moments()
    assert moments.scored(p)
    assert moments.scored(tanh(x) * p)
    assert moments.scored(mean(p * x * x))
    assert not moments.scored(mean(x * x) * x)
    assert not moments.scored(W @ x)
    head = dot(matrix("QH", a) @ x, matrix("KH", a) @ y)
    one = Program("many", m=sum_over(head * head, a) / a.plate.size).at(head=oo)["m"]
    assert not moments.scored(one)  # an average over infinitely many members is a number


# ------------------------------------------------------------------------------------------------------------- expectations


def double_factorial(n: int) -> int:
    return math.prod(range(n, 0, -2))


LAWS: dict[str, tuple[Term, Callable[[int], int]]] = {
    "Gaussian": (x, lambda n: 0 if n % 2 else double_factorial(n - 1)),
    "Gaussian with a mean": (
        b,
        lambda n: sum(math.comb(n, r) * 2 ** (n - r) * 3 ** (r // 2) * double_factorial(r - 1) for r in range(0, n + 1, 2)),
    ),
    "Rademacher": (bit, lambda n: 1 - n % 2),
    "exponential": (vector("exp", law=Law("exp", math.factorial, float)), math.factorial),
    "fixed": (vector("two", law=Law("two", lambda n: 2**n, float)), lambda n: 2**n),
    "a matrix times a vector": (matrix("U", sigma=2) @ b, lambda n: 0 if n % 2 else double_factorial(n - 1) * 28 ** (n // 2)),
}


def number(poly: Poly) -> object:
    """The number that a polynomial without variables is, sigma² of a matrix put in."""
    total: object = 0
    for m in poly:
        assert not m.atoms
        assert not m.bound
        value = m.number
        for s in m.scalars:
            value = value * s.op.matrix.sigma**2  # type: ignore[attr-defined]
        total = total + value  # type: ignore[operator]
    return total


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6])
def test_powers(name: str, n: int) -> None:
    term, moment = LAWS[name]
    assert number(Moments().expect(*[term] * n)) == moment(n)


@pytest.mark.parametrize("name", LAWS)
def test_central_moments(name: str) -> None:
    """E (x - E x + y)^3, as a power of a sum."""
    term, moment = LAWS[name]
    m1, m2, m3 = map(moment, (1, 2, 3))
    assert number(Moments().expect((term - m1 + y) ** 3)) == m3 - 3 * m1 * m2 + 2 * m1**3


def test_expectations_of_members() -> None:
    """E X_i X_j = δ_ij; E of four is the sum over pairings; a law has its own fourth moment where all agree."""
    moments, at = Moments(), lambda *ls: [X.at({i: s}) for s in ls]
    delta = moments.expect(X, X[j])
    assert moments.expect(*at(i, j, k)) == ZERO
    four = moments.define(leaf_of(at(i, i, j, j))) or ZERO
    assert not four + (ONE + delta * delta.scaled(2)).scaled(-1)
    assert moments.expect(*at(i, i, i, i)) == constant(3)
    assert moments.expect(X, X) == ONE


def test_independent_factors() -> None:
    moments = Moments()
    assert moments.expect(tanh(x), relu(y)) == moments.expect(tanh(x)) * moments.expect(relu(y))
    assert moments.expect(tanh(x), y) == ZERO
    assert moments.expect(tanh(x) * relu(y)) == scalar(leaf_of([tanh(x)])) * scalar(leaf_of([relu(y)]))
    assert moments.expect(tanh(x), b) == moments.expect(tanh(x)).scaled(2)
    assert moments.expect() == ONE
    assert moments.expect(p * tanh(x)) == scalar(p) * moments.expect(tanh(x))


def test_leaves() -> None:
    """An expectation of nonlinear functions that share a source is a leaf; its factors have no order."""
    moments = Moments()
    leaf = leaf_of([tanh(x), relu(x)])
    assert leaf == leaf_of([relu(x), tanh(x)])
    assert moments.expect(tanh(x), relu(x)) == scalar(leaf)
    assert moments.define(leaf) is None
    assert moments.define(leaf_of([tanh(x)])) is None
    assert moments.define(leaf_of([x, x])) == ONE
    assert moments.define(leaf_of([x])) == ZERO
    assert moments.define(leaf_of([2 * tanh(x)])) == scalar(leaf_of([tanh(x)])).scaled(2)
    assert moments.define(leaf_of([tanh(x), relu(y)])) == scalar(leaf_of([tanh(x)])) * scalar(leaf_of([relu(y)]))
    assert moments.define(leaf_of([x, tanh(x)])) is None
    assert moments.define(leaf_of([p * tanh(x)])) == scalar(p) * scalar(leaf_of([tanh(x)]))


def test_a_sum_is_unfolded_where_it_stays_one_term() -> None:
    """E[(x + tanh y)(x + tanh y)] is a leaf of one step; E[(x + y)] = 0 at once."""
    moments = Moments()
    s = x + tanh(y)
    assert moments.expect(s, s) == scalar(leaf_of([s, s]))
    assert not (moments.define(leaf_of([s, s])) or ZERO) + (ONE + scalar(leaf_of([tanh(y), tanh(y)]))).scaled(-1)
    assert moments.expect(x + y) == ZERO
    assert moments.expect(x + y, x - y) == ZERO
    assert moments.expect(x + y, x) == ONE
    assert moments.expect(sum_over(X, i), X[j]) == ONE
    three = moments.define(leaf_of([x + b, x, b]))
    assert three == constant(2)


def test_averages_are_replaced_by_their_limits() -> None:
    moments = Moments()
    small, large = mean(x), mean(b * b)
    poly = scalar(small) * scalar(large) + scalar(large) * atom(y) + scalar(p)
    assert not moments.resolved(poly) + (atom(y).scaled(7) + scalar(p)).scaled(-1)
    inner = Poly((Mono(1, (i,), (mean(X * X), table("t", i))),))
    assert not moments.resolved(inner) + bind(scalar(table("t", i)), (i,)).scaled(-1)


@pytest.mark.parametrize(
    ("term", "so"),
    [
        (x, False),
        (x - y, False),
        (x + 1, True),
        (x + (y - (x + p)), True),
        (2 * (x - (y + x)) * (x + y), False),
        (tanh(x + 1), False),
        (x + y * (y + 1), True),
    ],
    ids=str,
)
def test_vectors_in_which_a_constant_stands(term: Term, so: bool) -> None:
    """In them or in a sum in them, not in what a function makes of it; the answer stays."""
    moments = Moments()
    assert [moments.shifted(term) for _ in range(2)] == [so, so]


def test_groups_that_share_a_source() -> None:
    moments = Moments()
    found = components([x, y, tanh(x), relu(b), x + y, exp(b)], moments.sources)
    assert sorted(map(len, found)) == [2, 4]
    assert components([], moments.sources) == []
    assert len(components([x, y, b], moments.sources)) == 3
    assert gaussian(x)
    assert not gaussian(bit)
    assert moments.sources(x + W @ b) == {x.op.token, W.record.token}
    assert moments.sources(mean(b) * x) == {x.op.token}
    assert moments.sources(sqrt(lift(2))) == frozenset()
