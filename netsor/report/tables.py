"""Results as rows: one dict a variable, which prints as a line of a table or as an object of JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netsor.comparison import Comparison, kurtosis
from netsor.errors import IllFormed
from netsor.ir import Term
from netsor.limit import Limit
from netsor.numeric.draws import Draws
from netsor.numeric.law import Law, Mixture, PointMass, Sampled

Row = dict[str, Any]

KINDS = {Mixture: "mixture", Sampled: "sampled", PointMass: "point mass"}
BATCHES = 32  # equal parts of independent runs, for errors


def entry(terms: Mapping[str, Term], at: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """For each variable the entry that is looked at: the members in `at`, and member 0 of every other index.

    Raises: NS302 for a letter that no variable has.
    """
    letters = {i.name: None for term in terms.values() for i in term.free}
    for letter in at:
        if letter not in letters:
            raise IllFormed(
                "NS302",
                statement=f"{letter}={at[letter]} for {', '.join(terms)}",
                hypothesis=f"the indices are [{', '.join(letters)}]",
                repair="name one of them",
            )
    return {name: {i.name: at.get(i.name, 0) for i in term.free} for name, term in terms.items()}


def laws(limit: Limit, names: Sequence[str], at: Mapping[str, int], tick: Callable[[], None], **sampling: Any) -> list[Row]:
    """The law of one entry of each variable in the limit, in numbers."""
    rows = []
    for name, members in entry({n: limit[n].term for n in names}, at).items():
        law = limit.law(name, **sampling, **members)
        rows.append({"variable": name, "members": members, "kind": limit[name].kind, **numbers(law)})
        tick()
    return rows


def draws(drawn: Draws) -> list[Row]:
    """Mean, variance and kurtosis over the runs of the first entry of each variable; errors come from equal batches."""
    rows = []
    for name, array in drawn.items():
        indices = drawn.dims[name][: drawn.dims[name].index("run")]
        runs = array[(0,) * len(indices)].reshape(array.shape[len(indices)], -1)[:, 0]
        batches = min(BATCHES, len(runs))
        law = Sampled(runs[: len(runs) // batches * batches].reshape(batches, -1))
        rows.append({"variable": name, "members": dict.fromkeys(indices, 0), **numbers(law)})
    return rows


def numbers(law: Law) -> Row:
    return {
        "law": KINDS[type(law)],
        "mean": law.mean,
        "variance": law.variance,
        "excess_kurtosis": kurtosis(law),
    }


def table(rows: Sequence[Row]) -> str:
    """Columns under the keys of the rows, members behind the name; numbers to the right, words to the left."""
    lines = [{**row, "variable": indexed(row["variable"], row["members"])} for row in rows]
    keys = [key for key in lines[0] if key != "members"]
    columns = [[key.replace("_", " "), *("-" if r[key] is None else str(r[key]) for r in lines)] for key in keys]
    sides = [str.ljust if isinstance(lines[0][key], str) else str.rjust for key in keys]
    padded = [[side(cell, max(map(len, c))) for cell in c] for side, c in zip(sides, columns, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def indexed(name: str, members: Mapping[str, int]) -> str:
    return f"{name}[{','.join(map(str, members.values()))}]" if members else name


def verdict(comparison: Comparison) -> str:
    fits = comparison.extrapolated
    if not fits:
        return "no verdict: a fit over n needs three widths"
    names = " and ".join(key.replace("_", " ") for key in fits)
    says = "agree with" if comparison.agrees else "DISAGREE with"
    return f"{names}, fitted over n, {says} the limit (5 standard errors)"


def compared(comparison: Comparison) -> Row:
    """A comparison as data."""
    return {
        "variable": comparison.name,
        "widths": [{**row, "floor": comparison.floor[row["n"]]} for row in comparison.table],
        "extrapolated": comparison.extrapolated,
        "limit": numbers(comparison.limit),
        "agrees": comparison.agrees,
    }
