"""Joint draws of named variables, of the limit or of width n alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsor.errors import IllFormed
from netsor.ir import Member, Slot, Term
from netsor.numeric.named import Named

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, slots=True)
class Output:
    """What is kept of a variable: some members (in the slots of the term), the first coordinates."""

    term: Term
    coordinates: int = 1

    @property
    def dims(self) -> tuple[str, ...]:
        letters = tuple(str(i) for i in self.term.free)
        return (*letters, "run") if self.term.width is None else (*letters, "run", "coordinate")

    def array(self, value: Named, runs: int, most: int | None = None) -> np.ndarray:
        """(sizes of the free indices, runs) for a scalar, (.., runs, coordinates) for a vector; `most` of these exist."""
        data = value.full(self.term.free)
        if self.term.width is None:
            return np.broadcast_to(data[..., 0], (*data.shape[:-2], runs)).copy()
        n = self.coordinates if most is None else min(self.coordinates, most)
        return np.broadcast_to(data[..., :n], (*data.shape[:-2], runs, n)).copy()


@dataclass(frozen=True, slots=True, eq=False)
class Draws(Mapping[str, np.ndarray]):
    """name -> array; `dims[name]` names its axes: the letters of its free indices, "run", and "coordinate" of a vector.

    `title` says what was drawn: the limit, or a width. `how` says by which engine, and what it cost.
    """

    title: str
    arrays: dict[str, np.ndarray]
    dims: dict[str, tuple[str, ...]]
    how: str = ""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __str__(self) -> str:
        width = max(map(len, self.arrays), default=0)
        shown = [f"  {n:<{width}}  ({', '.join(self.dims[n])}) {a.shape}" for n, a in self.arrays.items()]
        return "\n".join([self.title, *shown])

    def to_xarray(self) -> xarray.Dataset:
        """The draws as an xarray.Dataset, with the extra `data`; `.to_netcdf("y.nc")` of it writes netCDF.

        A coordinate labels the axes of vectors by variable, since each may have another number.  Raises: NS311.
        """
        try:
            import xarray
        except ImportError as error:
            raise IllFormed(
                "NS311",
                statement=f"to_xarray(): {error}",
                hypothesis="labelled arrays need the optional library xarray",
                repair="pip install 'netsor[data]'",
            ) from None
        lengths: dict[str, set[int]] = {}
        for name, array in self.items():
            for dim, size in zip(self.dims[name], array.shape, strict=True):
                lengths.setdefault(dim, set()).add(size)
        axes = {n: [d if len(lengths[d]) == 1 else f"{d}_{n}" for d in self.dims[n]] for n in self}
        data = {n: (axes[n], array) for n, array in self.items()}
        return xarray.Dataset(data, attrs={"title": self.title, "how": self.how})

    @classmethod
    def joined(
        cls, title: str, outputs: Mapping[str, Output], shards: Sequence[Mapping[str, np.ndarray]], how: str = ""
    ) -> Draws:
        axes = {name: len(o.term.free) for name, o in outputs.items()}
        arrays = {name: np.concatenate([s[name] for s in shards], axis=axes[name]) for name in outputs}
        return cls(title, arrays, {name: o.dims for name, o in outputs.items()}, how)


def requested(
    variables: Mapping[str, Term], outputs: Mapping[str, Mapping[str, Any]] | None, coordinates: int = 1
) -> dict[str, Output]:
    """The outputs asked for: by default every variable; `{"y": dict(i=0, coordinates=2)}` picks."""
    if outputs is None:
        return {name: Output(term, checked_count("coordinates", coordinates)) for name, term in variables.items()}
    chosen: dict[str, Output] = {}
    for name, spec in outputs.items():
        members = {k: v for k, v in spec.items() if k != "coordinates"}
        asked = checked_count("coordinates", spec.get("coordinates", coordinates))
        chosen[name] = Output(at_members(name, variables[name], members), asked)
    return chosen


def at_members(name: str, term: Term, members: Mapping[str, Any]) -> Term:
    """The term with indices, called by their letters, set to members."""
    letters = {i.name: i for i in term.free}
    to: dict[Slot, Slot] = {}
    for letter, at in members.items():
        if letter not in letters:
            raise IllFormed(
                "NS302",
                statement=f"{letter}={at!r} of {name}",
                hypothesis=f"{name} has the indices [{', '.join(letters)}]",
                repair="name one of them",
            )
        to[letters[letter]] = Member(letters[letter].plate, at)
    return term.at(to)


def checked_count(name: str, value: object, least: int = 1) -> int:
    """An integer, at least 1 (or 2: one run has no error)."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise IllFormed(
            "NS306",
            statement=f"{name}={value!r}",
            hypothesis=f"{name} is an integer of at least {least}",
            repair=f"{name}=1024",
        )
    return int(value)
