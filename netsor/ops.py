"""What can stand at the root of a family of terms, and the record of a nonlinearity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from netsor.checks import Number, text_of


class Op:
    """What stands at the root of a family. Equal `identity` means equal meaning; `label` is the same without the tokens
    that tell two objects of one name apart, so that orders and random streams do not depend on them."""

    __slots__ = ()

    @property
    def identity(self) -> str:
        return repr(self)

    @property
    def label(self) -> str:
        return self.identity


class Generator(Op):
    """An operation that makes randomness, or averages it away: the rules of the Tensor Program."""

    __slots__ = ()


class Typical(Op):
    """An operation over the members of an infinite plate, which it sees through a typical one: the bound letter."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Average(Typical):
    """The average of a scalar over infinitely many independent members: its expectation over the scores of one."""


@dataclass(frozen=True, slots=True)
class Const(Op):
    value: Number


@dataclass(frozen=True, slots=True)
class Param(Op):
    """A named scalar; `value` None until it is bound."""

    name: str
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class Table(Op):
    """A named constant array over the plates of its own letters. `values` is a nested tuple, or None until bound."""

    name: str
    values: Any = None


@dataclass(frozen=True, slots=True)
class Compare(Op):
    """1 where the relation holds between two letters, else 0."""

    relation: str


@dataclass(frozen=True, slots=True)
class Offset(Op):
    """The difference i - j of the positions of two letters."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a function f grows: |f(x)| <= C (1 + |x|)^degree exp(rate |x|), with values in [low, high].

    tame     pseudo-Lipschitz: continuous, and piecewise C^1 with a derivative of polynomial growth
    trusted  said by nobody: taken on trust
    """

    degree: float = 1.0
    rate: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    tame: bool = True
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """sgn(x - at), or its average over noise: E sgn(x - at + sqrt(noise) N) = erf((x - at) / sqrt(2 noise))."""

    at: Number = 0
    noise: Number = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """number * x^power * exp(rate x - bend x^2) * gate * wave; wave: (True, f) for cos(f x), (False, f) for sin(f x).

    A function that is a sum of pieces has closed Gaussian expectations, alone and with others.
    """

    number: Number = 1
    power: int = 0
    rate: Number = 0
    bend: Number = 0
    gate: Gate | None = None
    wave: tuple[bool, Number] | None = None


@dataclass(frozen=True, slots=True)
class Fn:
    """A nonlinearity and what every interpreter must know of it.

    numpy    the function on arrays (for one along a plate: `f(x, mask, axis)`, mask None or 0/1)
    sympy    `sympy(module, *args)`: the expression, given the sympy module
    linear   positions of the arguments in which it is linear when the others are fixed
    features unary functions: (place, width), width 0 for a kink or jump, else the distance of the nearest pole
    jumps    places where a unary function is discontinuous
    singular values of the last argument at which the function is not finite or not continuous
    text, latex  templates of the printed form; None prints name(args)
    pieces   of which the function is the sum: their Gaussian expectations have closed forms
    growth   how it grows; or a function that makes of argument terms a term that grows in the same way
    """

    name: str
    numpy: Callable[..., Any] = field(compare=False)
    sympy: Callable[..., Any] | None = field(default=None, compare=False)
    arity: int | None = 1
    params: tuple[Number, ...] = ()
    linear: tuple[int, ...] = field(default=(), compare=False)
    features: tuple[tuple[float, float], ...] = field(default=(), compare=False)
    jumps: tuple[float, ...] = field(default=(), compare=False)
    singular: tuple[float, ...] = field(default=(), compare=False)
    text: str | None = field(default=None, compare=False)
    latex: str | None = field(default=None, compare=False)
    pieces: tuple[Piece, ...] = field(default=(), compare=False)
    token: bytes = b""
    growth: Growth | Callable[..., Any] = field(default=Growth(tame=False, trusted=True), compare=False)

    @property
    def label(self) -> str:
        return f"{self.name}{self.params}"

    @property
    def identity(self) -> str:
        return f"{self.label}{self.token.hex()}"

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(map(text_of, self.params))}]" if self.params else "")


@dataclass(frozen=True, slots=True)
class Map(Op):
    """A function of its arguments, coordinate by coordinate."""

    fn: Fn

    @property
    def identity(self) -> str:
        return f"Map({self.fn.identity})"

    @property
    def label(self) -> str:
        return f"Map({self.fn.label})"


@dataclass(frozen=True, slots=True)
class Along(Op):
    """A function along one plate, whose letter it binds. `keeps`: the result still has an entry a member (softmax)."""

    fn: Fn
    keeps: bool

    @property
    def identity(self) -> str:
        return f"Along({self.fn.identity}, {self.keeps})"

    @property
    def label(self) -> str:
        return f"Along({self.fn.label}, {self.keeps})"


ADD = Fn("add", lambda x, y: x + y, lambda sp, x, y: x + y, 2, linear=(0, 1), growth=Growth())
SUB = Fn("sub", lambda x, y: x - y, lambda sp, x, y: x - y, 2, linear=(0, 1), growth=Growth())
MUL = Fn("mul", lambda x, y: x * y, lambda sp, x, y: x * y, 2, linear=(0, 1), growth=Growth())
DIV = Fn("div", lambda x, y: x / y, lambda sp, x, y: x / y, 2, linear=(0,), singular=(0.0,), growth=Growth())
POW = Fn("pow", lambda x, y: x**y, lambda sp, x, y: x**y, 2, growth=Growth())
AND = Fn(
    "and", lambda x, y: x * y, lambda sp, x, y: x * y, 2, text="{} & {}", latex=r"{} \wedge {}", growth=Growth(0, low=0, high=1)
)
OR = Fn(
    "or",
    lambda x, y: x + y - x * y,
    lambda sp, x, y: x + y - x * y,
    2,
    text="{} | {}",
    latex=r"{} \vee {}",
    growth=Growth(0, low=0, high=1),
)
NOT = Fn("not", lambda x: 1 - x, lambda sp, x: 1 - x, 1, text="~({})", latex=r"\neg ({})", growth=Growth(0, low=0, high=1))
ABS = Fn(
    "abs",
    abs,
    lambda sp, x: sp.Abs(x),
    features=((0.0, 0.0),),
    text="|{}|",
    latex=r"\left|{}\right|",
    growth=Growth(low=0),
    pieces=(Piece(power=1, gate=Gate()),),
)
