"""Terms: a closed family of the computation graph and the slots its letters are put into.

    term   ::= family[slot, ...]          slot ::= index | member
    family ::= op(child family wired to letters, ...)

A family knows its children by a wiring of its own letters (and of the letters it binds), so indexing a term replaces
slots and copies nothing, alpha-equivalent terms share one family, and no letter can be captured. Families are identified
by a structural digest; every interpreter keys its caches by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from itertools import count
from typing import Any, TypeAlias

from netsor.checks import identifier, index_error, number, symbolic, whole
from netsor.errors import IllFormed, NoRule, caller
from netsor.ops import (
    ABS,
    ADD,
    AND,
    DIV,
    MUL,
    NOT,
    OR,
    POW,
    SUB,
    Along,
    Compare,
    Const,
    Fn,
    Map,
    Offset,
    Op,
    Param,
    Table,
)

# --------------------------------------------------------------------------------------------------------- letters


@dataclass(frozen=True, slots=True)
class Plate:
    """A finite axis along which a program repeats itself: tokens, heads.

    `extent` None: the size stays open until it is bound. `symbol` is how formulas write the size. `infinite`: the limit
    of infinitely many members has been taken.
    """

    name: str
    extent: int | None = None
    symbol: str | None = None
    infinite: bool = False
    code: int = field(init=False, repr=False, compare=False)  # the hash: letters are looked up everywhere

    def __post_init__(self) -> None:
        identifier(self.name, "a plate")
        object.__setattr__(self, "code", hash(self.name))
        if self.symbol is not None:
            symbolic(self.symbol, "the size of a plate")
        if self.extent is None:
            return
        if getattr(self.extent, "is_infinite", False) or (isinstance(self.extent, float) and self.extent == float("inf")):
            raise NoRule(
                "NS203",
                statement=f"Plate({self.name!r}, oo)",
                hypothesis="a program is written for a plate of any size, and its limit taken afterwards",
                consequence="a sum over infinitely many members has no meaning before that",
                repair=f"write Plate({self.name!r}) and take the limit with P.at({self.name}=oo)",
            )
        size = whole(self.extent)
        if size is None or size < 1:
            raise IllFormed(
                "NS306",
                statement=f"Plate({self.name!r}, {self.extent!r})",
                hypothesis="the size of a plate is a positive integer, or None for a symbol",
                repair=f"write Plate({self.name!r}, 4), or Plate({self.name!r}) and bind it with P.at({self.name}=4)",
            )
        object.__setattr__(self, "extent", size)

    @property
    def size(self) -> Term:
        """The size as a scalar term: it prints as a symbol, and never is a Python number inside a program."""
        return make(Size(self))

    def index(self, name: str) -> Index:
        identifier(name, "an index")
        return Index(name, self)

    def indices(self, names: str) -> list[Index]:
        """Several letters at once: `i, j = token.indices("i j")`."""
        if not isinstance(names, str):
            identifier(names, "an index")
        return [self.index(name) for name in names.split()]

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return self.code

    def __reduce__(self) -> tuple[Any, ...]:
        return Plate, (self.name, self.extent, self.symbol, self.infinite)


class Letter:
    """What may stand in a slot. Comparisons and differences of letters are scalar terms (masks, relative positions)."""

    __slots__ = ()
    plate: Plate

    def __lt__(self, other: Letter | int) -> Term:
        return compare("<", self, other)

    def __le__(self, other: Letter | int) -> Term:
        return compare("<=", self, other)

    def __gt__(self, other: Letter | int) -> Term:
        return compare("<", other, self)

    def __ge__(self, other: Letter | int) -> Term:
        return compare("<=", other, self)

    def __sub__(self, other: Letter | int) -> Term:
        return make(Offset(), own=letters_of("-", self, other))


@dataclass(frozen=True, slots=True)
class Index(Letter):
    """A letter that runs over a plate."""

    name: str
    plate: Plate
    code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.startswith(("#", "@"))):  # letters of the interpreters
            identifier(self.name.rstrip("'") if isinstance(self.name, str) else self.name, "an index")
        if not isinstance(self.plate, Plate):
            raise not_a_plate(f"Index({self.name!r}, {self.plate!r})", "Plate('token', 4).index('i')")
        object.__setattr__(self, "code", hash((self.name, self.plate)))

    def __hash__(self) -> int:
        return self.code

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, (self.name, self.plate)

    @property
    def prime(self) -> Index:
        return Index(self.name + "'", self.plate)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Member(Letter):
    """One concrete member of a plate, counted from 0."""

    plate: Plate
    at: int

    def __post_init__(self) -> None:
        at = whole(self.at)
        if not isinstance(self.plate, Plate):
            raise not_a_plate(f"Member({self.plate!r}, {self.at!r})", "x[0], or Member(Plate('token', 4), 0)")
        if at is None:
            raise index_error(f"{self.at!r}", "a member of a plate is named by an integer", "write x[0]")
        object.__setattr__(self, "at", at)
        if self.at < 0 or (self.plate.extent is not None and self.at >= self.plate.extent):
            raise index_error(
                f"member {self.at} of plate {self.plate}",
                f"members of {self.plate} are counted from 0 to {(self.plate.extent or 0) - 1}"
                if self.plate.extent
                else "members are counted from 0",
                "name a member that exists",
            )

    def __str__(self) -> str:
        return str(self.at)


Slot: TypeAlias = Index | Member


@dataclass(frozen=True, slots=True)
class Width:
    """A dimension that goes to infinity: ratio * n. Two widths with one name keep their ratio in the limit."""

    name: str = "n"
    ratio: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        identifier(self.name, "a width")
        if isinstance(self.ratio, bool) or not isinstance(self.ratio, int | Fraction) or self.ratio <= 0:
            raise ratio_error(f"Width({self.name!r}, {self.ratio!r})")

    def __rmul__(self, ratio: int | Fraction) -> Width:
        if isinstance(ratio, bool) or not isinstance(ratio, int | Fraction) or ratio <= 0:
            raise ratio_error(f"{ratio!r} * {self}")
        return Width(self.name, self.ratio * Fraction(ratio))

    __mul__ = __rmul__

    def at(self, n: int) -> int:
        """The number of coordinates at base width n."""
        size = self.ratio * n
        if size.denominator != 1 or size < 1:
            raise IllFormed(
                "NS303",
                statement=f"{self} at {self.name} = {n}",
                hypothesis="a width is a whole number of coordinates",
                repair=f"choose a multiple of {self.ratio.denominator}",
            )
        return int(size)

    def __str__(self) -> str:
        return self.name if self.ratio == 1 else f"{self.ratio} {self.name}"


@dataclass(frozen=True, slots=True)
class Size(Op):
    """The number of members of a plate."""

    plate: Plate


# ------------------------------------------------------------------------------------------------------------ terms


def ratio_error(statement: str) -> IllFormed:
    return IllFormed(
        "NS306",
        statement=statement,
        hypothesis="the ratio of two widths is a positive rational number",
        repair="write 4 * n, or Fraction(1, 2) * n",
    )


class Function(Fn):
    """A nonlinearity that can be called on terms."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Term:
        return apply(self, *args)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One closed piece of a program, the same for every choice of letters.

    own       positions of the letters that stand at the root itself (a matrix per head, the entry of a softmax)
    children  (family, positions of its letters among this family's letters followed by the bound ones)
    plates    the plate of each letter;  bound  the plate of each letter bound here
    width     None for a scalar, else the dimension of the vector
    key       structural digest, the identity;  order  the same digest without object tokens, for sorting and streams
    origin    where the user first wrote it
    """

    op: Op
    own: tuple[int, ...]
    children: tuple[tuple[Family, tuple[int, ...]], ...]
    plates: tuple[Plate, ...]
    bound: tuple[Plate, ...]
    width: Width | None
    key: bytes
    order: bytes
    origin: tuple[str, int] | None

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self.key == other.key

    def __repr__(self) -> str:
        return f"<family {self.op.label} {self.order.hex()[:6]}>"


@dataclass(frozen=True, slots=True)
class Term:
    """A family with its letters put into slots."""

    __array_ufunc__ = None  # an array beside a term asks the term, and is refused

    family: Family
    slots: tuple[Slot, ...] = ()

    @property
    def op(self) -> Op:
        return self.family.op

    @property
    def width(self) -> Width | None:
        return self.family.width

    @property
    def free(self) -> tuple[Index, ...]:
        return free_of(self.slots)

    @property
    def own(self) -> tuple[Slot, ...]:
        return tuple(self.slots[k] for k in self.family.own)

    @property
    def args(self) -> tuple[Term, ...]:
        return self.open()[1]

    def open(self) -> tuple[tuple[Index, ...], tuple[Term, ...]]:
        """The letters bound at the root, named apart from the free ones, and the children under them."""
        bound = fresh_letters(self.family.bound, self.slots)
        full = self.slots + bound
        return bound, tuple(Term(child, tuple(full[k] for k in wires)) for child, wires in self.family.children)

    def at(self, to: Mapping[Slot, Slot]) -> Term:
        """Simultaneous replacement of letters."""
        return Term(self.family, tuple(to.get(s, s) for s in self.slots)) if self.slots else self

    def __getitem__(self, where: Any) -> Term:
        return self.at(reindex(self.free, where, f"a term with indices [{', '.join(map(str, self.slots))}]"))

    def __bool__(self) -> bool:
        raise IllFormed(
            "NS307",
            hypothesis="a term has no truth value while the program is written: it is a formula, not a number",
            repair="use `where=` with a predicate such as j <= i or distinct(i, j); combine with & | ~",
        )

    def __iter__(self) -> Iterator[Term]:
        raise IllFormed("NS309", hypothesis="a term is not a sequence", repair="index it: x[i], x[0]")

    def __add__(self, other: Any) -> Term:
        return apply(ADD, self, other)

    def __radd__(self, other: Any) -> Term:
        return apply(ADD, other, self)

    def __sub__(self, other: Any) -> Term:
        return apply(SUB, self, other)

    def __rsub__(self, other: Any) -> Term:
        return apply(SUB, other, self)

    def __mul__(self, other: Any) -> Term:
        return apply(MUL, self, other)

    def __rmul__(self, other: Any) -> Term:
        return apply(MUL, other, self)

    def __truediv__(self, other: Any) -> Term:
        return apply(DIV, self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return apply(DIV, other, self)

    def __pow__(self, other: Any) -> Term:
        return apply(POW, self, other)

    def __rpow__(self, other: Any) -> Term:
        return apply(POW, other, self)

    def __neg__(self) -> Term:
        return apply(MUL, -1, self)

    def __matmul__(self, other: Any) -> Term:
        raise IllFormed(
            "NS309",
            statement="a term @ something",
            hypothesis="only a matrix(...) multiplies a vector; two vectors make a score",
            repair="write W @ x, or dot(x, y)",
        )

    __rmatmul__ = __matmul__

    def __abs__(self) -> Term:
        return apply(ABS, self)

    def __and__(self, other: Term) -> Term:
        return apply(AND, mask(self), mask(other))

    def __or__(self, other: Term) -> Term:
        return apply(OR, mask(self), mask(other))

    def __invert__(self) -> Term:
        return apply(NOT, mask(self))


def make(
    op: Op,
    own: Sequence[Slot] = (),
    children: Sequence[Term] = (),
    bound: Sequence[Index] = (),
    width: Width | None = None,
    letters: Sequence[Slot] = (),
    origin: tuple[str, int] | None = None,
) -> Term:
    """The term with `op` at its root. Letters come in declared order: `letters`, then `own`, then the children's."""
    slots = tuple(dict.fromkeys(s for s in (*letters, *own, *(s for c in children for s in c.slots)) if s not in bound))
    position: dict[Slot, int] = {s: k for k, s in enumerate((*slots, *bound))}
    wires = tuple((c.family, tuple(position[s] for s in c.slots)) for c in children)
    at = tuple(position[s] for s in own)
    shape = (at, [s.plate for s in slots], [b.plate for b in bound], width, [w for _, w in wires])
    key = blake2b(repr((op.identity, shape)).encode() + b"".join(f.key for f, _ in wires), digest_size=16)
    order = blake2b(repr((op.label, shape)).encode() + b"".join(f.order for f, _ in wires), digest_size=16)
    plates, over = tuple(s.plate for s in slots), tuple(b.plate for b in bound)
    return Term(Family(op, at, wires, plates, over, width, key.digest(), order.digest(), origin or caller()), slots)


def apply(fn: Fn, *args: Any) -> Term:
    """fn of its arguments: coordinatewise on vectors, entry by entry on scalars; scalars broadcast."""
    terms = [lift(a) for a in args]
    if fn == DIV and len(terms) == 2 and isinstance(terms[1].op, Const) and not terms[1].op.value:
        raise IllFormed("NS306", statement="a division by 0", hypothesis="0 has no inverse", repair="divide by something else")
    if fn.arity is not None and len(terms) != fn.arity:
        raise IllFormed(
            "NS309",
            statement=f"{fn.name} of {len(terms)} arguments",
            hypothesis=f"{fn.name} takes {fn.arity}",
            repair=f"give {fn.name} {fn.arity} argument{'s' if fn.arity != 1 else ''}",
        )
    return make(Map(fn), children=terms, width=common_width(fn.name, *terms))


def along(fn: Fn, arg: Term, over: Index, keeps: bool, where: Any = None) -> Term:
    """fn along the letter `over` of arg, which it binds; `where` restricts it to the members for which it is 1."""
    children = [lift(arg)] if where is None else [lift(arg), mask(where)]
    if over not in children[0].slots:
        raise index_error(
            f"{fn.name} over {over}",
            f"the argument has indices [{', '.join(map(str, children[0].slots))}], and {over} is not among them",
            "reduce over an index of the argument; t[j] renames its one index over j's plate to j",
        )
    body = Index("#", over.plate)
    letters = dict.fromkeys(s for c in children for s in c.slots if s != over or keeps)
    opened = [c.at({over: body}) for c in children]
    return make(Along(fn, keeps), (over,) if keeps else (), opened, (body,), children[0].width, tuple(letters))


def lift(value: Any) -> Term:
    """A term as it is; a number as a constant."""
    if isinstance(value, Term):
        return value
    return make(Const(number(value)))


def mask(value: Any) -> Term:
    """A predicate over letters, for `where=`."""
    if (
        isinstance(value, Term)
        and value.width is None
        and all(
            isinstance(f.op, Compare | Const | Offset | Size | Param | Table)
            or (isinstance(f.op, Map) and f.op.fn in (AND, OR, NOT))
            for f in postorder(value)
        )
    ):
        return value
    shown = f"where={value!r}" if isinstance(value, bool) else "where="
    raise IllFormed(
        "NS307",
        statement=shown,
        hypothesis="a mask is a predicate over indices; i == j and i != j are Python's own comparison of two names, "
        "and give a bool at once",
        repair="write where=distinct(i, j), where=~distinct(i, j), or where=j <= i; combine with & | ~",
    )


def compare(relation: str, left: Any, right: Any) -> Term:
    return make(Compare(relation), own=letters_of(relation, left, right))


def distinct(i: Index | int, j: Index | int) -> Term:
    """1 where the two members differ, else 0."""
    return compare("!=", i, j)


def letters_of(relation: str, left: Any, right: Any) -> tuple[Slot, Slot]:
    """Two letters over one plate; an integer is a member of the other's plate."""
    if isinstance(right, Index | Member) and isinstance(left, int):
        left = Member(right.plate, left)
    if isinstance(left, Index | Member) and isinstance(right, int):
        right = Member(left.plate, right)
    if not (isinstance(left, Index | Member) and isinstance(right, Index | Member)) or left.plate != right.plate:
        raise index_error(
            f"{left} {relation} {right}",
            "only two indices over one plate (or an index and a member's number) can be compared",
            "use indices made by the same Plate",
        )
    return left, right


def reindex(free: tuple[Index, ...], where: Any, what: str) -> dict[Slot, Slot]:
    """The replacement that `term[where]` asks for."""
    names = ", ".join(map(str, free))
    if isinstance(where, Mapping):
        pairs = list(where.items())
    elif isinstance(where, tuple):
        if len(where) != len(free):
            raise index_error(
                f"[{', '.join(map(str, where))}]",
                f"{what} takes {len(free)} free indices [{names}], not {len(where)}",
                "give all of them in order, or one by name: t[{i: j}]",
            )
        pairs = list(zip(free, where, strict=True))
    else:
        candidates = [i for i in free if not isinstance(where, Letter) or i.plate == where.plate]
        if len(candidates) != 1:
            raise index_error(
                f"[{where}]",
                f"{what} has {'no' if not candidates else len(candidates)} free "
                f"{'index' if len(candidates) == 1 else 'indices'} that it could replace"
                + (f" ({', '.join(map(str, candidates))})" if candidates else ""),
                "say which: t[{i: j}]" if candidates else "use an index over a plate of the term",
            )
        pairs = [(candidates[0], where)]
    to: dict[Slot, Slot] = {}
    for old, new in pairs:
        if old not in free:
            raise index_error(f"[{{{old}: {new}}}]", f"{what} has no free index {old}", f"its free indices: {names}")
        new = new if isinstance(new, Letter) else Member(old.plate, new)
        if not isinstance(new, Index | Member) or new.plate != old.plate:
            raise index_error(
                f"[{{{old}: {new}}}]",
                f"{old} runs over plate {old.plate}, {new} over {getattr(getattr(new, 'plate', None), 'name', None)}",
                f"use an index over {old.plate}",
            )
        to[old] = new
    return to


def common_width(what: str, *terms: Term) -> Width | None:
    """The width shared by all vectors among the terms; None if all are scalars."""
    widths = list(dict.fromkeys(t.width for t in terms if t.width is not None))
    if len(widths) > 1:
        raise IllFormed(
            "NS303",
            statement=f"{what} of vectors of width {' and '.join(map(str, widths))}",
            hypothesis="a coordinatewise operation and a dot product need vectors of one width",
            repair="map one of them by a matrix of shape (" + ", ".join(map(str, widths[:2])) + ")",
        )
    return widths[0] if widths else None


# ------------------------------------------------------------------------------------------------------------ walks


def postorder(*roots: Term | Family) -> list[Family]:
    """Every family below the roots once, children first."""
    seen: set[bytes] = set()
    out: list[Family] = []
    stack = [(r.family if isinstance(r, Term) else r, False) for r in reversed(roots)]
    while stack:
        family, done = stack.pop()
        if done:
            out.append(family)
        elif family.key not in seen:
            seen.add(family.key)
            stack.append((family, True))
            stack.extend((child, False) for child, _ in reversed(family.children))
    return out


def not_a_plate(statement: str, repair: str) -> IllFormed:
    return IllFormed("NS309", statement=statement, hypothesis="an index belongs to a plate", repair=repair)


def free_of(slots: Iterable[Slot]) -> tuple[Index, ...]:
    return tuple(dict.fromkeys(s for s in slots if isinstance(s, Index)))


def fresh_letters(plates: Sequence[Plate], avoid: Iterable[Slot]) -> tuple[Index, ...]:
    """Letters #0, #1, ... that do not occur in `avoid`."""
    if not plates:
        return ()
    used = {s.name for s in avoid if isinstance(s, Index)}
    names = (f"#{k}" for k in count() if f"#{k}" not in used)
    return tuple(Index(name, plate) for plate, name in zip(plates, names, strict=False))
