"""Bounds of sums, products, powers and bounded functions, record by record."""

import pytest

from netsor import vector
from netsor.algebra.majorants import INFINITE, LARGEST_SUM, UNCERTAIN, Exponent, Fault, Majorant
from netsor.algebra.poly import ZERO, Poly, atom
from netsor.ir import Plate

i, j = Plate("token", 2).indices("i j")
X = vector("x", i)
x, y = atom(X), atom(vector("y"))
Q, R = Exponent(x * x, False), Exponent(y, False)
LOW = Exponent((x * x).scaled(-1), True)
ONE = Exponent()
BAD, WORSE = Fault(INFINITE, "bad"), Fault(UNCERTAIN, "worse", True)


def bound(degree: float = 0.0, order: float = 0.0, *exponents: Exponent, **more: object) -> Majorant:
    return Majorant(degree, order, exponents or (ONE,), **more)  # type: ignore[arg-type]


def test_without_anything_a_bound_is_a_constant() -> None:
    assert Majorant() == bound(tame=True, jump=False, holder=False, pole=None, sharp=True, fault=None)
    assert Exponent() == Exponent(ZERO, True)
    assert not Fault(INFINITE, "why").undefined


@pytest.mark.parametrize(
    ("a", "b", "total", "product"),
    [
        (bound(1), bound(2), bound(2), bound(3)),
        (bound(0, 1.5), bound(0, 0.5), bound(0, 1.5), bound(0, 1.5)),
        (bound(0, 0, Q), bound(0, 0, R), bound(0, 0, Q, R), bound(0, 0, Exponent(x * x + y, False))),
        (bound(0, 0, LOW), bound(), bound(0, 0, LOW, ONE), bound(0, 0, LOW)),
        (bound(0, 0, Q), bound(0, 0, LOW), bound(0, 0, Q, LOW), bound(0, 0, Exponent(ZERO, False))),
        (
            bound(0, 0, Q, ONE),
            bound(0, 0, R, ONE),
            bound(0, 0, Q, ONE, R),
            bound(0, 0, Exponent(x * x + y, False), Q, R, ONE),
        ),
        (bound(tame=False), bound(), bound(tame=False), bound(tame=False)),
        (bound(jump=True), bound(), bound(jump=True), bound(jump=True)),
        (bound(holder=True), bound(), bound(holder=True), bound(holder=True)),
        (bound(sharp=False), bound(), bound(sharp=False), bound(sharp=False)),
        (bound(pole=0.5), bound(), bound(pole=0.5), bound(pole=0.5)),
        (bound(pole=0.5), bound(pole=0.25), bound(pole=0.5), bound(pole=0.75)),
        (bound(pole=0.0), bound(pole=0.25), bound(pole=0.25), bound(pole=0.25)),
        (bound(pole=0.0), bound(), bound(pole=0.0), bound(pole=0.0)),
        (bound(fault=BAD), bound(1), bound(1, fault=BAD), bound(1, fault=BAD)),
    ],
)
def test_sums_and_products(a: Majorant, b: Majorant, total: Majorant, product: Majorant) -> None:
    for one, two in ((a, b), (b, a)):
        whole = one + two
        assert set(whole.exponents) == set(total.exponents)
        assert whole == bound(total.degree, total.order, *whole.exponents, **rest(total))
        times = one * two
        assert {key(e) for e in times.exponents} == {key(e) for e in product.exponents}
        assert times == bound(product.degree, product.order, *times.exponents, **rest(product))


def rest(m: Majorant) -> dict[str, object]:
    return {name: getattr(m, name) for name in ("tame", "jump", "holder", "pole", "sharp", "fault")}


def key(e: Exponent) -> tuple[bool, frozenset[object]]:
    return e.bounded, frozenset(e.poly)


def test_like_exponentials_may_cancel() -> None:
    """exp(x²) - exp(x²): a sum of the same exponentials is not known to be as large as they are; constants are."""
    assert not (bound(0, 0, Q) + bound(0, 0, Q, R)).sharp
    assert (bound(0, 0, Q) + bound(0, 0, Q, R)).exponents == (Q, R)
    assert (bound(0, 0, Q) + bound(0, 0, R)).sharp
    assert (bound(1) + bound(2)).sharp


def test_an_infinite_factor_beside_a_bound_that_may_be_too_large() -> None:
    for a, b in ((0, 1), (1, 0)):
        for sharp, code in ((True, INFINITE), (False, UNCERTAIN)):
            pair = [bound(fault=BAD, sharp=False), bound(1, sharp=sharp)]
            found = (pair[a] * pair[b]).fault
            assert found == Fault(code, "bad")
    assert (bound(fault=BAD, sharp=False) * bound(fault=WORSE, sharp=False)).fault == BAD
    assert (bound(fault=BAD) + bound(fault=WORSE)).fault == BAD
    assert (bound() + bound(fault=WORSE)).fault == WORSE


def test_too_many_exponentials_are_not_followed() -> None:
    many = [Exponent(x.scaled(k), False) for k in range(1, LARGEST_SUM + 2)]
    full = bound(0, 0, *many[:LARGEST_SUM])
    assert full.exponents == (full + full).exponents
    assert (full + full).fault is None
    more = full + bound(0, 0, many[-1])
    assert more.exponents == full.exponents
    assert more.fault is not None
    assert more.fault.code == UNCERTAIN


def test_powers() -> None:
    m = bound(2, 1.5, Q, LOW, pole=0.5, tame=False, jump=True, holder=True, sharp=False, fault=BAD)
    assert m.raised(3) == bound(
        6, 1.5, Exponent((x * x).scaled(3), False), Exponent((x * x).scaled(-3), True), **{**rest(m), "pole": 1.5}
    )
    assert bound(1).raised(0.5) == bound(0.5)
    assert bound().raised(2) == bound()
    assert bound(pole=0.0).raised(2).pole == 0.0


def test_a_bounded_function_of_it() -> None:
    """No growth and no pole is left; a jump is, and a pole becomes one; a function without a value stays one."""
    flat = bound(sharp=False)
    assert bound(3, 1.5, Q, fault=BAD).cut(True) == flat
    assert bound(3).cut(False) == bound(tame=False, sharp=False)
    assert bound(3, tame=False).cut(True) == bound(tame=False, sharp=False)
    assert bound(3).cut(True, True) == bound(jump=True, sharp=False)
    assert bound(jump=True).cut(True) == bound(jump=True, sharp=False)
    assert bound(holder=True).cut(True) == bound(holder=True, sharp=False)
    assert bound(pole=0.0).cut(True) == bound(tame=False, jump=True, sharp=False)
    assert bound(fault=WORSE).cut(True) == bound(fault=WORSE, sharp=False)


def test_letters_are_replaced_in_exponents() -> None:
    m = bound(1, 0, Q, LOW, jump=True)
    primed = Poly(tuple((x * x).at({i: j})))
    assert m.at({i: j}) == bound(1, 0, Exponent(primed, False), Exponent(primed.scaled(-1), True), jump=True)
