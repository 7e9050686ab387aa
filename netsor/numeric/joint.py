"""Joint Gaussian draws of families over plates, given their covariances as polynomials."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from netsor.algebra.diagonal import is_diagonal
from netsor.algebra.moments import Moments
from netsor.algebra.poly import Delta, Poly
from netsor.checks import Number
from netsor.errors import Numerical
from netsor.ir import Index, Term
from netsor.numeric.interpreter import Interpreter
from netsor.numeric.linear import psd_factors, psd_pinv, psd_root
from netsor.numeric.named import Named, combine, contract, count

LARGEST_DENSE = 1.5e9  # bytes of one dense covariance over all runs

Covariance = Callable[[Term, Term], Poly]
Normals = Callable[[Hashable, int], np.ndarray]  # (key, how many) -> (how many, runs, coordinates)


def primed(term: Term) -> Term:
    return term.at({i: i.prime for i in term.free})


def draw_jointly(
    at: Interpreter, moments: Moments, terms: Sequence[Term], covariance: Covariance, normals: Normals
) -> list[Named]:
    """Centred Gaussian values of the terms, each over its free letters.

    Terms that are uncorrelated are drawn apart; one alone is drawn factor by factor where its covariance is a product
    over disjoint groups of letters; the rest by one dense root.
    """
    pairs = [(x, y) for x, g in enumerate(terms) for y, h in enumerate(terms[:x]) if covariance(g, primed(h))]
    out: dict[int, Named] = {}
    for group in connected(len(terms), pairs):
        members = [terms[k] for k in group]
        values = None
        if len(members) == 1:
            (g,) = members
            factored = draw_factored(at, moments, g, covariance(g, primed(g)), normals(g.family.order, count(g.free)))
            values = None if factored is None else [factored]
        if values is None:
            values = draw_dense(at, members, covariance, normals)
        out.update(zip(group, values, strict=True))
    return [out[k] for k in range(len(terms))]


def draw_given(
    at: Interpreter,
    moments: Moments,
    terms: Sequence[Term],
    known: Sequence[tuple[Term, Named]],
    covariance: Covariance,
    normals: Normals,
) -> list[Named]:
    """Centred Gaussian values of the terms given the values of earlier ones, jointly Gaussian with them: by regression."""
    every = [*terms, *(old for old, _ in known)]
    pairs = [(x, y) for x, g in enumerate(every) for y, h in enumerate(every[:x]) if covariance(g, primed(h))]
    linked = {k for part in connected(len(every), pairs) if min(part) < len(terms) for k in part}
    known = [pair for k, pair in enumerate(known, len(terms)) if k in linked]  # those that matter, also through others
    if not known:
        return draw_jointly(at, moments, terms, covariance, normals)
    joint = dense_covariance(at, [*(old for old, _ in known), *terms], covariance)
    n = sum(count(old.free) for old, _ in known)
    cross = joint[:, n:, :n]
    slope = cross @ psd_pinv(joint[:, :n, :n], slack=at.slack)
    rest = joint[:, n:, n:] - slope @ np.swapaxes(cross, -1, -2)
    trace = np.trace(joint[:, n:, n:], axis1=-2, axis2=-1)
    sizes = [count(t.free) for t in terms]
    seen = np.concatenate([v.full(old.free).reshape(count(old.free), *v.data.shape[-2:]) for old, v in known])
    z = np.concatenate([normals(t.family.order, size) for t, size in zip(terms, sizes, strict=True)])
    total = multiply(slope, seen) + multiply(psd_factors(rest, trace, at.slack)[0], z)
    return [
        Named(t.free, v.reshape(*(count([i]) for i in t.free), *v.shape[1:]))
        for t, v in zip(terms, np.split(total, np.cumsum(sizes)[:-1]), strict=True)
    ]


def connected(n: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The connected components of a graph on 0 .. n-1."""
    label = list(range(n))
    for g, h in pairs:
        old, new = label[h], label[g]
        label = [new if x == old else x for x in label]
    return [[k for k in range(n) if label[k] == x] for x in dict.fromkeys(label)]


def draw_dense(at: Interpreter, terms: Sequence[Term], covariance: Covariance, normals: Normals) -> list[Named]:
    """By one root of the whole covariance."""
    sizes = [count(t.free) for t in terms]
    cov = dense_covariance(at, terms, covariance)
    root = psd_root(cov, slack=at.slack)
    z = np.concatenate([normals(t.family.order, size) for t, size in zip(terms, sizes, strict=True)])
    values = np.split(multiply(root, z), np.cumsum(sizes)[:-1])
    return [Named(t.free, v.reshape(*(count([i]) for i in t.free), *v.shape[1:])) for t, v in zip(terms, values, strict=True)]


def dense_covariance(at: Interpreter, terms: Sequence[Term], covariance: Covariance) -> np.ndarray:
    """(runs or 1, d, d) for the d members of the terms, one after the other."""
    sizes = [count(t.free) for t in terms]
    ends = np.cumsum([0, *sizes])
    runs = 1
    if ends[-1] ** 2 * 8 > LARGEST_DENSE:
        raise too_large(int(ends[-1]), runs)
    out = np.zeros((1, ends[-1], ends[-1]))
    for x, g in enumerate(terms):
        for y, h in enumerate(terms[: x + 1]):
            value = at.poly(covariance(g, primed(h)), (*g.free, *primed(h).free))
            if value.data.shape[-2] > runs:
                runs = value.data.shape[-2]
                if out.size * runs * 8 > LARGEST_DENSE:
                    raise too_large(int(ends[-1]), runs)
                out = np.repeat(out, runs, 0)
            block = np.moveaxis(value.full((*g.free, *primed(h).free))[..., 0].reshape(sizes[x], sizes[y], -1), -1, 0)
            out[:, ends[x] : ends[x + 1], ends[y] : ends[y + 1]] = block
            out[:, ends[y] : ends[y + 1], ends[x] : ends[x + 1]] = np.swapaxes(block, -1, -2)
    return out


def multiply(root: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(runs or 1, n, n) on (n, ..., runs, coordinates)."""
    if root.shape[0] == 1:
        result: np.ndarray = np.tensordot(root[0], z, (1, 0))
        return result
    moved = np.moveaxis(z, -2, 0)  # (runs, n, ..., coordinates)
    flat = moved.reshape(*moved.shape[:2], -1)
    product = (root @ np.broadcast_to(flat, (root.shape[0], *flat.shape[1:]))).reshape(root.shape[0], *moved.shape[1:])
    return np.moveaxis(product, 0, -2)


def draw_factored(at: Interpreter, moments: Moments, term: Term, poly: Poly, z: np.ndarray) -> Named | None:
    """The draw as a Kronecker product over groups of letters, or None if the covariance is not such a product."""
    letters = term.free
    z = z.reshape(*(count([i]) for i in letters), *z.shape[1:])
    if not poly:
        return Named(letters, np.zeros_like(z))
    found = factors(moments, poly, letters)
    if found is None:
        return None
    number, blocks, constants = found
    scale = contract(number, [at.value(s) for s in constants], ())
    if (scale.data < 0).any():
        return None
    value = combine(np.multiply, Named(letters, z), Named((), np.sqrt(scale.data)))
    for batch, group, scalars in blocks:
        over = (*batch, *group, *(i.prime for i in group))
        matrix = contract(1, [at.value(s) for s in scalars], over).full(over)[..., 0]
        size = count(group)
        matrix = matrix.reshape(*(count([i]) for i in batch), size, size, -1)
        try:
            root = psd_root(np.moveaxis(matrix, -1, len(batch)))
        except Numerical:
            return None  # a product of factors that are not covariances one by one
        value = apply_root(value, batch, group, root)
    return value


def apply_root(value: Named, batch: Sequence[Index], group: Sequence[Index], root: np.ndarray) -> Named:
    """The root (batch, runs or 1, n, n) applied to the letters of one group."""
    rest = [i for i in value.over if i not in (*batch, *group)]
    z = value.full((*batch, *group, *rest))
    shape = z.shape
    lead = len(batch)
    z = z.reshape(-1, count(group), *shape[lead + len(group) :])
    roots = root.reshape(-1, *root.shape[lead:])
    done = np.stack([multiply(r, part) for r, part in zip(roots, z, strict=True)])
    result = done.reshape(*shape[: lead + len(group)], *done.shape[2:])
    back = Named((*batch, *group, *rest), result)
    return Named(value.over, back.spread(value.over))


Block = tuple[tuple[Index, ...], tuple[Index, ...], list[Term]]


def factors(moments: Moments, poly: Poly, letters: tuple[Index, ...]) -> tuple[Number, list[Block], list[Term]] | None:
    """A one-term covariance as number * product of factors over disjoint groups of letters.

    Each block: the letters on which the factor is diagonal, the letters it couples, its scalars.
    """
    if len(poly) != 1 or poly.terms[0].bound:
        return None
    (m,) = poly
    mate = {i.prime: i for i in letters}
    group: dict[Index, frozenset[Index]] = {i: frozenset((i,)) for i in letters}
    diagonal: set[Index] = set()
    for s in m.scalars:
        if isinstance(s.op, Delta):
            left, right = (mate.get(x, x) if isinstance(x, Index) else x for x in s.own)
            if left != right or not isinstance(left, Index):
                return None
            diagonal.add(left)
    for s in m.scalars:
        diagonal |= {i for i in letters if is_diagonal(moments, s, i)}
    scalars = [s.at({i.prime: i for i in diagonal}) for s in m.scalars if not isinstance(s.op, Delta)]
    constants: list[Term] = []
    coupled: list[tuple[set[Index], Term]] = []
    for s in scalars:
        touched = {mate.get(i, i) for i in s.free}
        if not touched:
            constants.append(s)
            continue
        coupled.append((touched, s))
        own = touched - diagonal
        merged = frozenset().union(*(group[i] for i in own)) if own else frozenset()
        for i in merged:
            group[i] = merged
    blocks: list[Block] = []
    for g in dict.fromkeys(group[i] for i in letters if i not in diagonal):
        mine = [(t, s) for t, s in coupled if (t - diagonal) & g]
        batch = {i for t, _ in mine for i in t & diagonal}
        blocks.append((tuple(i for i in letters if i in batch), tuple(i for i in letters if i in g), [s for _, s in mine]))
    alone = [(t, s) for t, s in coupled if not t - diagonal]
    if alone:
        batch = {i for t, _ in alone for i in t}
        blocks.append((tuple(i for i in letters if i in batch), (), [s for _, s in alone]))
    return m.number, blocks, constants


def too_large(dimension: int, runs: int) -> Numerical:
    return Numerical(
        "NS403",
        statement=f"a joint law of {dimension} numbers in {runs} runs",
        hypothesis="its covariance is not a product over groups of indices, so it would be stored whole",
        consequence=f"{dimension**2 * runs * 8 / 1e9:.0f} GB of memory",
        repair="ask for fewer members at once: y[0] instead of y[i], or fewer tokens or heads",
    )
