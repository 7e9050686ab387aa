"""Laws of whole random programs: other names, another order, dead statements, no plates. Each has a mutant that fails it.

Numbers agree to rounding, so that no statistics is needed; where an expectation comes from random points it is left out.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from calibrated import Deviates, assert_detects
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Draft, programs

from netsor import Limit, Plate, Program, distinct, dot, matrix, relu, semantics, table, vector
from netsor.algebra.moments import Moments
from netsor.algebra.pivots import is_score
from netsor.algebra.poly import Mono, Poly, scalar
from netsor.algebra.scores import score_covariance
from netsor.infinite.engine import REPLICATES, Engine, Sampling
from netsor.ir import Member, Slot, Term, make
from netsor.numeric import interpreter
from netsor.numeric.interpreter import RELATIONS
from netsor.numeric.named import Named, extent
from netsor.numeric.streams import seed_of
from netsor.ops import AND, OR, Compare, Offset, Op, Table
from netsor.rules.input import Input
from netsor.rules.matmul import MatMul
from netsor.testing.illegal import LANGUAGE
from netsor.walks import rebuild

ROUNDING = 1e-10
MOST = 8  # members whose second moments are looked at

Variables = dict[str, Term]


def second_moments(variables: Variables) -> np.ndarray | None:
    """E x y of all members of all vectors, one draw of the scores; None where an expectation came from random points."""
    members = [t.at(dict(zip(t.free, at, strict=True))) for t in variables.values() if t.width is not None for at in places(t)]
    return moments_of(members[:: 1 + len(members) // MOST])


def moments_of(members: list[Term]) -> np.ndarray | None:
    moments = Moments()
    at, _ = next(iter(Engine(moments).replicates(members, Sampling(REPLICATES, seed_of(0)))))
    size = len(members)
    out = np.zeros((size, size))
    for i, j in product(range(size), range(size)):
        out[i, j] = at.poly(moments.expect(members[i], members[j]), ()).data.reshape(-1)[0]
    return None if at.sampled else out


def places(t: Term) -> list[tuple[Member, ...]]:
    return [tuple(map(Member, (i.plate for i in t.free), at)) for at in product(*(range(extent(i.plate)) for i in t.free))]


def check_equal(one: np.ndarray | None, two: np.ndarray | None) -> None:
    if one is None or two is None:
        return
    gap = np.abs(one - two).max(initial=0) if one.shape == two.shape else np.inf
    if not gap <= ROUNDING * max(1.0, np.abs(one).max(initial=0)):
        raise Deviates(f"off by {gap:.3g}")


def read(code: str, names: list[str]) -> Variables:
    """The variables that a text of Python builds."""
    space: dict[str, Any] = {**LANGUAGE}
    exec("from netsor import *\n" + code, space)
    return {name: space[name] for name in names}


small = programs(statements=4, scores=False)

# ---------------------------------------------------------------------------------------------------------------- laws


def check_objects_renamed(code: str, names: list[str]) -> None:
    """Matrices, vectors and parameters under other names: the same numbers, and the same listing but for the names."""
    quoted = dict.fromkeys(re.findall(r"'(\w+)'", "\n".join(code.splitlines()[1:])))
    other = {old: f"z{k}" for k, old in enumerate(quoted) if old not in ("token", "head")}
    new = re.sub(r"'(\w+)'", lambda m: repr(other.get(m[1], m[1])), code)
    check_equal(second_moments(read(code, names)), second_moments(read(new, names)))


@settings(max_examples=25)
@given(small)
def test_objects_under_other_names(draft: Draft) -> None:
    check_objects_renamed(draft.code, list(draft.variables))


def check_reordered(variables: Variables, order: list[str]) -> None:
    """Variables listed in another order have the same printed laws and the same covariances."""
    one, two = (Program("order", **{n: variables[n] for n in names}).limit() for names in (list(variables), order))
    for name in variables:
        if (one[name].kind, one[name].status) != (two[name].kind, two[name].status):
            raise Deviates(name)
        check_equal(one.mean(name, runs=REPLICATES).value, two.mean(name, runs=REPLICATES).value)


@settings(max_examples=25)
@given(programs(statements=4), st.randoms(use_true_random=False))
def test_statements_in_another_order(draft: Draft, random: Any) -> None:
    order = list(draft.variables)
    random.shuffle(order)
    check_reordered(draft.variables, order)


def check_dead(variables: Variables, kept: list[str]) -> None:
    """Statements that nothing kept depends on change neither the kind nor the status nor the mean of what is kept."""
    whole, alone = (Program("dead", **v).limit() for v in (variables, {n: variables[n] for n in kept}))
    for n in kept:
        if whole[n].kind != alone[n].kind or whole[n].status != alone[n].status:
            raise Deviates(n)
        check_equal(whole.mean(n, runs=REPLICATES).value, alone.mean(n, runs=REPLICATES).value)


@settings(max_examples=25)
@given(programs(statements=4), st.data())
def test_dead_statements(draft: Draft, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(list(draft.variables)), unique=True, min_size=1, max_size=2))
    check_dead(draft.variables, kept)


def check_unrolled(variables: Variables) -> None:
    """Without plates, each member a vector of its own: the same second moments."""
    program = Program("unrolled", **variables)
    flat = program.unroll()
    vectors = [n for n, t in variables.items() if t.width is not None]
    names = ["_".join((n, *(str(m.at) for m in at))) for n in vectors for at in places(variables[n])]
    check_equal(second_moments({n: variables[n] for n in vectors}), second_moments({n: flat[n] for n in names}))


@settings(max_examples=12)
@given(small)
def test_unrolled_programs_have_the_same_limit(draft: Draft) -> None:
    check_unrolled(draft.variables)


Permutations = dict[str, tuple[int, ...]]


def relabelled(variables: Variables, order: Permutations) -> Variables:
    """Every member k of a plate called order[k]: members, tables, comparisons, positions, given covariances.

    Comparisons and positions become tables, and every vector with an index gets a covariance that tells its members apart.
    """

    def permuted(values: np.ndarray, slots: Sequence[Slot]) -> Any:
        """Entry (k, ..) stands at (order[k], ..)."""
        return nest(values[np.ix_(*(np.argsort(order[s.plate.name]) for s in slots))].tolist())

    def finish(term: Term) -> Term:
        op, own, sizes = term.op, term.own, [extent(s.plate) for s in term.own]
        name = op.identity.replace(" ", "")
        if isinstance(op, Table):
            new: Op = Table(op.name, permuted(np.array(op.values), own))
        elif isinstance(op, Compare):
            new = Table(name, permuted(RELATIONS[op.relation](*np.indices(sizes)).astype(float), own))
        elif isinstance(op, Offset):
            new = Table(name, permuted(np.subtract(*np.indices(sizes)).astype(float), own))
        elif isinstance(op, Input) and own:
            root = np.random.default_rng(list(op.name.encode())).integers(-2, 3, (*sizes, 2)) / 2
            apart = np.diag(np.arange(1.0, 1 + np.prod(sizes))) / 7  # no two members of one variance
            cov = np.tensordot(root, root, (-1, -1)) + apart.reshape(sizes * 2)
            new = replace(op, cov=permuted(cov, own * 2))
        else:
            return term
        return make(new, own, (), (), term.width, term.slots)

    def slot(s: Slot) -> Slot:
        return Member(s.plate, order[s.plate.name][s.at]) if isinstance(s, Member) else s

    memo: dict[bytes, Term] = {}
    return {name: rebuild(term, lambda op: op, slot, memo, finish) for name, term in variables.items()}


def nest(values: Any) -> Any:
    return tuple(map(nest, values)) if isinstance(values, list) else values


def check_relabelled(variables: Variables, order: Permutations) -> None:
    """Members called by other names: second moments of vectors, covariances of scores and constants at the new names."""
    moments = Moments()
    same = {plate: tuple(range(len(p))) for plate, p in order.items()}
    before, after = relabelled(variables, same), relabelled(variables, order)
    chosen = [(n, at) for n, t in before.items() for at in places(t)]

    def members(of: Variables, keep: Callable[[Term], bool], to: Permutations) -> list[Term]:
        found = [(n, at) for n, at in chosen if keep(before[n])]
        at = [(n, [Member(m.plate, to[m.plate.name][m.at]) for m in at]) for n, at in found[:: 1 + len(found) // MOST]]
        return [of[n].at(dict(zip(before[n].free, where, strict=True))) for n, where in at]

    for keep, found in (
        (lambda t: t.width is not None and not moments.scored(t), moments_of),
        (lambda t: is_score(t) and not any(map(moments.scored, t.args[:2])), covariances_of),
        (lambda t: t.width is None and not moments.scored(t), constants_of),
    ):
        check_equal(found(members(before, keep, same)), found(members(after, keep, order)))


def covariances_of(scores: list[Term]) -> np.ndarray | None:
    moments = Moments()
    return values_of(moments, [score_covariance(moments, p, q) for p in scores for q in scores])


def constants_of(members: list[Term]) -> np.ndarray | None:
    return values_of(Moments(), [scalar(t) for t in members])


def values_of(moments: Moments, polys: list[Poly]) -> np.ndarray | None:
    """Numbers that no score has a part in."""
    at, _ = next(iter(Engine(moments).replicates([], Sampling(REPLICATES, seed_of(0)))))
    found = np.array([at.poly(poly, ()).data.reshape(-1)[0] for poly in polys])
    return None if at.sampled else found


@settings(max_examples=25)
@given(programs(statements=5), st.data())
def test_permuting_the_members_of_plates(draft: Draft, data: st.DataObject) -> None:
    sizes = {i.plate.name: extent(i.plate) for i in draft.letters}
    order = {plate: tuple(data.draw(st.permutations(range(size)))) for plate, size in sizes.items()}
    check_relabelled(draft.variables, order)


def check_kernel(variables: Variables) -> None:
    """Second moments are a symmetric matrix without negative eigenvalues."""
    found = second_moments(variables)
    if found is None or not found.size:
        return
    check_equal(found, found.T)
    if np.linalg.eigvalsh((found + found.T) / 2).min() < -ROUNDING * max(1.0, np.trace(found)):
        raise Deviates("an eigenvalue is negative")


@settings(max_examples=25)
@given(programs(statements=4))
def test_kernels_are_symmetric_and_positive(draft: Draft) -> None:
    check_kernel(draft.variables)


def check_mask(text: str) -> None:
    """What lives outside the mask of a score is not in its printed covariance."""
    if "δ(i,j)" in text or text.count(" + ") != 1:
        raise Deviates(text)


def masked_score() -> str:
    i, j = Plate("token", 3).indices("i j")
    Y, z = matrix("Y", i), vector("z")
    return Program("masked", p=dot(Y @ z, Y[j] @ z, where=distinct(i, j) & distinct(j, i))).limit()["p"].text()


def test_entries_outside_a_mask_are_not_printed() -> None:
    check_mask(masked_score())


def check_either() -> None:
    """Where i < j or j < i, scores of one matrix have the covariances that they have where i and j are distinct."""
    i, j = Plate("token", 2).indices("i j")
    Y, z = matrix("Y", i), vector("z")
    for where in ((i < j) | (j < i), ~((i <= j) & (j <= i)), distinct(i, j)):
        covariance = Program("either", p=dot(Y @ z, Y[j] @ z, where=where)).limit().covariance("p").value
        if not covariance[0, 1, 0, 1] == covariance[0, 1, 1, 0] == 1:
            raise Deviates(f"{covariance[0, 1]}")


def test_either_of_two_predicates_is_no_conjunction() -> None:
    check_either()


# ------------------------------------------------------------------------------------------------------------- mutants

TOKEN = Plate("token", 2)
i, j = TOKEN.indices("i j")
X = vector("x", i, cov=[[1, 0.5], [0.5, 2]], mean=0.5)
CODE = "i, j = Plate('token', 2).indices('i j')\nx = vector('x', i)\na = matrix('Wa') @ x\nb = matrix('Wb') @ x"
Mutant = Callable[[pytest.MonkeyPatch], None]


def tied_by_first_letter(patch: pytest.MonkeyPatch) -> None:
    """Matrices whose names begin alike are one."""
    right = semantics.source
    patch.setattr(semantics, "source", lambda op: op.matrix.name[:1].encode() if isinstance(op, MatMul) else right(op))


def the_first_statement(patch: pytest.MonkeyPatch) -> None:
    """Means are those of the statement that stands first."""
    patch.setattr(Limit, "known", lambda self, name: next(iter(self.variables)))


def kinds_by_position(patch: pytest.MonkeyPatch) -> None:
    """The kind of a variable is that of the last statement."""
    right = Limit.__getitem__
    patch.setattr(Limit, "__getitem__", lambda self, name: right(self, list(self.variables)[-1]))


def one_copy(patch: pytest.MonkeyPatch) -> None:
    """Copies of a matrix are one."""
    patch.setattr("netsor.rules.matmul.same", lambda left, right: Poly((Mono(1),)))


def one_sided_prior(patch: pytest.MonkeyPatch) -> None:
    """Cov(x_i, x_j) read at (i, i)."""
    right = semantics.cumulant

    def cumulant(op: Any, terms: tuple[Term, ...], at: Moments) -> Poly:
        return right(op, (terms[0],) * len(terms) if isinstance(op, Input) else terms, at)

    patch.setattr(semantics, "cumulant", cumulant)


def member_0_for_all(patch: pytest.MonkeyPatch) -> None:
    """x[k] read as x[0]."""
    right = Named.relabel

    def relabel(self: Named, to: dict[Slot, Slot]) -> Named:
        return right(self, {s: Member(t.plate, 0) if isinstance(t, Member) else t for s, t in to.items()})

    patch.setattr(Named, "relabel", relabel)


def positions_for_tables(patch: pytest.MonkeyPatch) -> None:
    """Entries of a table in the order of their size."""
    right = interpreter.table
    patch.setattr(interpreter, "table", lambda values, own: right(np.sort(values, axis=0), own))


def outside_masks_too(patch: pytest.MonkeyPatch) -> None:
    """No term of a covariance is dropped for a mask."""
    patch.setattr("netsor.algebra.scores.conjuncts", lambda mask: [])


def either_as_both(patch: pytest.MonkeyPatch) -> None:
    """Of alternatives all must hold."""
    patch.setattr("netsor.ir.OR", replace(OR, numpy=AND.numpy))


def covariances_four_times(patch: pytest.MonkeyPatch) -> None:
    """Of different members: more than their variances allow."""
    right = interpreter.table
    patch.setattr(interpreter, "table", lambda values, own: right(np.array(values) * (4 - 3 * np.eye(2)), own))


PAIR = {"x": X, "y": relu(X) + 1, "p": dot(matrix("P") @ X, matrix("R") @ X[j])}


@pytest.mark.parametrize(
    ("mutant", "check", "args"),
    [
        (tied_by_first_letter, check_objects_renamed, (CODE.replace("Wb", "Vb"), ["a", "b"])),
        (the_first_statement, check_reordered, ({"x": X, "y": relu(X) + 1}, ["y", "x"])),
        (kinds_by_position, check_dead, (PAIR, ["x"])),
        (one_copy, check_unrolled, ({"g": matrix("C", i) @ X[j]},)),
        (one_sided_prior, check_kernel, ({"x": X},)),
        (covariances_four_times, check_kernel, ({"x": X},)),
        (member_0_for_all, check_relabelled, ({"y": X[0] + vector("v", i)[1]}, {"token": (1, 0)})),
        (positions_for_tables, check_relabelled, ({"y": table("c", i, values=[1, 2]) * X}, {"token": (1, 0)})),
        (outside_masks_too, lambda: check_mask(masked_score()), ()),
        (either_as_both, check_either, ()),
    ],
)
def test_a_mutant_breaks_its_law(mutant: Mutant, check: Callable[..., None], args: tuple, monkeypatch: Any) -> None:
    check(*args)
    mutant(monkeypatch)
    assert_detects(check, *args)
