"""Bounds |f(z)| <= C (1 + |z|)^d exp(C |z|^a) max_k exp(Q_k(z)), and how sums, products and powers combine them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from netsor.algebra.poly import ZERO, Poly
from netsor.ir import Slot

INFINITE, UNCERTAIN = "NS106", "NS204"
LARGEST_SUM = 64  # exponents that are kept apart


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no majorant. `undefined`: the function itself has no value somewhere."""

    code: str
    why: str
    undefined: bool = False


@dataclass(frozen=True, slots=True)
class Exponent:
    """exp(poly); `bounded`: known to be so, whatever the covariance."""

    poly: Poly = ZERO
    bounded: bool = True


@dataclass(frozen=True, slots=True)
class Majorant:
    """degree d, order a and exponents Q_k of the bound; pole s, None without one (log|z|: 0).

    tame: pseudo-Lipschitz. holder: of infinite slope somewhere, as sqrt|z| at 0. sharp: f grows like its exponentials, up
    to powers of |z|; without it the bound may be too large.
    """

    degree: float = 0.0
    order: float = 0.0
    exponents: tuple[Exponent, ...] = (Exponent(),)
    tame: bool = True
    jump: bool = False
    holder: bool = False
    pole: float | None = None
    sharp: bool = True
    fault: Fault | None = None

    def at(self, to: dict[Slot, Slot]) -> Majorant:
        return replace(self, exponents=tuple(Exponent(e.poly.at(to), e.bounded) for e in self.exponents))

    def __add__(self, other: Majorant) -> Majorant:
        whole = self.joined(other, max, dict.fromkeys((*self.exponents, *other.exponents)))
        alike = any(e.poly and e in other.exponents for e in self.exponents)  # they may cancel
        return replace(whole, sharp=whole.sharp and not alike)

    def __mul__(self, other: Majorant) -> Majorant:
        pairs = (Exponent(e.poly + f.poly, e.bounded and f.bounded) for e in self.exponents for f in other.exponents)
        whole = self.joined(other, lambda x, y: x + y, dict.fromkeys(pairs))
        if whole.fault and not all(m.sharp for m in (self, other) if m.fault is None):
            return replace(whole, fault=replace(whole.fault, code=UNCERTAIN))
        return whole

    def joined(self, other: Majorant, together: Callable[[float, float], float], exponents: Iterable[Exponent]) -> Majorant:
        poles = [m.pole for m in (self, other) if m.pole is not None]
        whole = tuple(exponents)
        many = Fault(UNCERTAIN, "it has too many exponentials to follow") if len(whole) > LARGEST_SUM else None
        return Majorant(
            together(self.degree, other.degree),
            max(self.order, other.order),
            whole[:LARGEST_SUM],
            self.tame and other.tame,
            self.jump or other.jump,
            self.holder or other.holder,
            together(*poles) if len(poles) == 2 else poles[0] if poles else None,
            self.sharp and other.sharp,
            self.fault or other.fault or many,
        )

    def raised(self, k: float) -> Majorant:
        """|f|^k for k > 0."""
        exponents = tuple(Exponent(e.poly.scaled(k), e.bounded) for e in self.exponents)
        pole = None if self.pole is None else k * self.pole
        degree = k * self.degree if self.degree else 0.0
        return replace(self, degree=degree, exponents=exponents, pole=pole)

    def cut(self, tame: bool, jump: bool = False) -> Majorant:
        """A bounded function of it: no growth, no pole, but a jump where there was one."""
        holes = self.pole is not None
        fault = self.fault if self.fault is not None and self.fault.undefined else None
        return Majorant(
            tame=tame and self.tame and not holes, jump=jump or self.jump or holes, holder=self.holder, sharp=False, fault=fault
        )
