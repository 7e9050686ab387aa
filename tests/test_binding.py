"""Binding by name: the sizes of plates, parameters and tables."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from strategies import Draft, World, programs

from netsor.binding import bind, bindable, param, table
from netsor.errors import IllFormed, NetsorError, OutsideTheorem
from netsor.functions import softmax, sqrt, sum_over
from netsor.ir import Index, Plate, Size, Term, postorder
from netsor.ops import Param, Table
from netsor.program import Program
from netsor.rules.dot import dot
from netsor.rules.input import Input, vector
from netsor.rules.matmul import MatMul, matrix


def program(
    tokens: int | None = None, heads: int | None = None, beta: Any = None, sigma: Any = None, mu: Any = None, slopes: Any = None
) -> Program:
    """A program with everything that can be bound: two plates, three parameters (a factor, a sigma, a mean), a table."""
    token, head = Plate("token", tokens), Plate("head", heads)
    i, j = token.indices("i j")
    a = head.index("a")
    x = vector("x", i, mean=param("mu", mu))
    WQ, WK = (matrix(f"W{r}", a, sigma=param("sigma", sigma)) for r in "QK")
    p = param("beta", beta) * dot(WQ @ x, WK @ x[j]) - table("slopes", a, values=slopes) * (i - j)
    o = matrix("WO", a) @ sum_over(softmax(p, over=j, where=j <= i) * x[j], j)
    return Program("example", x=x, p=p, o=o, y=sum_over(o, a) / sqrt(head.size), first=o[0, 0])


OPEN = {"token": 3, "head": 2, "beta": 0.5, "sigma": Fraction(3, 2), "mu": -1, "slopes": [0.25, 4]}


def refused(code: str, P: Program, values: dict[str, Any], *words: str, kind: type[NetsorError] = IllFormed) -> None:
    with pytest.raises(kind) as caught:
        P.at(**values)
    assert caught.value.code == code, str(caught.value)
    for word in words:
        assert word in str(caught.value)


def plates_of(variables: dict[str, Term]) -> set[Plate]:
    """Every plate that stands anywhere: in slots, families, bound letters and sizes."""
    families = postorder(*variables.values())
    return {
        *(s.plate for t in variables.values() for s in t.slots),
        *(p for f in families for p in (*f.plates, *f.bound)),
        *(f.op.plate for f in families if isinstance(f.op, Size)),
    }


def tokens_of(variables: dict[str, Term]) -> dict[str, set[bytes]]:
    """The tokens under each name of a matrix or vector: one, unless a tie is broken."""
    found: dict[str, set[bytes]] = {}
    for family in postorder(*variables.values()):
        record = family.op.matrix if isinstance(family.op, MatMul) else family.op
        if isinstance(family.op, MatMul | Input):
            found.setdefault(record.name, set()).add(record.token)
    return found


# ------------------------------------------------------------------------------------------------------ what is bound


def test_everything_has_a_name() -> None:
    plates, names, bound = bindable(program())
    assert (plates, names, bound) == ({"token", "head"}, {"beta", "sigma", "mu"}, set())
    plates, names, bound = bindable(program().at(**OPEN))
    assert (plates, names, bound) == (set(), set(), {"token", "head", "beta", "sigma", "mu", "slopes"})


def test_bound_by_name_or_where_it_is_built_is_the_same_program() -> None:
    late, early = program().at(**OPEN), program(*OPEN.values())
    assert list(late) == list(early)
    for name in late:
        assert late[name].free == early[name].free
        one, two = (World().value(P[name]).full(P[name].free) for P in (late, early))
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("name", OPEN)
def test_each_name_alone(name: str) -> None:
    P = program()
    Q = P.at(**{name: OPEN[name]})
    before, after = (set().union(*bindable(X)[:2]) | open_tables(X) for X in (P, Q))
    assert before - after == {name}
    assert Q.name == P.name


def open_tables(P: Program) -> set[str]:
    return {f.op.name for f in postorder(*P.values()) if isinstance(f.op, Table) and f.op.values is None}


def test_sizes_are_bound_everywhere() -> None:
    P = program().at(token=3, head=8)
    assert {(p.name, p.extent) for p in plates_of(dict(P))} == {("token", 3), ("head", 8)}
    assert [s.plate.extent for s in P["first"].slots] == [8, 3], "also under a member"


@given(programs(sized=False))
def test_no_plate_stays_open(draft: Draft) -> None:
    names = bindable(draft.variables)[0]
    bound = bind(draft.variables, dict.fromkeys(names, 3))
    assert all(p.extent == 3 for p in plates_of(bound))
    for name, piece in draft.statements.items():
        assert [s.name for s in bound[name].free] == [s.name for s in piece.term.free]


@given(st.data())
def test_in_two_steps_or_one(data: st.DataObject) -> None:
    draft = data.draw(programs(sized=False))
    names = dict.fromkeys(bindable(draft.variables)[0], 2)
    first = {n: s for n, s in names.items() if data.draw(st.booleans())}
    rest = {n: s for n, s in names.items() if n not in first}
    assert bind(bind(draft.variables, first), rest) == bind(draft.variables, names)
    assert bind(draft.variables, {}) == draft.variables


@given(programs(sized=False))
def test_ties_are_kept(draft: Draft) -> None:
    bound = bind(draft.variables, dict.fromkeys(bindable(draft.variables)[0], 2))
    assert tokens_of(bound) == tokens_of(draft.variables)


def test_parameters_inside_records() -> None:
    P = program().at(sigma=2, mu=Fraction(1, 3))
    ops = [f.op for f in postorder(*P.values())]
    assert {op.matrix.sigma for op in ops if isinstance(op, MatMul) and op.matrix.name != "WO"} == {Param("sigma", 2)}
    assert {op.mean for op in ops if isinstance(op, Input)} == {Param("mu", Fraction(1, 3))}
    assert all(len(tokens) == 1 for tokens in tokens_of(dict(P)).values())


def test_one_parameter_in_many_places() -> None:
    x = param("c") * vector("x", mean=param("c"))
    (bound,) = bind({"y": matrix("W", sigma=param("c")) @ x + param("c")}, {"c": 2}).values()
    assert bindable({"y": bound}) == (set(), set(), {"c"})
    assert {f.op.value for f in postorder(bound) if isinstance(f.op, Param)} == {2}


def test_exact_numbers_stay_exact() -> None:
    def value(number: Any) -> Any:
        (term,) = bind({"c": param("c")}, {"c": number}).values()
        return term.op.value

    assert value(Fraction(1, 3)) == Fraction(1, 3)
    assert value(sympy.Rational(1, 3)) == Fraction(1, 3)
    assert value(np.float64(0.5)) == 0.5
    assert value(sympy.sqrt(2)) == sympy.sqrt(2)
    assert type(value(np.int64(3))) is int


def test_the_original_is_as_it_was() -> None:
    P = program()
    before = dict(P)
    P.at(**OPEN)
    assert dict(P) == before


def test_tables_over_two_plates() -> None:
    i, a = Plate("token").index("i"), Plate("head", 2).index("a")
    variables = {"t": table("c", i, a)}
    values = np.arange(6.0).reshape(3, 2)
    for form in (values, values.tolist(), tuple(map(tuple, values))):
        (t,) = bind(variables, {"c": form, "token": 3}).values()
        np.testing.assert_array_equal(World().value(t).full(t.free)[..., 0, 0], values)


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("name", OPEN)
def test_a_name_is_bound_once(name: str) -> None:
    P = program().at(**OPEN)
    refused("NS304", P, {name: OPEN[name]}, f"P.at({name}=", "already")
    early = program(*OPEN.values())
    refused("NS304", early, {name: OPEN[name]}, f"P.at({name}=", "already")


def test_a_size_that_stands_alone_is_bound_once() -> None:
    P = Program("p", y=vector("x") / Plate("head", 2).size)
    refused("NS304", P, {"head": 2}, "P.at(head=2)")


def test_unknown_names() -> None:
    refused("NS311", program(), {"depth": 3}, "depth", "beta, head, mu, sigma, slopes, token")
    refused("NS311", program().at(**OPEN), {"depth": 3}, "none")
    refused("NS311", program(), {"x": 3}, "P.at(x=")


@pytest.mark.parametrize("infinity", [sympy.oo, math.inf, np.inf], ids=["sympy", "math", "numpy"])
def test_heads_that_a_table_tells_apart_have_no_infinite_limit(infinity: Any) -> None:
    refused("NS203", program(), {"head": infinity}, "P.at(head=oo)", kind=OutsideTheorem)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3", None, [3]])
def test_sizes_are_positive_integers(size: Any) -> None:
    refused("NS306", program(), {"head": size}, "head")


@pytest.mark.parametrize("name", ["beta", "sigma", "mu"])
def test_parameters_are_finite_numbers(name: str) -> None:
    for value in (math.nan, math.inf, -math.inf):
        refused("NS306", program(), {name: value}, f"parameter {name}")
    for value in ("1", True, None, [1.0], 1j):
        refused("NS309", program(), {name: value}, f"parameter {name}")


def test_tables_have_one_entry_for_each_member() -> None:
    for values in ([1, 2, 3], [[1, 2]], 1.0, [[1], [2]]):
        refused("NS305", program(heads=2), {"slopes": values}, "slopes")
        refused("NS305", program(), {"slopes": values, "head": 2}, "slopes")
    refused("NS305", program(), {"slopes": [[1, 2], [3]]}, "slopes")
    refused("NS306", program(), {"slopes": [1, math.nan]}, "slopes")
    i, j = Plate("token", 2).indices("i j")
    with pytest.raises(IllFormed) as caught:
        table("c", i, j, values=[1, 2])
    assert caught.value.code == "NS305"


@pytest.mark.parametrize(
    "build", [lambda i: vector("x", i, cov=np.eye(3)), lambda i: table("x", i, values=[1, 2, 3])], ids=["cov", "table"]
)
def test_a_size_fits_the_arrays_that_were_given_before(build: Any) -> None:
    i = Plate("token").index("i")
    P = Program("p", x=build(i))
    assert P.at(token=3)["x"].free == (Index("i", Plate("token", 3)),)
    refused("NS305", P, {"token": 2}, "x")


def test_a_member_that_was_named_exists() -> None:
    P = Program("p", x=vector("x", Plate("token").index("i"))[5])
    assert P.at(token=6)["x"].slots[0].plate.extent == 6
    refused("NS302", P, {"token": 5}, "member 5 of plate token")


@pytest.mark.parametrize("name", ["", "1", "a b", None])
def test_names_are_identifiers(name: Any) -> None:
    for build in (param, table):
        with pytest.raises(IllFormed) as caught:
            build(name)
        assert caught.value.code == "NS309"
