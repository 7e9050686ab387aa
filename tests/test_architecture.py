"""The house rules, read from the source: imports go down only, and each heavy library has its place."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import netsor

HOME = Path(netsor.__file__).parent
FILES = sorted(file for file in HOME.rglob("*.py") if "programs" not in file.relative_to(HOME).parts)

# From the bottom up. What stands in one line is side by side, and does not import each other.
LAYERS = """
    errors
    checks
    ops
    closed
    ir
    walks
    semantics
    algebra
    rules
    functions names
    many unroll
    binding
    data
    listing
    graph symbolic numeric
    runs
    infinite finite
    coupling
    jobs
    legality
    limit
    program
    figures
    simulation comparison loading expectation
    testing sweep
    report
    cli
"""
LEVEL = {name: level for level, line in enumerate(LAYERS.split("\n")) for name in line.split()}

UPWARDS = {("semantics", "algebra")}  # types in the signatures of questions that rules answer

LOCAL = {  # imports of the own package inside functions
    "__init__": "the lazy table of public names",
    "cli": "`netsor --help` imports click alone",
    "functions.elementwise": "sympy, which is slow to import, is needed for a user's Lambda alone",
    "symbolic.variable": "the same",
    "finite.engines": "numba is imported where it is asked for",
    "symbolic.derive": "formulas print as text and LaTeX without sympy, which is slow to import",
}

ALONE = {  # libraries and the only places for them; types may be named elsewhere
    "sympy": ["symbolic", "functions.elementwise", "functions.lambdas", "data"],
    "networkx": ["graph"],
    "matplotlib": ["figures"],
    "numba": ["finite.compiled"],
    "distributed": ["runs.cluster"],
    "xarray": ["numeric.draws"],
    "click": ["cli"],
    "rich": ["cli"],
    "hypothesis": ["testing.strategies", "testing.drafts", "testing.illegal"],
    "scipy": ["functions", "numeric", "runs", "testing"],
    "numpy": [
        "functions",
        "numeric",
        "infinite",
        "runs",
        "jobs",
        "finite",
        "limit",
        "coupling",
        "simulation",
        "figures",
        "comparison",
        "sweep",
        "expectation",
        "report",
        "testing",
    ],
}

LINES = 350
LONGER = {
    "numeric.quadrature": "the plan of a line, its rule and what the rule doubts: one algorithm",
    "ir": "letters, families and terms are defined by each other, and a term has every operator",
    "cli": "one function a command",
    "finite.rooms": "one plan: which vectors share a frame, and what it costs",
    "testing.convergence": "one test: what is looked at, at which widths, and the fit through them",
    "runs.reduce": "accumulators of one protocol: each with its state, its sum and its result",
}


class Import(NamedTuple):
    module: str  # without "netsor."
    name: str
    local: bool  # inside a function
    typing: bool  # under TYPE_CHECKING

    @property
    def own(self) -> str | None:
        """What is imported from the own package, without "netsor."; "" is the package itself."""
        head, _, rest = self.name.partition(".")
        return rest if head == "netsor" else None


def module_of(file: Path) -> str:
    parts = file.relative_to(HOME).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_of(file): ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


def imports(module: str) -> Iterator[Import]:
    """Every import statement of a module, `from a import b` as a.b where that is a module."""

    def walk(node: ast.AST, local: bool, typing: bool) -> Iterator[Import]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("netsor.") in MODULES else str(node.module) for name in inner]
        yield from (Import(module, name, local, typing) for name in names)
        local = local or isinstance(node, ast.FunctionDef | ast.Lambda)
        typing = typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for child in ast.iter_child_nodes(node):
            yield from walk(child, local, typing)

    return walk(MODULES[module], False, False)


IMPORTS = [found for module in MODULES for found in imports(module)]
OWN = [found for found in IMPORTS if found.own is not None]


def top(module: str) -> str:
    return module.partition(".")[0]


def lies_in(module: str, places: list[str]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in places)


def test_every_module_has_its_layer() -> None:
    assert {top(module) for module in MODULES} == {*LEVEL, "__init__"}


def test_imports_go_down_only() -> None:
    """Types too. Within a folder anything goes that Python can load."""
    pairs = {(top(found.module), top(found.own or "__init__"), found) for found in OWN}
    wrong = [
        found
        for user, used, found in pairs
        if user not in ("__init__", used)
        and used != "__init__"
        and LEVEL[used] >= LEVEL[user]
        and not (found.typing and (user, used) in UPWARDS)
    ]
    assert wrong == []


def test_modules_load_in_one_order() -> None:
    """No two modules import each other, at the top of the file."""
    graph: dict[str, set[str]] = {}
    for found in OWN:
        if not (found.local or found.typing):
            graph.setdefault(found.module, set()).add(found.own or "__init__")
    assert list(TopologicalSorter(graph).static_order())


def test_imports_of_the_package_stand_at_the_top() -> None:
    """Exceptions have a reason, and are still needed."""
    assert {found.module for found in OWN if found.local} | {"__init__"} == {*LOCAL}


@pytest.mark.parametrize("library", ALONE)
def test_each_library_has_its_place(library: str) -> None:
    users = {found.module for found in IMPORTS if top(found.name) == library and not found.typing}
    assert users
    assert {module for module in users if not lies_in(module, ALONE[library])} == set()


def integrators(tree: ast.AST) -> list[str]:
    """Where sympy is asked to integrate, or to know of random variables: names, attributes and imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {"integrate", "Integral", "stats"}:
            root = node.value
            found += [ast.unparse(node)] if isinstance(root, ast.Name) and root.id in {"sp", "sympy"} else []
            found += [ast.unparse(node)] if node.attr == "integrate" else []
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "sympy":
            wrong = {"integrate", "Integral", "stats"} & {alias.name for alias in node.names}
            deep = str(node.module).startswith(("sympy.stats", "sympy.integrals"))
            found += [ast.unparse(node)] if wrong or deep else []
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith(("sympy.stats", "sympy.integrals"))]
    return found


def test_closed_forms_are_our_own() -> None:
    """sympy prints and differentiates; it integrates nothing, and knows no random variables."""
    assert {module: found for module, tree in MODULES.items() if (found := integrators(tree))} == {}


@pytest.mark.parametrize(
    "line",
    ["sympy.integrate(f, x)", "f.integrate(x)", "from sympy import stats", "import sympy.stats", "from sympy.stats import E"],
)
def test_a_hidden_integral_is_seen(line: str) -> None:
    assert integrators(ast.parse(line))


def test_no_module_keeps_state() -> None:
    """Caches belong to the interpreter that fills them: a container at the top of a module is a constant."""
    containers = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
    makers = {"dict", "list", "set", "defaultdict", "deque", "Counter"}
    kept = [
        (module, target.id)
        for module, tree in MODULES.items()
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and not target.id.isupper() and target.id != "__all__"
        if isinstance(statement.value, containers)
        or (isinstance(statement.value, ast.Call) and ast.unparse(statement.value.func).split(".")[-1] in makers)
    ]
    assert kept == []
    assert not [m for m, tree in MODULES.items() if any(isinstance(node, ast.Global) for node in ast.walk(tree))]


def test_every_module_says_what_it_is() -> None:
    assert [module for module, tree in MODULES.items() if not ast.get_docstring(tree)] == []


def test_every_folder_is_a_package() -> None:
    assert {file.parent for file in FILES} == {file.parent for file in FILES if file.name == "__init__.py"}


def test_files_are_short() -> None:
    long = {module_of(file) for file in FILES if len(file.read_text(encoding="utf-8").splitlines()) > LINES}
    assert long == {*LONGER}
