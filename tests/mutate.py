"""Small wrong versions of a file of the library, one at a time: which of them does no test notice?

    python tests/mutate.py netsor/rules/matmul.py netsor/algebra/scores.py --tests tests/test_refusals.py tests/laws

Comparisons are turned round, + and - exchanged, terms of a sum dropped, 0 and 1 exchanged, conditions negated, and the
operands of `and` and `or` dropped. Each mutant runs in a copy of the tree, until the first failing test. What survives is
either equal to the original (say why, in docs/validation.md) or a hole in the tests.
"""

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

ROOT = Path(__file__).parent.parent
TESTS = [
    "tests/laws/test_whole_programs.py::test_entries_outside_a_mask_are_not_printed",
    "tests/test_refusals.py",
    "tests/test_printed.py",
    "tests/laws/test_algebra.py",
    "tests/infinite/test_forms.py",
]
TURNED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
EXCHANGED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}


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


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, what was changed, the text of the file)."""
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        for parent_field, value in ast.iter_fields(node):
            for k, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST):
                    continue
                for wrong in changes(child):
                    line = getattr(child, "lineno", 0)
                    was, now = (first_line(x) for x in (child, wrong))
                    place(node, parent_field, k, wrong)
                    yield line, f"{was}  ->  {now}", ast.unparse(ast.fix_missing_locations(tree))
                    place(node, parent_field, k, child)


def first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]


def place(node: ast.AST, name: str, k: int, value: ast.AST) -> None:
    if isinstance(getattr(node, name), list):
        getattr(node, name)[k] = value
    else:
        setattr(node, name, value)


def run(tree: Path, tests: list[str], limit: float) -> bool:
    """Do all tests pass? A mutant that takes too long is noticed."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "CI": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]
    try:
        return subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=limit).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--most", type=int, default=0, help="at most so many mutants a file, drawn with a fixed seed")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one mutant")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", ".*_cache"))
        assert run(tree, options.tests, options.limit), "the tests fail without any change"
        for file in options.files:
            source = (ROOT / file).read_text(encoding="utf-8")
            found = list(mutants(source))
            if 0 < options.most < len(found):
                found = sorted(Random(0).sample(found, options.most))
            survivors = []
            start = time.monotonic()
            for line, change, text in found:
                (tree / file).write_text(text, encoding="utf-8")
                if run(tree, options.tests, options.limit):
                    survivors.append((line, change))
                    print(f"{file}:{line}: survives: {change}", flush=True)
            (tree / file).write_text(source, encoding="utf-8")
            seconds = time.monotonic() - start
            print(f"{file}: {len(found) - len(survivors)} of {len(found)} noticed, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
