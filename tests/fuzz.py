"""Coverage-guided fuzzing of program files and of programs as data.

    python tests/fuzz.py --seconds 900 --seed 1

The corpus starts with the programs that come with netsor, as Python and as JSON. A step takes a text of the corpus, changes
it (a node of the syntax tree or of the JSON is left out, doubled, exchanged with another, or replaced by an atom, a name or a
node of another text), loads, checks, derives and prints it, and asks for a few numbers. A text that reaches a line of netsor/
that none before it has reached joins the corpus. Findings: what escapes and is no NetsorError, a number that is not finite,
and what takes longer than SECONDS to load, check, derive or print.

Deterministic from the seed, but for steps at the time limit.
"""

from __future__ import annotations

import argparse
import ast
import json
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import netsor
from netsor import NetsorError, Program
from netsor.loading import load
from netsor.numeric.named import extent

HERE = Path(__file__).resolve()
HOUSE = str(Path(netsor.__file__).parent)
PROGRAMS = sorted((HERE.parent.parent / "programs").glob("*.py"))
SMALL = [
    """
def mutant(n=2):
    i, j, k = Plate("token", n).indices("i j k")
    a, b = Plate("head", 2).indices("a b")
    x = vector("x", i, cov=[[1, 0.5], [0.5, 2]], mean=0.5)
    g = matrix("W", a, sigma=param("s", 2)) @ x
    t = table("t", i, values=[1, -0.5])
    y = sum_over(t * g[b] * (i - j), b, where=distinct(a, b) | (i <= j)) - x[0] / sqrt(i.plate.size)
    return Program("small", x=x, y=y, z=y[0, i, k])
""",
    """
def mutant():
    i, j = Plate("token", 2, "T").indices("i j")
    x = vector("x", i)
    p = dot(matrix("Q") @ x, matrix("K") @ x[j], where=j <= i)
    A = softmax(p, over=j, where=j <= i)
    return Program("small", p=p, y=x + sum_over(A * x[j], j), m=mean(x * x[j]), t=max_over(p, j, where=~(i < j)))
""",
    """
def mutant(n=3):
    x = vector("x", mean=param("c", 0.5))
    h = tanh(matrix("W", sigma=0.5) @ x + 1)
    for k in range(n):
        h = [relu, erf, clip(2)][k](matrix(f"V{k}") @ h) + h
    d = h - mean(h)
    return Program("small", h=h, d=d, v=mean(d * d), n=layernorm(h), r=rmsnorm(h, eps=0.1))
""",
    """
def mutant():
    i = Plate("expert", 2).index("i")
    j = i.prime
    W, x = matrix("W"), vector("x")
    g = matrix("G", i) @ x
    s = W.T @ relu(W @ x)
    f = elementwise(lambda u, v: u * v, "product")
    return Program("small", s=dot(g, matrix("P") @ x), m=mean_over(g, i), e=exp(-mean(g * g)), q=elu(0.5)(g[0]), r=rbf(1)(g))
""",
    """
def mutant():
    N = Width("n", 2)
    x = vector("x", law=unknown, mean=0)
    i = Plate("open").index("i")
    y = vector("y", i, cov=2)
    p = param("beta") * sum_over(y, i) ** 2
    return Program("small", p=p, a=abs(y) / (1 + mean(abs(y))), b=hermite(2)(y) + leaky_relu(0.1)(y), c=step(y[0]), d=gelu(y))
""",
]
SECONDS = 10
MEMBERS = 64  # of a variable whose numbers are asked for
CLOSED = 0.2  # share of the steps that ask for closed forms and numbers, which cost most
CHANGES = (1, 1, 1, 2, 3)  # in a step
LONGEST = 20_000  # characters of a text in the corpus
COSTLIEST = 1.5  # seconds of a text in the corpus


# ---------------------------------------------------------------------------------------------------------------- coverage


class Coverage:
    """Lines of netsor/ that have been reached. A function all of whose lines are known is not traced any more."""

    def __init__(self) -> None:
        self.missing: dict[CodeType, set[int]] = {}
        self.lines = 0
        self.new = 0

    def call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(HOUSE):
            return None
        if code not in self.missing:
            self.missing[code] = {line for _, _, line in code.co_lines() if line is not None} - {code.co_firstlineno}
        return self.line if self.missing[code] else None

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        missing = self.missing[frame.f_code]
        if event == "line" and frame.f_lineno in missing:
            missing.remove(frame.f_lineno)
            self.lines += 1
            self.new += 1
        return self.line

    @contextmanager
    def traced(self) -> Iterator[None]:
        self.new = 0
        before = sys.gettrace()
        sys.settrace(self.call)
        try:
            yield
        finally:
            sys.settrace(before)


# ---------------------------------------------------------------------------------------------------------------- mutation

ATOMS = ["0", "1", "-1", "2", "3", "0.5", "1e300", "-0.0", "10**30", "None", "True", "''", "'x'", "()", "[]", "{}", "oo"]
ATOMS += ["relu", "tanh", "dot", "mean", "softmax", "matrix", "vector", "param('c', 2)", "param('c')", "i", "j", "a", "x", "y"]
LANGUAGE = ("netsor.ir", "netsor.rules", "netsor.functions", "netsor.binding")
FUNCTIONS = [name for name in dir(netsor) if getattr(getattr(netsor, name), "__module__", "").startswith(LANGUAGE)]
DATA: list[Any] = [0, 1, -1, 2, 3, 0.5, 1e300, -0.0, 10**30, None, True, "", "x", "@0", "1/3", "oo", [], {}, [0], [[0]]]
DATA += [{"const": 1}, {"param": {"name": "c", "value": None}}, "dot", "mean", "offset", "average"]


class Expressions(ast.NodeTransformer):
    """The expressions of a tree that stand where a value is read, in order; one of them replaced."""

    def __init__(self, at: int = -1, by: ast.expr | None = None) -> None:
        self.found: list[ast.expr] = []
        self.at, self.by = at, by

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            self.found.append(node)
            if len(self.found) - 1 == self.at:
                return deepcopy(self.by)
        return self.generic_visit(node)


def expressions(tree: ast.AST) -> list[ast.expr]:
    walk = Expressions()
    walk.visit(tree)
    return walk.found


def bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    return [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.If | ast.For)]


def changed_code(random: Random, text: str, other: str) -> str:
    tree, donor = ast.parse(text), ast.parse(other)
    places, values = expressions(tree), expressions(donor)
    how = random.choice(["atom", "other", "own", "own", "name", "name", "name", "child", "wrapped", "statement"])
    if how == "statement" or not places or not values:
        body = random.choice(bodies(tree))
        k = random.randrange(len(body))
        match random.choice(["out", "twice", "exchanged", "another"]):
            case "out" if len(body) > 1:
                del body[k]
            case "twice":
                body.insert(random.randrange(len(body)), deepcopy(body[k]))
            case "another":
                body.insert(k, deepcopy(random.choice(random.choice(bodies(donor)))))
            case _:
                m = random.randrange(len(body))
                body[k], body[m] = body[m], body[k]
    else:
        names = [k for k, n in enumerate(places) if isinstance(n, ast.Name)]
        k = random.choice(names) if how == "name" and names else random.randrange(len(places))
        inner = [n for n in ast.iter_child_nodes(places[k]) if isinstance(n, ast.expr)]
        by: ast.expr = ast.parse(random.choice(ATOMS), mode="eval").body
        if how == "other":
            by = random.choice(values)
        elif how == "own":
            by = random.choice(places)
        elif how == "name" and names:
            by = random.choice([places[random.choice(names)], ast.Name(random.choice(FUNCTIONS), ast.Load())])
        elif how == "child" and inner:
            by = random.choice(inner)
        elif how == "wrapped" and isinstance(places[k], ast.Call):
            by = deepcopy(places[k])
            by.args[:1] = [deepcopy(places[k])]  # f(x) as f(f(x))
        tree = Expressions(k, by).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


Place = tuple[Any, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, inner in items:
        yield from places(inner, (*at, k))


def get(value: Any, at: Place) -> Any:
    for k in at:
        value = value[k]
    return value


def changed_data(random: Random, text: str, other: str) -> str:
    root, donor = json.loads(text), json.loads(other)
    inner = [at for at in places(root) if at]
    if not inner:
        return json.dumps(random.choice(DATA))
    at = random.choice(inner)
    holder, k = get(root, at[:-1]), at[-1]
    match random.choice(["atom", "atom", "near", "other", "own", "out", "twice", "exchanged", "key"]):
        case "atom":
            holder[k] = deepcopy(random.choice(DATA))
        case "near" if isinstance(holder[k], int):
            holder[k] += random.choice([-1, 1])
        case "own":
            holder[k] = deepcopy(get(root, random.choice(inner)))
        case "out":
            del holder[k]
        case "twice" if isinstance(holder, list):
            holder.insert(random.randrange(len(holder)), deepcopy(holder[k]))
        case "exchanged":
            m = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            holder[k], holder[m] = holder[m], holder[k]
        case "key" if isinstance(holder, dict):
            keys = [place[-1] for place in places(donor) if place and isinstance(place[-1], str)]
            holder[random.choice(keys or ["x"])] = holder.pop(k)
        case _:
            holder[k] = deepcopy(get(donor, random.choice(list(places(donor)))))
    return json.dumps(root)


# ----------------------------------------------------------------------------------------------------------------- running


class Slow(BaseException):
    """Passes by everything that catches Exception."""


class NotFinite(Exception):
    """A number that is no number."""


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def use(file: Path, closed: bool) -> None:
    """Loaded, checked, written, derived and printed; and perhaps in closed form, and a few numbers."""
    program = load(file, {})
    assert str(program)
    with suppress(NetsorError):  # Python functions are no data
        assert str(Program.from_json(program.to_json())) == str(program)
    if any(d.severity == "refused" for d in program.check()):
        assert all(str(d) for d in program.check())
        return
    limit = program.limit()
    assert str(limit)
    assert not closed or limit.text("closed")
    for variable in limit.variables:
        assert limit[variable].latex()
        assert limit[variable].sympy is not None
        assert limit[variable].explain()
        if closed:
            with suppress(NetsorError):
                numbers(limit, variable)


def numbers(limit: Any, name: str) -> None:
    """Mean and covariance of a small variable are finite."""
    if np.prod([float(extent(i.plate)) for i in limit.variables[name].free]) > MEMBERS:
        return
    for asked in (limit.mean, limit.covariance):
        value = asked(name, runs=16)
        if not (np.isfinite(value.value).all() and np.isfinite(value.error).all()):
            raise NotFinite(f"{asked.__name__} of {name}: {value.value}")


def escaped(error: BaseException, file: Path) -> BaseException | None:
    """What is to be found: not a NetsorError; nor what the code of the file itself raised, which NS310 reports."""
    if not isinstance(error, NetsorError):
        return error
    cause = error.__cause__
    if not isinstance(cause, Exception) or isinstance(cause, NetsorError | SyntaxError) or file.suffix != ".py":
        return None
    frames = [f.filename for f in traceback.extract_tb(cause.__traceback__)]
    last = max((k for k, name in enumerate(frames) if name == str(file)), default=len(frames))
    inside = [name for name in frames[last + 1 :] if name.startswith(HOUSE)]
    message = str(cause)
    theirs = isinstance(cause, TypeError) and ("argument" in message or "unsupported operand" in message)
    return cause if inside and not theirs else None


@dataclass
class Finding:
    """An error, and the text that raises it."""

    kind: str
    suffix: str
    text: str
    trace: str

    @property
    def key(self) -> str:
        return f"{self.kind}\n{self.trace}"


class Text(NamedTuple):
    """A text of the corpus, and the seconds that it takes."""

    suffix: str
    text: str
    cost: float


@dataclass
class Fuzzer:
    """The corpus, and what has been found."""

    seed: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    corpus: list[Text] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    steps: int = 0
    kept: int = 0
    loaded: int = 0
    slow: int = 0

    def run(self, steps: int, seconds: float = float("inf"), told: Callable[[str], None] = lambda _: None) -> Fuzzer:
        random = Random(self.seed)
        end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.start(Path(folder))
            told(f"{len(self.corpus)} texts reach {self.coverage.lines} lines")
            while self.steps < steps and time.monotonic() < end:
                self.step(random, Path(folder), told)
        return self

    def start(self, folder: Path) -> None:
        header = "from netsor import *\n"
        codes = [header + code for code in SMALL]
        codes += [small(file.read_text(encoding="utf-8"), file.stem) for file in PROGRAMS]
        for code in codes:
            file = folder / "mutant.py"
            file.write_text(code, encoding="utf-8")
            data = None
            with suppress(NetsorError):
                data = load(file, {}).to_json()
            for suffix, text in ((".py", code), (".json", data)):
                if text is not None:
                    _, cost = self.attempt(suffix, text, folder, code in codes[: len(SMALL)])
                    self.corpus.append(Text(suffix, text, cost))

    def step(self, random: Random, folder: Path, told: Callable[[str], None]) -> None:
        self.steps += 1
        among = self.corpus[-40:] if random.random() < 0.3 else self.corpus
        suffix, text, _ = min(random.choices(among, k=2), key=lambda t: len(t.text))  # short ones are cheap
        change = changed_code if suffix == ".py" else changed_data
        for _ in range(random.choice(CHANGES)):
            other = random.choice([t.text for t in self.corpus if t.suffix == suffix])
            with suppress(ValueError, RecursionError):  # no code any more: take it as it was
                text = change(random, text, other)
        found, cost = self.attempt(suffix, text, folder, random.random() < CLOSED)
        if found is not None and found.key not in self.findings:
            self.findings[found.key] = found
            told(f"step {self.steps}: {found.kind}\n{found.trace}\n{found.text if len(found.text) < 3000 else ''}")
        elif self.coverage.new and found is None and cost < COSTLIEST and len(text) < LONGEST:
            self.corpus.append(Text(suffix, text, cost))
            self.kept += 1
            told(f"step {self.steps}: {self.coverage.lines} lines, {len(self.corpus)} texts, {self.loaded} derived")

    def attempt(self, suffix: str, text: str, folder: Path, closed: bool) -> tuple[Finding | None, float]:
        """One text used; what was found, and the seconds that it took."""
        file = folder / f"mutant{suffix}"
        file.write_text(text, encoding="utf-8", errors="replace")
        start = time.monotonic()
        try:
            with self.coverage.traced(), bounded(SECONDS):
                use(file, closed)
            self.loaded += 1
        except Slow:
            return self.slowly(suffix, text, file, closed), SECONDS
        except Exception as error:
            real = escaped(error, file)
            if real is not None:
                return Finding(f"{type(real).__name__}: {str(real)[:200]}", suffix, text, where(real)), time.monotonic() - start
        return None, time.monotonic() - start

    def slowly(self, suffix: str, text: str, file: Path, closed: bool) -> Finding | None:
        """Is it slow without tracing too? Loops of the file itself, and integrals of several variables, may be."""
        try:
            with bounded(SECONDS):
                use(file, closed)
        except Slow as error:
            frames = traceback.extract_tb(error.__traceback__)
            if any(f.filename == str(file) or f.name == "numbers" for f in frames):
                self.slow += 1
                return None
            return Finding(f"more than {SECONDS} seconds", suffix, text, where(error, 3))
        except Exception:
            return None
        return None


def small(code: str, name: str) -> str:
    """The function of a program file under the name of the file that mutants are written to, sizes at most 2."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.name = "mutant"
            for value in node.args.defaults:
                if isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value > 2:
                    value.value = 2
    return ast.unparse(tree)


def where(error: BaseException, most: int = 2) -> str:
    """The last places in netsor/, by function: the same for equal defects."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(HOUSE)]
    if isinstance(error, Slow):
        frames = frames[:6]
    return "\n".join(f"  {Path(f.filename).name}: {f.name}" for f in frames[-most:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzzer = Fuzzer(options.seed).run(options.steps, options.seconds, lambda text: print(text, flush=True))
    print(
        f"{fuzzer.steps} steps, {fuzzer.loaded} derived, {fuzzer.kept} kept; "
        f"{fuzzer.coverage.lines} lines; {fuzzer.slow} slow; {len(fuzzer.findings)} findings"
    )


if __name__ == "__main__":
    main()
