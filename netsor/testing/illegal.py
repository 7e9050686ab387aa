"""Programs outside every theorem: a legal program, one statement that is not, the code it is refused with, and the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from netsor import functions as fs
from netsor.errors import NetsorError
from netsor.ir import Plate, Term, Width, distinct
from netsor.program import Program
from netsor.rules.dot import dot
from netsor.rules.input import vector
from netsor.rules.matmul import matrix
from netsor.rules.mean import mean
from netsor.testing.drafts import Draft, operand
from netsor.testing.strategies import programs


@dataclass(frozen=True)
class Illegal:
    """A program outside the theorem. `build()` gives it, or is itself refused.

    code: what it is refused with. blame: how the statement that the refusal quotes begins. why: the reason in words.
    text: the Python code; it is what is printed.
    """

    code: str
    blame: str
    why: str
    text: str
    build: Callable[[], Program]

    def refusals(self) -> list[NetsorError]:
        """Everything that the program is refused for, the first first. Raises nothing but defects of netsor."""
        try:
            program = self.build()
        except NetsorError as error:
            return [error]
        return [d.error for d in program.check() if d.severity == "refused"]

    def is_refused_rightly(self) -> bool:
        """Refused with the code, and for nothing else, at the statement."""
        found = self.refusals()
        return bool(found) and {e.code for e in found} == {self.code} and found[0].statement.startswith(self.blame)

    def __repr__(self) -> str:
        return f"\n    # {self.code}: {self.why}\n    " + self.text.replace("\n", "\n    ") + "\n"


@dataclass(frozen=True)
class Schema:
    """One way out of the theorem. `text` is an expression in the names of `parts`; `raised`: by the statement itself."""

    code: str
    why: str
    text: str
    blame: str = "bad"
    raised: bool = False


SCHEMAS = (
    Schema("NS101", "one matrix on both sides of one vector", "dot(Q @ r, Q @ r)"),
    Schema("NS101", "two positive factors", "dot(relu(Q @ r), relu(K @ r))"),
    Schema("NS101", "one bias on both sides", "dot(Q @ r + u, K @ r + u)"),
    Schema("NS101", "one copy of a family where indices coincide", "dot(C[l] @ r, C[m] @ r)"),
    Schema("NS101", "a causal mask that keeps the diagonal", "softmax(dot(C[l] @ u, C[m] @ u), over=m, where=m <= l)", "dot("),
    Schema("NS102", "one matrix on both sides of independent vectors", "dot(Q @ (c * u), Q @ v)"),
    Schema("NS102", "a matrix on both sides, once in a nonlinearity", "dot(Q @ u, relu(Q @ v))"),
    Schema("NS102", "one vanishing mean", "dot(Q @ u - mean(Q @ u), relu(K @ v))"),
    Schema("NS102", "a centred square", "c * dot((Q @ u)**2 - 1, 1)", "dot("),
    Schema("NS102", "a square centred by its own mean", "dot((K @ relu(Q @ u))**2 - mean((K @ relu(Q @ u))**2), 1)"),
    Schema("NS103", "sign of what vanishes", "sign(Q @ u - mean(u * u) * (Q @ u))"),
    Schema("NS103", "step of what vanishes", "step(Q @ v - mean(u * u) * (Q @ v))"),
    Schema("NS104", "division by a mean that vanishes", "r / mean(Q @ u)"),
    Schema("NS104", "norm of what vanishes", "rmsnorm(Q @ u - mean(u * u) * (Q @ u))"),
    Schema("NS104", "layer norm of a constant", "layernorm(0 * u + mean(Q @ u))"),
    Schema("NS105", "softmax over the width", "softmax(r, over=n)", "softmax(", True),
    Schema("NS105", "maximum over the width", "max_over(r, n)", "max_over(", True),
    Schema("NS106", "an exponential that is too steep", "exp(u * u)"),
    Schema("NS106", "a cube in an exponential", "exp((Q @ u)**3)"),
    Schema("NS106", "a Cauchy variable", "u / (Q @ v)"),
    Schema("NS106", "a logarithm of negative numbers", "log(Q @ u)"),
    Schema("NS107", "ties of scores that all vanish", "hardmax(mean((Q @ u) * (K @ y)), over=l)"),
    Schema("NS107", "ties of means of one value", "top_k(mean(y * y) + c, 1, over=l)"),
    Schema("NS201", "a transpose", "Q.T @ r", "Q.T", True),
    Schema("NS203", "infinitely many terms that are not centred", "sum_over(tanh(H @ u + 1), o)", "P.at(", True),
    Schema("NS204", "a jump at the mean", "sign((Q @ u)**2 - mean((Q @ u)**2))"),
    Schema("NS308", "an entry outside its mask", "softmax(dot(Q @ y, K @ y[m], where=distinct(l, m)), over=m)", "dot("),
)

LANGUAGE: Mapping[str, Any] = {
    **{name: getattr(fs, name) for name in fs.__all__},
    **{f.__name__: f for f in (dot, mean, distinct, vector, matrix, Plate, Width)},
}

PARTS = """
n, u, v = Width("n"), vector("u"), vector("v")
l, m = Plate("choice", {size}).indices("l m")
o = Plate("infinite").index("o")
Q, K, C, H, y = matrix("Q"), matrix("K"), matrix("C", l), matrix("H", o), vector("y", l)
r = u{plus}
c = 1{times}
""".strip()


@st.composite
def illegal_programs(draw: st.DrawFn, /, code: str | None = None, statements: int = 4) -> Illegal:
    """A program that is legal but for one statement, perhaps with another that uses it. `code`: only such refusals.

    The statement comes from `SCHEMAS`; its vectors and scalars depend on the random program before it.
    """
    schema = draw(st.sampled_from([s for s in SCHEMAS if code in (None, s.code)]))
    draft = draw(programs(statements=statements))
    vectors, scalars = added(draw, draft, vector=True), added(draw, draft, vector=False)
    lines = PARTS.format(size=draw(st.integers(2, 3)), plus=vectors, times=scalars).splitlines()
    infinite = schema.code == "NS203"
    last = [f"bad = {schema.text}"]
    if not schema.raised and draw(st.booleans()):
        last.append("after = tanh(bad)")
    call = f'P = Program("illegal", **variables, bad=bad{", after=after" if len(last) > 1 else ""})'
    last.append(call + (".at(infinite=oo)" if infinite else ""))
    used = [*lines, *last]

    def build() -> Program:
        """Its terms are those of the draft, and what the lines make of them."""
        names: dict[str, Any] = {
            **LANGUAGE,
            **draft.variables,
            **{str(i): i for i in draft.letters},
            "oo": float("inf"),
            "Program": Program,
            "variables": draft.variables,
        }
        exec("\n".join(used), names)
        program: Program = names["P"]
        return program

    shown = [*used[:-1], used[-1].replace("**variables", ", ".join(f"{name}={name}" for name in draft.variables))]
    return Illegal(schema.code, schema.blame, schema.why, "\n".join([draft.code, *shown]), build)


def added(draw: st.DrawFn, draft: Draft, vector: bool) -> str:
    """Text that adds a variable of the draft to r, or the square of a scalar to c, where there is one."""
    if not any((t.width is not None) == vector for t in draft.variables.values()) or not draw(st.booleans()):
        return ""
    piece = operand(draw, draft, vector=vector)
    term: Term = piece.term
    if (term.width is not None) != vector:
        return ""
    return f" + {piece.text}" if vector else f" + ({piece.text})**2"
