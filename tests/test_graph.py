"""Graphs: attributes of nodes, index maps of edges, and DOT text."""

import re
import shutil
import subprocess
import sys

import networkx
import pytest

from netsor.errors import IllFormed
from netsor.functions import relu, softmax, sqrt, sum_over
from netsor.graph import digraph, dot, mermaid, picture, text
from netsor.ir import Plate, Term
from netsor.rules import dot as score
from netsor.rules import matrix, mean, vector

TOKEN, HEAD = Plate("token", 4), Plate("head", 2)
i, j = TOKEN.indices("i j")
a = HEAD.index("a")


@pytest.fixture
def attention() -> dict[str, Term]:
    x = relu(matrix("Win", i) @ vector("h"))
    q, k, v = (matrix(f"W{r}", a) @ x[letter] for r, letter in (("Q", i), ("K", j), ("V", j)))
    p = score(q, k)
    A = softmax(p, over=j, where=j <= i)
    y = sum_over(A * v, j, a) / sqrt(HEAD.size)
    return {"x": x, "q": q, "k": k, "p": p, "A": A, "y": y}


def test_nodes_are_families_in_postorder(attention: dict[str, Term]) -> None:
    graph = digraph(attention)
    assert networkx.is_directed_acyclic_graph(graph)
    order = {node: position for position, node in enumerate(graph)}
    assert all(order[child] < order[user] for child, user in graph.edges)
    assert set(attention) < set(graph)
    assert [node for node in graph if node not in attention] == [
        "Input_0", "MatMul_1", "Compare_2", "MatMul_3", "Map_4", "Along_5", "Along_6", "Size_7", "Map_8",
    ]  # fmt: skip
    assert list(graph.predecessors("Input_0")) == []


def test_attributes(attention: dict[str, Term]) -> None:
    nodes = digraph(attention).nodes
    assert nodes["q"] == {
        "rule": "MatMul",
        "sort": "vector",
        "indices": ("a", "i"),
        "plates": ("head", "token"),
        "bound": (),
        "matrix": "WQ",
        "name": "q",
        "slots": ("a", "i"),
        "label": "WQ[a] @ ·",
    }
    assert nodes["p"]["rule"] == "Dot"
    assert nodes["p"]["sort"] == "scalar"
    assert nodes["A"]["bound"] == ("j",)
    assert nodes["A"]["label"] == "softmax(·, over=j, where=·)"
    assert nodes["Compare_2"]["name"] is None
    assert nodes["Along_5"]["indices"] == ("a", "i")
    assert nodes["Along_5"]["label"] == "sum_over(·, j)"
    assert nodes["Size_7"]["label"] == "head.size"


def test_index_maps(attention: dict[str, Term]) -> None:
    edges = digraph(attention).edges
    assert edges["x", "k"] == {"position": (0,), "index_map": ({"i": "j"},)}
    assert edges["k", "p"] == {"position": (1,), "index_map": ({"a": "a", "j": "j"},)}
    assert edges["p", "A"]["index_map"] == ({"a": "a", "i": "i", "j": "j"},)  # to the j that A binds


def test_one_edge_for_all_uses() -> None:
    x = matrix("W") @ vector("h", i)
    edges = digraph({"x": x, "p": score(x, x[j])}).edges
    assert edges["x", "p"] == {"position": (0, 1), "index_map": ({"i": "i"}, {"i": "j"})}
    edges = digraph({"x": x, "d": score(x, x)}).edges
    assert edges["x", "d"] == {"position": (0, 1), "index_map": ({"i": "i"}, {"i": "i"})}


def test_a_bound_letter_apart_from_a_free_one() -> None:
    x = vector("x", i)
    p = score(matrix("WQ") @ x, matrix("WK") @ x[j])
    graph = digraph({"p": p, "y": sum_over(p, i)})
    assert (graph.nodes["y"]["indices"], graph.nodes["y"]["bound"]) == (("j",), ("i",))
    graph = digraph({"p": p, "y": sum_over(p, i)[i]})
    assert graph.nodes["y"]["bound"] == ("j",)
    assert graph.edges["p", "y"]["index_map"] == ({"i": "j", "j": "i"},)


def test_a_variable_at_a_member_names_the_family() -> None:
    x = relu(vector("h", i))
    graph = digraph({"x0": x[0], "m": mean(x[0])})
    assert graph.nodes["x0"]["indices"] == ("t",)
    assert graph.nodes["x0"]["slots"] == ("0",)
    assert "x0[t] at [0]" in text({"x0": x[0]})
    assert set(digraph({"x0": x[0], "x": x})) == {"Input_0", "x"}


def test_names_are_unique() -> None:
    x = vector("x")
    assert list(digraph({"Input_0": relu(x)})) == ["Input_1", "Input_0"]


def test_dot(attention: dict[str, Term]) -> None:
    lines = dot(attention, 'my "program"').splitlines()
    assert lines[0] == r'digraph "my \"program\"" {'
    assert lines[-1] == "}"
    assert r'    "p" [label="p[a,i,j]\ndot(·, ·)", shape=ellipse];' in lines
    assert r'    "q" [label="q[a,i]\nWQ[a] @ ·", shape=box];' in lines
    assert '  "x" -> "k" [label="i→j"];' in lines
    assert '  "x" -> "q";' in lines
    inside = lines[lines.index('  subgraph "cluster token" {') :]
    inside = inside[: inside.index("  }")]
    assert {line.split('"')[1] for line in inside[2:]} == {"MatMul_1", "x", "Compare_2", "Along_6", "y"}


def test_two_uses_in_dot() -> None:
    x = vector("x", i)
    assert '"x" -> "p" [label="=; i→j"];' in dot({"x": x, "p": score(x, x[j])}, "one")
    assert r'[label="x[i]\nvector(\"x\", i)", shape=box];' in dot({"x": x}, "one")


def test_text() -> None:
    x = vector("h", i)
    g = matrix("W") @ x
    assert (
        text({"g": g, "p": score(g, g[j])})
        == """\
nodes
  Input_0[i]  vector  h[i]
  g[i]        vector  W @ ·
  p[i,j]      scalar  dot(·, ·)
edges
  Input_0  ->  g
  g        ->  p  =; i→j"""
    )


def test_letters_of_interpreters_are_never_shown(attention: dict[str, Term]) -> None:
    for variables in (attention, {"y": attention["y"]}):
        assert not any(mark in shown for shown in (dot(variables, "one"), text(variables)) for mark in ("#", "@0", "@1"))


def test_networkx_is_imported_only_when_a_graph_is_asked_for() -> None:
    loaded = "import sys, netsor.graph, netsor.listing; print({'networkx', 'sympy', 'numpy'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_mermaid_has_a_line_for_each_node_and_edge(attention: dict[str, Term]) -> None:
    graph = digraph(attention)
    lines = mermaid(attention).splitlines()
    assert lines[0] == "flowchart BT"
    assert sum("-->" in line for line in lines) == graph.number_of_edges()
    assert sum(line.strip().startswith("subgraph") for line in lines) == len(
        {frozenset(p) for _, p in graph.nodes("plates") if p}
    )
    assert sum(bool(re.match(r" *n\d+[\[(]", line)) and "-->" not in line for line in lines) == len(graph)


@pytest.mark.parametrize(("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_pictures_come_from_graphviz_or_are_refused(
    attention: dict[str, Term], form: str, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("dot"):
        assert picture(attention, "attention", form).startswith(start)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(IllFormed, match="NS311"):
        picture(attention, "attention", form)
