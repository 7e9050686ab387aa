"""The printed limit read back: a parser of its text, and numbers from nothing but what it says.

Nothing here uses netsor.algebra or netsor.symbolic. A variable whose printed line is a law, `Z^g[i] ~ N(m, ·)`, is a Gaussian
atom with the printed covariance; atoms of two variables made by one matrix are correlated by the MatMul rule, read off the
listing of the program, and others are independent. Every other variable is what its printed equation makes of these. An
expectation of affine variables is a sum over pairings; any other is a trapezoid sum over at most two normal variables.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from calibrated import Deviates
from scipy.special import erf
from scipy.stats import multivariate_normal, norm

# ----------------------------------------------------------------------------------------------------------------- reading

Node = tuple[Any, ...]
SUPERSCRIPTS = {"²": 2, "³": 3, "⁴": 4}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {"≠": operator.ne, "<": operator.lt, "≤": operator.le}
LETTER = r"(?:\d+|[a-z]'*)"


class Unreadable(Deviates):
    """A text that the grammar does not have, or a name with another number of indices than where it is defined."""


@dataclass
class Parser:
    """Recursive descent: `|`, then `&`, then sums, then products by juxtaposition and `/`, then powers, as one reads."""

    text: str
    names: Sequence[str]  # variables, which may stand with an index below: x_i, t0_{i,j}
    at: int = 0

    def fail(self) -> Unreadable:
        return Unreadable(f"{self.text[: self.at]} >>> {self.text[self.at :]}")

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def need(self, pattern: str) -> re.Match[str]:
        found = self.take(pattern)
        if found is None:
            raise self.fail()
        return found

    def whole(self) -> Node:
        node = self.either()
        if self.at != len(self.text):
            raise self.fail()
        return node

    def either(self) -> Node:
        return self.chain(self.both, r" \| (?!p°)", "or")

    def both(self) -> Node:
        return self.chain(self.sum, " & ", "and")

    def chain(self, below: Callable[[], Node], between: str, name: str) -> Node:
        node = below()
        while self.take(between):
            node = ("fn", name, [node, below()])
        return node

    def sum(self) -> Node:
        terms = [("*", [("num", -1.0), self.product()]) if self.take("-") else self.product()]
        while found := self.take(r" ([+-]) "):
            terms.append(self.product() if found[1] == "+" else ("*", [("num", -1.0), self.product()]))
        return terms[0] if len(terms) == 1 else ("+", terms)

    def product(self) -> Node:
        if found := self.take(r"Σ_(?:\{([^}]*)\}|(" + LETTER + ")) "):
            return ("sum", (found[1] or found[2]).split(","), self.product())
        node = self.factor()
        while True:
            if self.take(" / "):
                node = ("/", node, self.factor())
            elif self.take(r" (?=Σ)"):
                return ("*", [node, self.product()])
            elif self.take(r" (?![-+|&/≤<≠=])"):
                node = ("*", [node, self.factor()])
            else:
                return node

    def factor(self) -> Node:
        node = self.atom()
        while found := self.take(r"([²³⁴])|\^\{(-?\d+(?:/\d+)?)\}"):
            node = ("^", node, Fraction(SUPERSCRIPTS[found[1]]) if found[1] else Fraction(found[2]))
        return node

    def atom(self) -> Node:
        names = "|".join(sorted(map(re.escape, self.names), key=len, reverse=True)) or "(?!)"
        if found := self.take(rf"({names})_(?:\{{([^}}]*)\}}|({LETTER}))(?![A-Za-z0-9_\[])"):
            return ("var", found[1], (found[2] or found[3]).split(","))
        if found := self.take(r"\d+(?:\.\d+)?(?:e-?\d+)?"):
            return ("num", float(found[0]) / float(self.need(r"\d+")[0] if self.take("/(?=\\d)") else 1))
        if self.take("√"):
            return ("^", self.factor(), Fraction(1, 2))
        if self.take("Z\\^\\("):
            matrix = self.variable()
            self.need(" ")
            node = ("product", matrix, self.factor())
        elif self.take("E\\["):
            return self.expectation()
        elif found := self.take(rf"δ\(({LETTER}),({LETTER})\)"):
            return ("delta", found[1], found[2])
        elif found := self.take(rf"\[({LETTER}) ([≠<≤]) ({LETTER})\]"):
            return ("rel", found[2], found[1], found[3])
        elif self.take("~\\("):
            node = ("fn", "not", [self.either()])
        elif self.take(r"\("):
            node = self.either()
        elif found := self.take(rf"(sum|max|softmax)_({LETTER})\("):
            body = self.either()
            mask = self.either() if self.take("; ") else None
            self.need(r"\)")
            kept = self.take(rf"\[{LETTER}=({LETTER})\]")
            return ("along", found[1], found[2], body, mask, kept[1] if kept else found[2])
        elif found := self.take(r"([a-z]+(?:\[[^\]]*\])?|Φ₂)\("):
            args = [self.either()]
            while self.take("[,;] "):
                args.append(self.either())
            node = ("fn", found[1], args)
        else:
            self.take("Z\\^")
            return self.variable()
        self.need(r"\)")
        return node

    def expectation(self) -> Node:
        node = self.either()
        self.need(r"( \| p°)?\]")
        return ("E", node)

    def variable(self) -> Node:
        found = self.need(r"([A-Za-zσπ][A-Za-z0-9_,]*'*)°?(?:\[([^\]]*)\])?")
        return ("var", found[1], found[2].split(",") if found[2] else [])


class Statement(NamedTuple):
    """One printed line: what it says (law, equation, Cov, k, E), of which variables, the value."""

    kind: str
    of: list[tuple[str, list[str]]]  # names and their letters
    value: Node


def statements(text: str, names: Sequence[str]) -> dict[str, list[Statement]]:
    """The lines of a limit by variable."""
    out: dict[str, list[Statement]] = {}
    lines = [line for line in text.splitlines()[1:] if not line.startswith("K_v:")]
    for line in lines:
        if not line.startswith(" "):
            here = out.setdefault(line.split("  ")[0], [])
        elif (found := statement(line.strip(), names)) is not None:
            here.append(found)
    return out


def statement(line: str, names: Sequence[str]) -> Statement | None:
    def read(text: str) -> Node:
        return Parser(text, names).whole()

    def of(text: str) -> list[tuple[str, list[str]]]:
        node = read(text)
        factors = node[1] if node[0] == "*" else [node, node] if node[0] == "^" and (node := node[1]) else [node]
        return [(x[1], x[2]) for x in factors]

    if re.search("by regression on|^V :=|^E V² =", line):
        return None
    if found := re.fullmatch(r"(\S+)(?: \| p°)? ~ N\((.*), ·\)", line):
        return Statement("law", of(found[1]), read(found[2]))
    if found := re.fullmatch(r"(Cov|k)\((\S+), (\S+)(?: \| p°)?\) = (.*)", line):
        return Statement(found[1], of(found[2]) + of(found[3]), read(found[4]))
    if found := re.fullmatch(r"E\[(.*?)(?: \| p°)?\] = (.*)", line):
        return Statement("E", of(found[1]), read(found[2]))
    left, right = line.split(" = ", 1)
    return Statement("equation", of(left), read(right))


# --------------------------------------------------------------------------------------------------------- random variables

Atom = tuple[str, tuple[int, ...]]


class NoIntegral(Exception):
    """More than two normal variables in a nonlinear expectation."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A function of affine variables. `affine`: constant under None, and coefficients of atoms, where it is affine."""

    affine: Mapping[Atom | None, float] | None
    inputs: Mapping[Any, Variable] = field(default_factory=dict)
    f: Callable[[Mapping[Any, Any]], Any] = lambda at: 0.0
    polynomial: bool = True

    __array_ufunc__ = None

    @property
    def below(self) -> Mapping[Any, Variable]:
        return self.inputs if self.affine is None else {self.key: self}

    @property
    def key(self) -> Any:
        assert self.affine is not None
        return frozenset(self.affine.items())

    def at(self, values: Mapping[Any, Any]) -> Any:
        return self.f(values) if self.affine is None else values[self.key]

    def __add__(self, other: Any) -> Variable:
        other = as_variable(other)
        if self.affine is None or other.affine is None:
            return applied(operator.add, [self, other])
        keys = {**self.affine, **other.affine}
        return Variable({k: self.affine.get(k, 0.0) + other.affine.get(k, 0.0) for k in keys})

    def __mul__(self, other: Any) -> Variable:
        if isinstance(other, Variable):
            return applied(operator.mul, [self, other])
        if self.affine is None:
            return applied(operator.mul, [self, as_variable(other)])
        return Variable({k: c * other for k, c in self.affine.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Variable:
        return self * (1 / other) if not isinstance(other, Variable) else applied(operator.truediv, [self, other])

    def __pow__(self, k: float) -> Variable:
        return reduce(operator.mul, [self] * int(k)) if k == int(k) and k > 0 else applied(lambda x: x**k, [self])


def as_variable(x: Any) -> Variable:
    return x if isinstance(x, Variable) else Variable({None: float(x)})


ARITHMETIC = (operator.add, operator.mul)


def applied(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """f of numbers, or of variables."""
    if not any(isinstance(a, Variable) for a in args):
        return f(*args)
    variables = [as_variable(a) for a in args]
    inputs = {k: v for a in variables for k, v in a.below.items()}
    polynomial = f in ARITHMETIC and all(a.polynomial for a in variables)
    return Variable(None, inputs, lambda at: f(*(a.at(at) for a in variables)), polynomial)


def power(x: Any, k: float) -> Any:
    """x^k; a root of what is negative by rounding is 0, and a negative power of it has no value."""
    if isinstance(x, float) and k != int(k) and -1e-12 < x < 1e-14:
        if k < 0:
            raise ZeroDivisionError
        return 0.0
    return x**k


def phi2(h: float, k: float, rho: float) -> float:
    if abs(rho) > 1 - 1e-12:
        return float(norm.cdf(min(h, k)) if rho > 0 else max(0.0, norm.cdf(h) - norm.cdf(-k)))
    return float(multivariate_normal.cdf([h, k], [0, 0], [[1, rho], [rho, 1]], abseps=1e-12, releps=1e-12))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda x, y: x * y,
    "or": lambda x, y: x + y - x * y,
    "not": lambda x: 1 - x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "clip[1]": lambda x: np.clip(x, -1, 1),
    "arccos": lambda x: np.arccos(np.clip(x, -1, 1)),
    "arcsin": lambda x: np.arcsin(np.clip(x, -1, 1)),
    "Φ₂": phi2,
}


def softmax(at: int, on: Sequence[bool]) -> Callable[..., Any]:
    def entry(*xs: Any) -> Any:
        weights = [np.exp(x) if keep else 0.0 * x for x, keep in zip(xs, on, strict=True)]
        return weights[at] / sum(weights) if any(on) else 0.0 * xs[0]

    return entry


# ------------------------------------------------------------------------------------------------------------------ values

Env = Mapping[str, int]
STEP, REACH = (1 / 64, 1 / 16), 9.0  # of the trapezoid sums over one and two normal variables


@dataclass
class Listing:
    """A printed limit with numbers for what it leaves open: sizes of plates, named constants, scores.

    plates: the size for each letter; constants: numbers and arrays by printed name; vectors: the names of vectors.
    drawn: the value, at members, of a variable that has a law: a score, and where `pointwise` a coordinate of a vector.
    inner: the value of an inner product without a name. acts: of a variable made by a matrix, its letters, the matrix
    with its letters, and what it acts on.
    """

    statements: dict[str, list[Statement]]
    plates: Mapping[str, int]
    constants: Mapping[str, Any]
    vectors: set[str]
    drawn: Callable[[str, tuple[int, ...]], float]
    inner: Callable[[Node, Node, Env], float]
    acts: Mapping[str, tuple[list[str], Node, Node]]
    pointwise: bool = False
    kinks: bool = False  # is there a function with kinks?
    rough: bool = False  # did a trapezoid sum of such a function contribute?
    _known: dict[Any, Any] = field(default_factory=dict)

    def forget(self) -> None:
        self._known.clear()
        self.rough = False

    def slot(self, letter: str, env: Env) -> int:
        if not letter.isdigit() and letter not in env:
            raise Unreadable(f"{letter} is not bound")
        return int(letter) if letter.isdigit() else env[letter]

    def size(self, letter: str) -> int:
        return self.plates[letter.rstrip("'")]

    def value(self, node: Node, env: Env) -> Any:
        """A number, or a Variable."""
        kind = node[0]
        if kind == "num":
            return node[1]
        if kind == "var":
            return self.variable(node[1], node[2], env)
        if kind == "+":
            return reduce(operator.add, [self.value(x, env) for x in node[1]])
        if kind == "*":
            return reduce(operator.mul, [self.value(x, env) for x in node[1]])
        if kind == "/":
            return self.value(node[1], env) / self.value(node[2], env)
        if kind == "^":
            return power(self.value(node[1], env), float(node[2]))
        if kind == "rel":
            return float(RELATIONS[node[1]](self.slot(node[2], env), self.slot(node[3], env)))
        if kind == "delta":
            return float(self.slot(node[1], env) == self.slot(node[2], env))
        if kind == "sum":
            return sum(self.value(node[2], {**env, **at}) for at in self.members(node[1]))
        if kind == "E":
            return self.mean(self.value(node[1], env))
        if kind == "along":
            return self.along(*node[1:], env)
        if kind == "fn" and node[1] == "dot":
            return self.inner(*node[2], env)
        if kind == "fn":
            return applied(FUNCTIONS[node[1]], [self.value(x, env) for x in node[2]])
        raise Unreadable(str(node))

    def members(self, letters: Sequence[str]) -> Iterable[dict[str, int]]:
        for at in product(*(range(self.size(x)) for x in letters)):
            yield dict(zip(letters, at, strict=True))

    def along(self, name: str, letter: str, body: Node, mask: Node | None, kept: str, env: Env) -> Any:
        places = [{**env, **at} for at in self.members([letter])]
        on = [mask is None or bool(self.value(mask, at)) for at in places]
        values = [self.value(body, at) if keep else 0.0 for at, keep in zip(places, on, strict=True)]
        if name == "softmax":
            return applied(softmax(self.slot(kept, env), on), values)
        kept_values = [x for x, keep in zip(values, on, strict=True) if keep]
        if name == "max":
            return applied(lambda *xs: reduce(np.maximum, xs), kept_values) if kept_values else 0.0
        return sum(kept_values)

    def variable(self, name: str, letters: Sequence[str], env: Env) -> Any:
        if name not in self.statements:
            return self.constant(name, letters, env)
        at = tuple(self.slot(x, env) for x in letters)
        if (name, at) not in self._known:
            self._known[name, at] = self.resolved(name, at)
        return self._known[name, at]

    def constant(self, name: str, letters: Sequence[str], env: Env) -> Any:
        if name in self.constants:
            value = self.constants[name]
            return float(np.asarray(value)[tuple(self.slot(x, env) for x in letters)])
        if len(letters) == 0 and name in env:
            return float(env[name])  # a letter, in a difference of positions
        if found := re.fullmatch("([mK])_(.*)", name):
            names = found[2].split(",") * (1 if found[1] == "m" or "," in found[2] else 2)
            share = len(letters) // len(names)
            counts = [share] * len(names) if len(set(names)) == 1 else [len(self.defined(n).of[0][1]) for n in names]
            parts, start = [], 0
            for n, count in zip(names, counts, strict=True):
                parts.append(as_variable(self.variable(n, letters[start : start + count], env)))
                start += count
            return self.mean(parts[0]) if len(parts) == 1 else self.covariance(*parts)
        raise Unreadable(name)

    def defined(self, name: str) -> Statement:
        return next(s for s in self.statements[name] if s.kind in ("law", "equation"))

    def resolved(self, name: str, at: tuple[int, ...]) -> Any:
        """The variable at members, through its printed line."""
        line = self.defined(name)
        [(_, letters)] = line.of
        if len(letters) != len(at):
            raise Unreadable(f"{name} has {len(at)} indices where it is used, and {len(letters)} where it is defined")
        if line.kind == "equation":
            return self.value(line.value, dict(zip(letters, at, strict=True)))
        return Variable({(name, at): 1.0}) if name in self.vectors and not self.pointwise else self.drawn(name, at)

    # ---- expectations

    def atom_mean(self, atom: Atom) -> float:
        name, at = atom
        line = self.defined(name)
        return float(self.value(line.value, dict(zip(line.of[0][1], at, strict=True))))

    def atom_covariance(self, x: Atom, y: Atom) -> float:
        """The printed one, and the MatMul rule across variables: sigma^2 E[x y] for one matrix and copy, else 0."""
        key = ("cov", x, y)
        if key not in self._known:
            self._known[key] = self._atom_covariance(x, y)
        return float(self._known[key])

    def _atom_covariance(self, x: Atom, y: Atom) -> float:
        if x[0] == y[0]:
            line = next(s for s in self.statements[x[0]] if s.kind == "Cov")
            (_, first), (_, second) = line.of
            return float(self.value(line.value, {**dict(zip(first, x[1])), **dict(zip(second, y[1]))}))  # noqa: B905
        if x[0] not in self.acts or y[0] not in self.acts:
            return 0.0
        args, copies = [], []
        for name, at in (x, y):
            letters, matrix, arg = self.acts[name]
            env = dict(zip(letters, at, strict=True))
            copies.append((matrix[1], [self.slot(s, env) for s in matrix[2]]))
            args.append(self.value(arg, env))
        if copies[0] != copies[1]:
            return 0.0
        sigma = float(self.constants[f"σ_{copies[0][0]}"])
        return sigma**2 * self.mean(args[0] * args[1])

    def covariance(self, x: Variable, y: Variable) -> float:
        assert x.affine is not None
        assert y.affine is not None
        pairs = product(x.affine.items(), y.affine.items())
        return sum(c * d * self.atom_covariance(a, b) for (a, c), (b, d) in pairs if a is not None and b is not None and c * d)

    def affine_mean(self, x: Variable) -> float:
        assert x.affine is not None
        return sum(c * (1.0 if a is None else self.atom_mean(a)) for a, c in x.affine.items() if c)

    def mean(self, x: Any) -> float:
        """E of a variable."""
        if not isinstance(x, Variable):
            return float(x)
        if x.affine is not None:
            return self.affine_mean(x)
        inputs = x.inputs
        means = np.array([self.affine_mean(u) for u in inputs.values()])
        cov = np.array([[self.covariance(u, w) for w in inputs.values()] for u in inputs.values()])
        cov = (cov + cov.T) / 2
        scale = max(float(np.trace(cov)), 1e-300)
        values, vectors = np.linalg.eigh(cov)
        if values.min() < -1e-9 * scale:
            raise AssertionError(f"a printed covariance is not positive: {values}")
        live = values > 1e-12 * scale
        root = vectors[:, live] * np.sqrt(values[live])
        rank = root.shape[1]
        if rank > len(STEP):
            raise NoIntegral
        self.rough |= self.kinks and not x.polynomial
        h = STEP[max(rank, 1) - 1]
        line = np.arange(-REACH, REACH + h / 2, h)
        weight = norm.pdf(line) * h
        z = np.array(np.meshgrid(*[line] * rank, indexing="ij")).reshape(rank, -1) if rank else np.zeros((0, 1))
        weights = reduce(np.multiply.outer, [weight] * rank).ravel() if rank else np.ones(1)
        at = dict(zip(inputs, means[:, None] + root @ z, strict=True))
        return float(np.sum(weights * x.at(at)))
