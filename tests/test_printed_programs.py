"""Random programs: the printed limit, read back as text, gives the numbers of the library (see printed.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from calibrated import Deviates, assert_detects
from hypothesis import given, settings
from printed import Env, Listing, Node, NoIntegral, Parser, Statement, Unreadable, statements
from strategies import Draft, programs
from sympy.core.function import AppliedUndef

from netsor import Plate, Program, dot, matrix, mean, relu, softmax, sum_over, vector
from netsor.algebra.poly import Poly
from netsor.algebra.scores import score_covariance
from netsor.infinite.coordinates import Coordinates
from netsor.infinite.engine import Engine, Sampling
from netsor.ir import Member, Term, postorder
from netsor.numeric.named import Named, extent
from netsor.numeric.streams import seed_of
from netsor.ops import Table
from netsor.rules.matmul import MatMul
from netsor.symbolic import reader, sympy_form
from netsor.symbolic.closed import ClosedForms
from netsor.symbolic.printing import ADD, ATOM, Text
from netsor.symbolic.sympy_form import letter
from netsor.symbolic.variable import EXPANSIONS, Expand
from netsor.symbolic.variable import Variable as Printable

ROUNDING = 1e-8  # of the largest number
KINKS = 3e-3  # trapezoid sums with steps of 1/16 over functions with kinks
MOST, FEW = 24, 4  # choices of members a line, a sympy form
LARGEST = 4096  # choices of members of a score without a name


class Printed:
    """A limit, its text, one run of its scores and one coordinate of its vectors in it."""

    def __init__(self, variables: dict[str, Term], expand: Expand = "E") -> None:
        program = Program("printed", **variables)
        self.limit, self.variables, self.expand = program.limit(), variables, expand
        roots = list(variables.values())
        vectors = [t for t in roots if t.width is not None]
        self.at, normals = next(iter(Engine(self.limit.moments).replicates(roots, Sampling(16, seed_of(0)), vectors)))
        self.draw = Coordinates(self.at, vectors, normals)
        self.families = postorder(*roots)
        self.arrays: dict[Any, np.ndarray] = {}
        names = list(variables)
        plates = {p: p.name[0] for f in self.families for p in (*f.plates, *f.bound)}
        letters = {i.name: extent(i.plate) for t in roots for i in t.free}
        text = self.limit.text(expand)
        common: dict[str, Any] = {
            "statements": statements(text, names),
            "plates": {letter: extent(p) for p, letter in plates.items()} | letters,
            "constants": self.constants(),
            "vectors": {n for n, t in variables.items() if t.width is not None},
            "inner": self.inner,
            "acts": acts(str(program), names),
            "kinks": bool(re.search("relu|clip|max", text)),
        }
        self.pointwise = Listing(**common, drawn=self.drawn, pointwise=True)
        self.law = Listing(**common, drawn=self.drawn)

    # ---- what the text leaves open

    def constants(self) -> dict[str, Any]:
        values = {re.sub("^sigma_", "σ_", name): value for name, value in self.limit.values.items()}
        tables = {f.op.name: f.op.values for f in self.families if isinstance(f.op, Table)}
        return {"π": np.pi, **values, **tables}

    def array(self, term: Term) -> np.ndarray:
        if term not in self.arrays:
            self.arrays[term] = self.entries(self.draw.value(term), term)
        return self.arrays[term]

    @staticmethod
    def entries(value: Named, *terms: Term) -> np.ndarray:
        """Over the letters of the terms, one after the other, in the first run, at the first coordinate."""
        return value.full([i for t in terms for i in t.free])[..., 0, 0]

    def drawn(self, name: str, at: tuple[int, ...]) -> float:
        return float(self.array(self.variables[name])[at])

    def inner(self, left: Node, right: Node, env: Env) -> float:
        """The value of a score without a name; outside its own mask it is not used, and 0."""
        if "scores" not in self.arrays:
            self.arrays["scores"] = np.array(dict(self.scores()), dtype=object)
        return float(self.arrays["scores"].item().get((self.key(left, env), self.key(right, env)), 0.0))

    def scores(self) -> Iterator[tuple[Any, float]]:
        """Of all members of the scores that are drawn, inside their masks."""
        for term in (term for stage in self.at.plan.stages for term in stage):
            sizes = [range(extent(i.plate)) for i in term.free]
            if np.prod([len(s) for s in sizes]) > LARGEST:
                raise NoIntegral
            values = self.array(term)
            for at in product(*sizes):
                here = placed(term, at)
                if all(self.at.value(mask).data.all() for mask in here.args[2:]):
                    yield tuple(key(x) for x in here.args[:2]), float(values[at])

    def key(self, node: Node, env: Env) -> Any:
        """The factor of an inner product: Z^(W x) or a variable."""
        if node[0] == "product":
            _, matrix, arg = node
            return matrix[1], tuple(self.law.slot(s, env) for s in matrix[2]), self.key(arg, env)
        if node[0] != "var":
            raise Unreadable(str(node))
        _, name, letters = node
        if len(letters) != len(self.variables[name].free):
            raise Unreadable(f"{name} with {len(letters)} indices")
        return key(placed(self.variables[name], tuple(self.law.slot(s, env) for s in letters)))

    # ---- the laws

    def check(self) -> int:
        """Every line; how many numbers were compared."""
        return sum(self.check_line(name, line) for name, lines in self.law.statements.items() for line in lines)

    def check_line(self, name: str, line: Statement) -> int:
        self.law.forget()
        count = 0
        for env in islice(self.members(line), MOST):
            try:
                pairs = list(self.pairs(name, line, env))
            except NoIntegral:
                continue
            except ZeroDivisionError:  # a closed form is a limit where inputs coincide
                if self.expand == "E":
                    raise
                continue
            if self.at.sampled:  # a number of the library came from random points
                return count
            for printed, number in pairs:
                close(printed, number, self.law.rough, f"{name}, {line.kind} at {env}")
            count += len(pairs)
        return count

    def members(self, line: Statement) -> Iterator[dict[str, int]]:
        letters = list(dict.fromkeys(s for _, slots in line.of for s in slots if not s.isdigit()))
        sizes = [self.law.size(s) for s in letters]
        total = int(np.prod(sizes))
        for k in range(0, total, 1 + total // MOST):
            yield dict(zip(letters, map(int, np.unravel_index(k, sizes)), strict=True)) if letters else {}

    def pairs(self, name: str, line: Statement, env: Env) -> Iterator[tuple[float, float]]:
        """Printed numbers, and those of the library."""
        at = [tuple(self.law.slot(s, env) for s in letters) for _, letters in line.of]
        terms = [self.variables[n] for n, _ in line.of]
        if any(len(a) != len(t.free) for a, t in zip(at, terms, strict=True)):
            raise Unreadable(f"{name}: {line.of}")
        if line.kind == "equation":
            listing = self.pointwise if terms[0].width is not None else self.law
            yield float(listing.value(line.value, env)), self.drawn(name, at[0])
            if terms[0].width is not None and self.expand == "E":
                x = self.law.variable(name, [str(k) for k in at[0]], {})
                other = self.law.variable(name, [str(0) for k in at[0]], {})
                yield self.law.mean(x), self.expectation(terms, at)
                yield self.law.mean(x * other), self.expectation(terms * 2, [at[0], (0,) * len(at[0])])
            return
        printed = float(self.law.value(line.value, env))
        if line.kind in ("law", "E"):
            if terms[0].width is not None:
                yield printed, self.expectation(terms, at)
            return
        yield printed, self.covariance(terms, at)
        if terms[0].width is not None:
            x, y = (self.law.variable(n, [str(k) for k in a], {}) for (n, _), a in zip(line.of, at, strict=True))
            with suppress(NoIntegral):
                yield self.law.mean(x * y) - self.law.mean(x) * self.law.mean(y), printed

    def expectation(self, terms: list[Term], at: list[tuple[int, ...]]) -> float:
        members = [placed(t, a) for t, a in zip(terms, at, strict=True)]
        return self.number(self.limit.moments.expect(*members))

    def covariance(self, terms: list[Term], at: list[tuple[int, ...]]) -> float:
        if terms[0].width is None:
            x, y = (placed(t, a) for t, a in zip(terms, at, strict=True))
            return self.number(score_covariance(self.limit.moments, x, y))
        means = [self.expectation([t], [a]) for t, a in zip(terms, at, strict=True)]
        return self.expectation(terms, at) - means[0] * means[1]

    def number(self, poly: Poly) -> float:
        return float(self.at.poly(poly, ()).data[..., 0, 0])


class Expressions(Printed):
    """The same for the sympy forms: symbols of a formula read by their names."""

    def check(self) -> int:
        return sum(self.check_formula(*found) for name in self.variables for found in self.formulas(name))

    def formulas(self, name: str) -> Iterator[tuple[Any, Statement]]:
        """With a statement that says of what, for Printed.pairs: its value is not used."""
        variable, term = self.limit[name], self.variables[name]
        own, primed = ([str(i) for i in t.free] for t in (term, variable.primed))
        if variable.rule in ("LinComb", "Nonlin", "Mean"):
            yield variable.sympy, Statement("equation", [(name, own)], ("num", 0.0))
        if term.width is not None:
            yield variable.mean, Statement("law", [(name, own)], ("num", 0.0))
        if variable.cov is not None:
            yield variable.cov, Statement("Cov", [(name, own), (name, primed)], ("num", 0.0))

    def check_formula(self, formula: Any, line: Statement) -> int:
        self.law.forget()
        count = 0
        for env in islice(self.members(line), FEW):
            try:
                listing = self.pointwise if line.kind == "equation" and line.of[0][0] in self.law.vectors else self.law
                value = self.evaluated(formula, env, listing)
                _, number = next(self.pairs(line.of[0][0], line, env))
            except NoIntegral:
                continue
            if self.at.sampled:
                return count
            close(value, number, self.law.rough, f"{formula} at {env}")
            count += 1
        return count

    def evaluated(self, formula: Any, env: Env, listing: Listing) -> float:
        if formula.atoms(AppliedUndef):
            raise NoIntegral  # max, an inner product: a name, and no formula
        sizes = {s: v for s in formula.free_symbols if s.is_integer and (v := self.limit.values.get(s.name))}
        at = formula.subs(sizes).subs({letter(k): sp.Integer(v) for k, v in env.items()}, simultaneous=True).doit()
        leaves = {s: self.symbol(str(s.base.label), tuple(map(int, s.indices)), listing) for s in at.atoms(sp.Indexed)}
        at = at.xreplace({s: sp.Float(v, 17) for s, v in leaves.items()})
        return float(at.xreplace({s: sp.Float(self.symbol(s.name, (), listing), 17) for s in at.free_symbols}))

    def symbol(self, name: str, at: tuple[int, ...], listing: Listing) -> float:
        """x[0,1]; E[x*y][0,1], with the indices of its factors one after the other; another E[..] by its letters, sorted."""
        indices = list(map(str, at))
        if found := re.fullmatch(r"E\[((?:\w+\*)*\w+)\]", name):
            value: Any = 1.0
            for x in found[1].split("*"):
                count = len(self.variables[x].free)
                value, indices = self.law.variable(x, indices[:count], {}) * value, indices[count:]
            return float(self.law.mean(value))
        if name.startswith("E["):
            node = Parser(name, list(self.variables)).whole()
            return float(self.law.value(node, dict(zip(sorted(free(node)), at, strict=True))))
        plain = re.sub("^sigma_", "σ_", name.removeprefix("Z^"))
        return float(listing.variable(plain, indices, {}))


def free(node: Any) -> set[str]:
    """The letters of what is read, without those that are bound."""
    if not isinstance(node, tuple | list):
        return set()
    if isinstance(node, tuple) and node and node[0] in ("var", "delta", "rel"):
        found = {"var": node[2:], "delta": [node[1:]], "rel": [node[2:]]}[node[0]]
        return {s for group in found for s in group if not s.isdigit()}
    inner = set().union(*map(free, node)) if node else set()
    if isinstance(node, tuple) and node and node[0] == "sum":
        return inner - set(node[1])
    return inner - {node[2]} | {node[5]} if isinstance(node, tuple) and node and node[0] == "along" else inner


def placed(term: Term, at: tuple[int, ...]) -> Term:
    return term.at({i: Member(i.plate, k) for i, k in zip(term.free, at, strict=True)})


def key(term: Term) -> Any:
    """What a term of members is, whatever pattern of letters its family has."""
    if isinstance(term.op, MatMul):
        return term.op.matrix.name, tuple(s.at for s in term.own if isinstance(s, Member)), key(term.args[0])
    return term.op.identity, tuple(map(str, term.own)), tuple(map(key, term.args))


def acts(listing: str, names: list[str]) -> dict[str, tuple[list[str], Node, Node]]:
    """g[i] = W[a] @ x[j] of the listing of a program: the letters of g, the matrix, the vector."""
    out = {}
    for line in listing.splitlines()[1:]:
        left, right = line.strip().split(" = ", 1)
        if found := re.fullmatch(r"(\S+) @ (\S+)", right):
            (_, name, letters), matrix, arg = (Parser(text, names).whole() for text in (left, *found.groups()))
            out[name] = (letters, matrix, arg)
        elif re.fullmatch(r"\w+(\[\S*\])?", right):
            (_, name, letters), (_, other, slots) = (Parser(text, names).whole() for text in (left, right))
            if other in out:  # another name for the same
                renamed = dict(zip(out[other][0], slots, strict=True))
                out[name] = (letters, *(instance(node, renamed) for node in out[other][1:]))
    return out


def instance(node: Node, to: dict[str, str]) -> Node:
    _, name, letters = node
    return "var", name, [to.get(s, s) for s in letters]


def close(printed: float, number: float, rough: bool, what: str) -> None:
    allowed = (KINKS if rough else ROUNDING) * max(1.0, abs(number))
    if not abs(printed - number) <= allowed:
        raise Deviates(f"{what}: {printed:.10g} printed, {number:.10g} computed")


# -------------------------------------------------------------------------------------------------------------------- laws


def check_printed(variables: dict[str, Term]) -> None:
    """Everything printed, in all three ways to write expectations, is the number."""
    for expand in EXPANSIONS:
        Printed(variables, expand).check()


@settings(max_examples=12)
@given(programs(statements=5))
def test_printed_limits_are_the_numbers(draft: Draft) -> None:
    check_printed(draft.variables)


def check_expressions(variables: dict[str, Term]) -> None:
    """The sympy form of every definition, mean and covariance is the number."""
    Expressions(variables).check()


@settings(max_examples=6)
@given(programs(statements=5))
def test_sympy_forms_are_the_numbers(draft: Draft) -> None:
    check_expressions(draft.variables)


@pytest.mark.nightly
@given(programs(statements=8))
def test_sympy_forms_of_more_programs(draft: Draft) -> None:
    check_expressions(draft.variables)


@pytest.mark.nightly
@given(programs(statements=8))
def test_printed_limits_of_more_programs(draft: Draft) -> None:
    check_printed(draft.variables)


# ----------------------------------------------------------------------------------------------------------------- mutants

i, j = Plate("token", 2).indices("i j")
a = Plate("head", 2).index("a")


def layer() -> dict[str, Term]:
    """Two matrices on one vector, heads, a masked sum, an average, a kink."""
    x = vector("x", i, mean=0.5)
    W, V = matrix("W", a, sigma=2), matrix("V")
    g = W @ x
    h = relu(g)
    p = dot(matrix("Q", a, sigma=3) @ g, matrix("K", a) @ g[a, j])
    A = softmax(p, over=j, where=j <= i)
    first = sum_over(x * (~(i < i) | (i <= 0)), i)
    y = x + sum_over(A * g[a, j], j) - 2 * (V @ x)
    return {
        "x": x,
        "g": g,
        "u": V @ x,
        "h": h,
        "p": p,
        "A": A,
        "y": y,
        "first": first,
        "t": g[a, 0] + x,
        "m": mean(h * h[a, j]),
    }


Mutant = Callable[[pytest.MonkeyPatch], None]


def last_term_dropped(patch: pytest.MonkeyPatch) -> None:
    """Of every sum."""
    right = reader.plus
    patch.setattr(reader, "plus", lambda terms: right(terms[:-1] or terms))


def one_letter_for_two(patch: pytest.MonkeyPatch) -> None:
    """x_{i,j} written x_{i,i}."""
    right = Text.subscripted
    patch.setattr(Text, "subscripted", lambda self, name, at: right(self, name, at[:1] * len(at)))


def letters_without_primes(patch: pytest.MonkeyPatch) -> None:
    """In expectations."""
    right = Text.subscripted
    patch.setattr(Text, "subscripted", lambda self, name, at: right(self, name, tuple(s.strip("'") for s in at)))


def delta_of_one_letter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Text, "kronecker", lambda self, left, right: f"δ({left},{left})")


def variance_without_square(patch: pytest.MonkeyPatch) -> None:
    """σ for σ²."""
    patch.setattr(reader, "Power", lambda base, exponent: base)


def members_as_indices(patch: pytest.MonkeyPatch) -> None:
    """t[a,0] for t = g[a,0], which has one index where it is used."""
    right = Printable.symbol

    def symbol(self: Printable, term: Term | None = None) -> Any:
        return replace(right(self, term), indices=tuple(map(str, (self.term if term is None else term).slots)))

    patch.setattr(Printable, "symbol", symbol)


def operators_without_parentheses(patch: pytest.MonkeyPatch) -> None:
    """`A | B x` for (A | B) x."""
    right = Text.parts

    def parts(self: Text, tree: Any) -> tuple[str, int]:
        text, own = right(self, tree)
        return text, ATOM if own < ADD else own

    patch.setattr(Text, "parts", parts)


def masks_not_printed(patch: pytest.MonkeyPatch) -> None:
    right = Text.reduce
    patch.setattr(Text, "reduce", lambda self, name, letter, body, mask, at: right(self, name, letter, body, None, at))


def a_closed_form_of_another_pair(patch: pytest.MonkeyPatch) -> None:
    """K_x[i,i] for K_x[i,k] in closed forms."""
    right = ClosedForms.stands_for
    patch.setattr(ClosedForms, "stands_for", lambda self, reader, of, env: right(self, reader, (of[0],) * len(of), env))


@pytest.mark.parametrize(
    "mutant",
    [
        last_term_dropped,
        one_letter_for_two,
        letters_without_primes,
        delta_of_one_letter,
        variance_without_square,
        members_as_indices,
        operators_without_parentheses,
        masks_not_printed,
        a_closed_form_of_another_pair,
    ],
)
def test_a_mutant_prints_another_number(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    check_printed(layer())
    mutant(monkeypatch)
    assert_detects(check_printed, layer())


def sums_one_short(patch: pytest.MonkeyPatch) -> None:
    """From 0 to size - 2."""
    right = sympy_form.size
    patch.setattr(sympy_form, "size", lambda plate: right(plate) - 1)


def indices_exchanged(patch: pytest.MonkeyPatch) -> None:
    """x[j,i] for x[i,j]."""
    right = sympy_form.named
    patch.setattr(sympy_form, "named", lambda name, indices: right(name, indices[::-1]))


def softmax_over_nobody(patch: pytest.MonkeyPatch) -> None:
    """0/0 where a mask leaves nobody."""
    right = sp.KroneckerDelta
    patch.setattr(sp, "KroneckerDelta", lambda i, k: sp.Integer(0) if k == 0 else right(i, k))


@pytest.mark.parametrize("mutant", [last_term_dropped, sums_one_short, indices_exchanged, softmax_over_nobody])
def test_a_mutant_makes_another_expression(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    x = vector("x", i)
    p = dot(matrix("Q", a) @ x, matrix("K", a) @ x[j])
    program = {"x": x, "p": p, "y": x + sum_over(p * x[j], j), "A": softmax(p, over=j, where=j < i)}
    check_expressions(program)
    mutant(monkeypatch)
    assert_detects(check_expressions, program)
