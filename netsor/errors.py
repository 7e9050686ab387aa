"""What can go wrong, and how it is said: the statement, the place, the hypothesis, what would happen, what to write."""

from __future__ import annotations

import sys
from types import FrameType

TITLES = {
    "NS101": "the score diverges",
    "NS102": "the score is centred but not fresh",
    "NS103": "a jump on an atom",
    "NS104": "normalisation by a scalar that tends to zero",
    "NS105": "an operation across the width is not coordinatewise",
    "NS106": "an infinite or undefined expectation",
    "NS107": "a tie between scores",
    "NS201": "transposes have no rule yet",
    "NS203": "no limit in the size of a plate",
    "NS204": "regularity cannot be certified",
    "NS301": "one name for two things",
    "NS302": "an index does not fit",
    "NS303": "widths do not match",
    "NS304": "a size or a parameter is unbound",
    "NS305": "not a covariance",
    "NS306": "not a finite number",
    "NS307": "not a mask",
    "NS308": "an entry outside `where` is used",
    "NS309": "not a term of the right kind",
    "NS310": "the program file cannot be used",
    "NS311": "no such variable or option",
    "NS312": "the run cannot go on",
    "NS401": "the tolerance was not reached",
    "NS402": "numbers outside their domain",
    "NS403": "the request is too large",
}


class NetsorError(Exception):
    """A refusal with a stable code and five parts. `exit_code` is what the command line returns for it."""

    exit_code = 1

    def __init__(
        self,
        code: str,
        *,
        statement: str = "",
        place: str = "",
        hypothesis: str = "",
        consequence: str = "",
        repair: str = "",
    ) -> None:
        super().__init__(code, statement, place, hypothesis, consequence, repair)
        self.code = code
        self.statement, self.place = statement, place or located(caller())
        self.hypothesis, self.consequence, self.repair = hypothesis, consequence, repair
        self.diagnostics: list[object] = []  # all findings, where this is the first of several

    @property
    def title(self) -> str:
        return TITLES[self.code]

    def parts(self) -> dict[str, str]:
        """The parts that are there, in the order in which they are read."""
        named = {
            "statement": self.statement,
            "place": self.place,
            "hypothesis": self.hypothesis,
            "otherwise": self.consequence,
            "instead": self.repair,
        }
        return {name: text for name, text in named.items() if text}

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.title}"]
        for name, text in self.parts().items():
            first, *rest = text.splitlines()
            lines.append(f"  {name + ':':<12}{first}")
            lines += [f"  {'':<12}{line}" for line in rest]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), *self.args)


def caller() -> tuple[str, int] | None:
    """File and line of the nearest frame outside the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "netsor.cli":
            return None
        if not module.startswith(("netsor.", "functools", "contextlib")) or module.startswith("netsor.programs"):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def located(origin: tuple[str, int] | None) -> str:
    return "" if origin is None else f"{origin[0]}:{origin[1]}"


def _rebuild(kind: type[NetsorError], code: str, *parts: str) -> NetsorError:
    names = ("statement", "place", "hypothesis", "consequence", "repair")
    return kind(code, **dict(zip(names, parts, strict=True)))


class IllFormed(NetsorError):
    """The text is not a program, or the request does not fit it."""

    exit_code = 2


class OutsideTheorem(NetsorError):
    """A hypothesis of every theorem that netsor knows fails: there is no limit to print."""

    exit_code = 3


class NoRule(OutsideTheorem):
    """There may be a limit, but netsor has no rule for it (yet)."""


class Numerical(NetsorError):
    """A number could not be computed as asked."""

    exit_code = 4
