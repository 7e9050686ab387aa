"""What a run costs in each engine: a model of program, width and request, never a timing, never what is installed."""

from __future__ import annotations

from dataclasses import dataclass

NORMAL = 8.0  # nanoseconds of a standard normal
NUMBER = 2.0  # of a number that passes through memory and a few additions
PRODUCT = 0.5  # of an entry of a matrix times an entry of a vector
STEP = 3e4  # of one operation on arrays, whatever their size: shared by the runs of a shard


@dataclass(frozen=True, slots=True)
class Cost:
    """One run of one engine.

    normals   standard normals (and chi variates) drawn
    numbers   coordinates computed
    products  entries of matrices times entries of vectors
    steps     operations on arrays in each shard
    shard     runs of a shard
    """

    engine: str
    normals: float
    numbers: float
    products: float
    steps: float
    shard: int

    @property
    def nanoseconds(self) -> float:
        each = NORMAL * self.normals + NUMBER * self.numbers + PRODUCT * self.products
        return each + STEP * self.steps / self.shard

    def __str__(self) -> str:
        return f"{self.engine:<9}  {self.normals:>14,.0f} normals a run, about {show(self.nanoseconds)}"


def show(nanoseconds: float) -> str:
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
