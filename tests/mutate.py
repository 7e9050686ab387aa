"""Small wrong versions of a file of the library, one at a time: which of them does no test notice?

    python tests/mutate.py netsor/algebra/scores.py netsor/rules/*.py

Comparisons are turned round, + and - exchanged, terms of a sum dropped, 0 and 1 exchanged, conditions negated, and the
operands of `and` and `or` dropped; not in decorators, annotations, assertions, the text of errors and `strict` of zip.

The tests run once, to learn which test runs which statement and how long it takes. Each mutant is
then a forked child in which the code of the functions is exchanged; the tests that run the statement follow, those that
noticed most in this file first, then those of the folder that mirrors its own, then the quickest, until one fails. A mutant
survives when all pass that fit into --seconds, none longer than LONGEST. What survives is equal to the original (then
survivors.toml says why) or a hole in the tests.
"""

import __future__

import argparse
import ast
import copy
import gc
import os
import pickle
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parent.parent
EXPLAINED = Path(__file__).parent / "survivors.toml"
LONGEST = 10.0
MEMORY = 6 << 30
TESTS = [  # those that are near to the rules and quick
    "tests/algebra", "tests/rules", "tests/laws", "tests/test_growth.py", "tests/test_refusals.py", "tests/test_repairs.py",
    "tests/test_printed.py", "tests/test_ir.py", "tests/test_many.py", "tests/symbolic", "tests/infinite/test_forms.py",
    "tests/infinite/test_covariances.py",
]  # fmt: skip
TURNED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
EXCHANGED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
SPARED = {"statement", "hypothesis", "consequence", "repair", "strict"}
HITS = "__hits__"
Learnt = tuple[dict[str, float], dict[str, dict[int, set[str]]]]


@dataclass
class Mutant:
    name: str
    line: int
    statement: int  # the line at which the innermost statement around it begins; 0 outside of functions
    tree: ast.Module


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Wrong versions of one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.Compare(node.left, [TURNED[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in EXCHANGED:
            yield ast.BinOp(node.left, EXCHANGED[type(node.op)](), node.right)
        if isinstance(node.op, ast.Add):
            yield from (node.left, node.right)
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1):
        yield ast.Constant(1 - node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.BoolOp):
        yield from (
            ast.BoolOp(node.op, [v for v in node.values if v is not out]) for out in node.values if len(node.values) > 2
        )
        yield from (node.values if len(node.values) == 2 else ())
    elif isinstance(node, ast.If | ast.IfExp):
        wrong = copy.copy(node)
        wrong.test = ast.UnaryOp(ast.Not(), node.test)
        yield wrong


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """Each holds the same tree, changed only until the next one is asked for. Like changes in one function are numbered."""
    named: Counter[str] = Counter()

    def inside(node: ast.AST, function: str, statement: int) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{name_of(node)}".lstrip(".")
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "annotation", "returns"):
                continue
            for k, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or isinstance(child, ast.Assert) or is_spared(child):
                    continue
                body = isinstance(child, ast.stmt) and isinstance(node, ast.FunctionDef)
                begins = child.lineno if isinstance(child, ast.stmt) and (body or statement) else statement
                where = f"  in  {first_line(node)}" if isinstance(child, ast.Constant) else ""
                for wrong in changes(child):
                    was, now = (first_line(x) for x in (child, wrong))
                    place(node, name, k, wrong)
                    ast.fix_missing_locations(tree)
                    text = f"{function}: {was}  ->  {now}{where}"
                    named[text] += 1
                    number = f"  #{named[text]}" if named[text] > 1 else ""
                    yield Mutant(text + number, child.lineno, begins, tree)
                    place(node, name, k, child)
                yield from inside(child, function, begins)

    return inside(tree, "", 0)


def name_of(node: ast.FunctionDef | ast.ClassDef) -> str:
    """What it is registered for, where it has no name of its own."""
    return node.name if node.name != "_" else ast.unparse(node.decorator_list[0]).split(".")[-2]


def is_spared(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg in SPARED


def first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]


def place(node: ast.AST, name: str, k: int, value: ast.AST) -> None:
    if isinstance(getattr(node, name), list):
        getattr(node, name)[k] = value
    else:
        setattr(node, name, value)


def recorded(tree: ast.Module) -> ast.Module:
    """The same file, in which each statement of a function tells that it runs."""
    for function in [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]:
        for node in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and not (isinstance(block[0], ast.Expr) and HITS in first_line(block[0])):
                    setattr(node, name, [s for b in block for s in (*ast.parse(f"{HITS}.add({b.lineno})").body, b)])
    return ast.fix_missing_locations(tree)


class File:
    """A file of the library and its living functions."""

    def __init__(self, path: str) -> None:
        self.absolute = str(Path(path).resolve())
        self.path = str(Path(self.absolute).relative_to(ROOT.resolve()))
        self.source = Path(self.absolute).read_text(encoding="utf-8")
        functions = (f for f in gc.get_objects() if isinstance(f, FunctionType))
        self.functions = [f for f in functions if f.__code__.co_filename == self.absolute]

    def use(self, tree: ast.Module, line: int = 0) -> None:
        """Exchange the code of all functions, and what the line stands for outside of functions."""
        codes = {key(c): c for c in inner(compile(tree, self.absolute, "exec"))}
        for f in self.functions:
            if key(f.__code__) in codes:
                f.__code__ = codes[key(f.__code__)]
        if line:
            old = vars(sys.modules[self.path.removesuffix(".py").replace("/", ".")])
            new = dict(old)
            statements = [s for s in tree.body if s.lineno <= line <= (s.end_lineno or line)]
            exec(compile(ast.Module(statements, []), self.absolute, "exec", __future__.annotations.compiler_flag), new)
            exchange(old, new)


def exchange(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Constants, default arguments of functions and of methods, and the methods that dataclasses are given."""
    for name in [n for n in old.keys() & new.keys() if old[n] is not new[n]]:
        if isinstance(old[name], FunctionType):
            old[name].__defaults__, old[name].__kwdefaults__ = new[name].__defaults__, new[name].__kwdefaults__
            if old[name].__code__.co_filename == "<string>":
                old[name].__code__ = new[name].__code__
        elif isinstance(old[name], type) and isinstance(new[name], type):
            exchange(vars(old[name]), vars(new[name]))
        elif name.isupper():
            was = old[name]
            for module in list(sys.modules.values()):
                for alias in [a for a, value in vars(module).items() if value is was]:
                    setattr(module, alias, new[name])


def inner(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from (c, *inner(c))


def key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class Mutation:
    """A plugin of pytest: instead of running the tests once, it runs some of them for every mutant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out, self.child = options, os.fdopen(os.dup(1), "w"), False
        self.learning, self.unexplained = False, 0
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.learning:
            self.failed.add(report.nodeid)
        elif report.failed and self.child:
            os._exit(1)

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        files = [File(f) for f in self.options.files]
        gc.collect()
        gc.freeze()
        self.seconds, self.reached = self.learnt(files)
        self.say(f"{len(self.items)} tests, {sum(self.seconds.values()):.0f} s")
        for file in files:
            self.file(file)
        return True

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def learnt(self, files: list[File]) -> Learnt:
        """`coverage`, but of the new tests only where an earlier run has left a file."""
        store = self.options.learnt and Path(self.options.learnt)
        if not store:
            return self.coverage(files, list(self.items))
        seconds, reached = pickle.loads(store.read_bytes()) if store.exists() else ({}, {f.path: {} for f in files})
        more, lines = self.coverage(files, [n for n in self.items if n not in seconds])
        for path, tests in lines.items():
            for line in tests:
                reached[path].setdefault(line, set()).update(tests[line])
        seconds.update(more)
        store.write_bytes(pickle.dumps((seconds, reached)))
        mine = seconds.keys() & self.items.keys()
        return seconds, {path: {line: names & mine for line, names in tests.items()} for path, tests in reached.items()}

    def coverage(self, files: list[File], names: list[str]) -> Learnt:
        """The seconds of each test, and the tests that reach each statement of each file; learnt in a child."""
        read, write = os.pipe()
        if pid := os.fork():
            os.close(write)
            with os.fdopen(read, "rb") as stream:
                content = stream.read()
            os.waitpid(pid, 0)
            return pickle.loads(content)
        os.close(read)
        hits: dict[str, set[int]] = {f.path: set() for f in files}
        for f in files:
            for function in f.functions:
                function.__globals__[HITS] = hits[f.path]
            f.use(recorded(ast.parse(f.source)))
        seconds: dict[str, float] = {}
        reached: dict[str, dict[int, set[str]]] = {f.path: {} for f in files}
        self.quiet()
        self.learning = True
        for name in names:
            start = time.process_time()
            self.run([name])
            if name in self.failed:
                self.say(f"fails without any change, and is left out: {name}")
                continue
            seconds[name] = time.process_time() - start
            for path, lines in hits.items():
                for line in lines:
                    reached[path].setdefault(line, set()).add(name)
                lines.clear()
        with os.fdopen(write, "wb") as stream:
            pickle.dump((seconds, reached), stream)
        os._exit(0)

    def quiet(self) -> None:
        self.child = True
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)

    def run(self, names: list[str], limits: dict[str, float] | None = None, running: int | None = None) -> None:
        items = [self.items[n] for n in names]
        for item, then in zip(items, [*items[1:], None], strict=True):
            if limits and running is not None:
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * limits[item.nodeid])  # its signal ends the child
                os.pwrite(running, item.nodeid.encode().ljust(500), 0)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=then)

    def file(self, file: File) -> None:
        start = time.monotonic()
        explained = explanations(file.path)
        reached = self.reached[file.path]
        noticed: Counter[str] = Counter()
        total, survivors = 0, set()
        for mutant in mutants(ast.parse(file.source)):
            if self.options.match not in mutant.name:
                continue
            total += 1
            tests = self.chosen(file, reached.get(mutant.statement, set()) if mutant.statement else set(self.seconds), noticed)
            if by := self.noticed(file, mutant, tests):
                noticed[by] += 1
            else:
                survivors.add(mutant.name)
                if mutant.name not in explained:
                    self.unexplained += 1
                    self.say(f"{file.path}:{mutant.line}: {mutant.name}   [{len(tests)} tests]")
        for name in explained - survivors if not self.options.match else ():
            self.say(f"{file.path}: explained, and noticed or no longer there: {name}")
        noted = sum(noticed.values())
        self.say(f"{file.path}: {noted} of {total} noticed, {total - noted} survive, {time.monotonic() - start:.0f} s")

    def chosen(self, file: File, names: set[str], noticed: Counter[str]) -> list[str]:
        mirror = f"tests/{Path(file.path).parent.name}/"
        left = self.options.seconds
        chosen = []
        for name in sorted(names, key=lambda n: (-noticed[n], not n.startswith(mirror), self.seconds[n], n)):
            if self.seconds[name] <= min(left, LONGEST):
                left -= self.seconds[name]
                chosen.append(name)
        return chosen

    def noticed(self, file: File, mutant: Mutant, tests: list[str]) -> str:
        """The test that fails, or that ends the child; none when all pass."""
        running = os.memfd_create("running")
        pid = os.fork()
        if not pid:
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            self.quiet()
            file.use(mutant.tree, 0 if mutant.statement else mutant.line)
            self.run(tests, self.seconds, running)
            os._exit(0)
        ended = os.waitpid(pid, 0)[1]
        by = os.pread(running, 500, 0).decode().strip()
        os.close(running)
        return by if ended else ""


def explanations(path: str) -> set[str]:
    classes = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["class"] if EXPLAINED.exists() else []
    return {name for c in classes for name in c["survivors"].get(path, [])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--learnt", help="keep in this file which test runs what; delete it when a file of the library changes")
    parser.add_argument("--seconds", type=float, default=20, help="of tests for one mutant")
    parser.add_argument("--match", default="", help="only mutants whose name holds this text")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        fixed = {"PYTHONHASHSEED": "0", "CI": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **fixed})
    import pytest

    plugin = Mutation(options)
    arguments = ["-s", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *options.tests]
    ended = pytest.main(arguments, plugins=[plugin])
    return int(ended) or int(plugin.unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
