"""Programs in the making: statements that are well typed and legal by construction, each with its text as Python code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from netsor import functions as fs
from netsor.binding import param, table
from netsor.ir import Index, Member, Slot, Term, distinct
from netsor.program import Program
from netsor.rules.dot import dot
from netsor.rules.input import vector
from netsor.rules.matmul import Matrix, matrix
from netsor.rules.mean import mean

Draw = Callable[[st.SearchStrategy[Any]], Any]

CONTINUOUS = (fs.tanh, fs.relu, fs.erf, fs.sin, fs.clip(1))  # without jumps, so that rounding makes no difference


@dataclass(frozen=True)
class Piece:
    """Python text, the term it builds, and the free letters that the term should have."""

    text: str
    term: Term
    free: frozenset[Slot]


class Draft:
    """A program in the making: its letters, its code, its statements, and the matrices that may act again.

    `program` is the program so far; `code` the Python text that builds its variables, which is also what is printed.
    """

    def __init__(self, letters: Sequence[Index], lines: list[str]) -> None:
        self.letters, self.lines = letters, lines
        self.statements: dict[str, Piece] = {}
        self.matrices: dict[str, Matrix] = {}

    @property
    def variables(self) -> dict[str, Term]:
        return {name: s.term for name, s in self.statements.items()}

    @property
    def program(self) -> Program:
        return Program("random", **self.variables)

    @property
    def code(self) -> str:
        return "\n".join(self.lines)

    def mates(self, slot: Slot) -> list[Index]:
        """The letters over the plate of this one."""
        return [i for i in self.letters if i.plate == slot.plate]

    def add(self, name: str, piece: Piece) -> None:
        self.statements[name] = piece
        self.lines.append(f"{name} = {piece.text}")

    def __repr__(self) -> str:
        return "\n    ".join(["", *self.lines, ""])


# ------------------------------------------------------------------------------------------------- parts of statements


def operand(draw: Draw, draft: Draft, vector: bool = False) -> Piece:
    """An earlier variable, its letters replaced at random: others of the plate, one letter twice, a member."""
    names = [n for n, s in draft.statements.items() if not vector or s.term.width is not None]
    name = draw(st.sampled_from(names))
    term = draft.statements[name].term
    to: tuple[Slot, ...] = tuple(draw(slots(draft, i)) for i in term.free)
    if not to:
        return Piece(name, term, frozenset())
    where = tuple(s.at if isinstance(s, Member) else s for s in to)
    return Piece(f"{name}[{', '.join(map(str, to))}]", term[where], frozenset(s for s in to if isinstance(s, Index)))


def slots(draft: Draft, letter: Index) -> st.SearchStrategy[Slot]:
    """What may be put in place of a letter: itself, most simply."""
    members = [Member(letter.plate, k) for k in range(min(2, letter.plate.extent or 2))]
    return st.sampled_from([letter, *draft.mates(letter), *members])


def some_letters(draw: Draw, draft: Draft) -> list[Index]:
    chosen: list[Index] = draw(st.lists(st.sampled_from(draft.letters), unique=True, max_size=2))
    return chosen


def new_matrix(draw: Draw, draft: Draft, name: str, letters: Sequence[Index]) -> Matrix:
    sigma = draw(st.sampled_from([1, 2]))
    draft.lines.append(f"{name} = matrix({', '.join([repr(name), *map(str, letters)])}, sigma={sigma})")
    return matrix(name, *letters, sigma=sigma)


def predicate(draw: Draw, draft: Draft, letter: Index) -> Piece:
    """A mask over the letter and another, which may be the same."""
    other = draw(st.sampled_from(draft.mates(letter)))
    made = {
        f"{letter} <= {other}": letter <= other,
        f"{other} < {letter}": other < letter,
        f"distinct({letter}, {other})": distinct(letter, other),
        f"~({letter} < {other}) | ({letter} <= 0)": ~(letter < other) | (letter <= 0),
    }
    text = draw(st.sampled_from(list(made)))
    return Piece(text, made[text], frozenset((letter, other)))


# ------------------------------------------------------------------------------------------------- kinds of statements


def initial(draw: Draw, draft: Draft, name: str) -> Piece:
    letters, average = some_letters(draw, draft), draw(st.sampled_from([0, 0.5]))
    text = f"vector({', '.join([repr(name), *map(str, letters)])}, mean={average})"
    return Piece(text, vector(name, *letters, mean=average), frozenset(letters))


def another(draw: Draw, draft: Draft, name: str) -> Piece:
    return initial(draw, draft, f"x{name}")


def matmul(draw: Draw, draft: Draft, name: str) -> Piece:
    """A new matrix, or one that acted before: a tie, or another copy."""
    text = draw(st.sampled_from([f"W{name}", *draft.matrices]))
    if text in draft.matrices:
        w = draft.matrices[text]
        if to := tuple(draw(st.sampled_from(draft.mates(s))) for s in w.slots):
            w, text = w[to], f"{text}[{', '.join(map(str, to))}]"
    else:
        w = draft.matrices[text] = new_matrix(draw, draft, text, some_letters(draw, draft))
    x = operand(draw, draft, vector=True)
    return Piece(f"{text} @ {x.text}", w @ x.term, frozenset(w.slots) | x.free)


def combination(draw: Draw, draft: Draft, name: str) -> Piece:
    x, y, c = operand(draw, draft), operand(draw, draft), draw(st.sampled_from([1, -1, 2, 0.5]))
    return Piece(f"{x.text} + {c} * {y.text}", x.term + c * y.term, x.free | y.free)


def multiple(draw: Draw, draft: Draft, name: str) -> Piece:
    """A product of variables, at most one of them a vector, or of a variable and a named number."""
    x, y = operand(draw, draft), operand(draw, draft)
    if x.term.width is not None and y.term.width is not None:
        return Piece(f"param('c{name}', 0.5) * {y.text}", param(f"c{name}", 0.5) * y.term, y.free)
    return Piece(f"{x.text} * {y.text}", x.term * y.term, x.free | y.free)


def nonlinear(draw: Draw, draft: Draft, name: str) -> Piece:
    f, x = draw(st.sampled_from(CONTINUOUS)), operand(draw, draft)
    return Piece(f"{str(f).replace('[', '(').replace(']', ')')}({x.text})", f(x.term), x.free)


def by_size(draw: Draw, draft: Draft, name: str) -> Piece:
    x, i = operand(draw, draft), draw(st.sampled_from(draft.letters))
    return Piece(f"{x.text} / sqrt({i}.plate.size)", x.term / fs.sqrt(i.plate.size), x.free)


def by_position(draw: Draw, draft: Draft, name: str) -> Piece:
    x, i = operand(draw, draft), draw(st.sampled_from(draft.letters))
    j = draw(st.sampled_from(draft.mates(i)))
    return Piece(f"{x.text} - 0.25 * ({i} - {j})", x.term - 0.25 * (i - j), x.free | {i, j})


def by_table(draw: Draw, draft: Draft, name: str) -> Piece:
    x, i = operand(draw, draft), draw(st.sampled_from(draft.letters))
    values = [0.5, -0.25, 1.5][: i.plate.extent] if i.plate.extent else None
    return Piece(
        f"table('c{name}', {i}, values={values}) * {x.text}", table(f"c{name}", i, values=values) * x.term, x.free | {i}
    )


def along(draw: Draw, draft: Draft, name: str) -> Piece | None:
    """An operation along a plate, with or without a mask."""
    x = operand(draw, draft)
    if not x.free:
        return None
    f = draw(st.sampled_from([fs.sum_over, fs.max_over, fs.softmax, fs.mean_over]))
    j = draw(st.sampled_from(sorted(x.free, key=str)))
    bound = frozenset() if f is fs.softmax else {j}
    if f is fs.mean_over or draw(st.booleans()):  # a mean over no members at all has no value: it gets no mask
        return Piece(f"{f.__name__}({x.text}, {j})", f(x.term, j), x.free - bound)
    where = predicate(draw, draft, j)
    text = f"{f.__name__}({x.text}, {j}, where={where.text})"
    return Piece(text, f(x.term, j, where=where.term), (x.free | where.free) - bound)


def moment(draw: Draw, draft: Draft, name: str) -> Piece:
    x, y = operand(draw, draft, vector=True), operand(draw, draft, vector=True)
    return Piece(f"mean({x.text} * {y.text})", mean(x.term * y.term), x.free | y.free)


def score(draw: Draw, draft: Draft, name: str) -> Piece:
    """A score of two matrices of its own, or the softmax of one that exists under a mask only."""
    letters = some_letters(draw, draft)
    x, y = operand(draw, draft, vector=True), operand(draw, draft, vector=True)
    q, k = (new_matrix(draw, draft, f"{r}{name}", letters) for r in "QK")
    pair, free = f"Q{name} @ {x.text}, K{name} @ {y.text}", x.free | y.free | frozenset(letters)
    if not free or draw(st.booleans()):
        return Piece(f"dot({pair})", dot(q @ x.term, k @ y.term), free)
    j = draw(st.sampled_from(sorted(free, key=str)))
    where = predicate(draw, draft, j)
    text = f"softmax(dot({pair}, where={where.text}), {j}, where={where.text})"
    term = fs.softmax(dot(q @ x.term, k @ y.term, where=where.term), j, where=where.term)
    return Piece(text, term, free | where.free)


def shared(draw: Draw, draft: Draft, name: str) -> Piece:
    """A score with a fresh matrix on one side only: on the other stands any vector, a key that other scores share, say."""
    x, y = operand(draw, draft, vector=True), operand(draw, draft, vector=True)
    letters = some_letters(draw, draft)
    q = new_matrix(draw, draft, f"Q{name}", letters)
    return Piece(f"dot(Q{name} @ {x.text}, {y.text})", dot(q @ x.term, y.term), x.free | y.free | frozenset(letters))


def attention(draw: Draw, draft: Draft, name: str) -> Piece | None:
    """A residual layer of attention, x + sum_over(softmax(dot(Q @ x, K @ x[j]), j) * x[j], j), perhaps causal."""
    named = [n for n, s in draft.statements.items() if s.term.width is not None and s.term.free]
    if not named:
        return None
    of = draw(st.sampled_from(named))
    x = draft.statements[of].term
    i = draw(st.sampled_from(sorted(x.free, key=str)))
    others = [s for s in draft.mates(i) if s not in x.free]
    if not others:
        return None
    j = others[0]
    q, k = (new_matrix(draw, draft, f"{r}{name}", ()) for r in "QK")
    at = tuple(j if s == i else s for s in x.free)
    other, causal = f"{of}[{', '.join(map(str, at))}]", draw(st.booleans())
    mask = {"where": j <= i} if causal else {}
    A = fs.softmax(dot(q @ x, k @ x[at]), j, **mask)
    text = f"softmax(dot(Q{name} @ {of}, K{name} @ {other}), {j}{f', where={j} <= {i}' if causal else ''})"
    free = frozenset(s for s in x.free if isinstance(s, Index))
    return Piece(f"{of} + sum_over({text} * {other}, {j})", x + fs.sum_over(A * x[at], j), free)


Kind = Callable[[Draw, Draft, str], Piece | None]

KINDS: tuple[Kind, ...] = (
    matmul,
    matmul,
    combination,
    multiple,
    nonlinear,
    by_size,
    by_position,
    by_table,
    along,
    along,
    moment,
    another,
)
SCORES: tuple[Kind, ...] = (score, score, shared, attention)
