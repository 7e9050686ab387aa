"""A program as a graph: one node a family, an edge from each family to those that use it."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from netsor.errors import IllFormed
from netsor.ir import Term, postorder
from netsor.listing import Part, Site, indexed, spell
from netsor.names import Names
from netsor.rules.matmul import MatMul
from netsor.walks import generic

if TYPE_CHECKING:
    import networkx

HOLE = Part("·")


def digraph(variables: Mapping[str, Term]) -> networkx.DiGraph:
    """One node for each family below the variables, in postorder; edges go from a family to its users.

    A node is called like its variable, else `rule_k`. Its attributes:

        rule     what stands at the root: Input, MatMul, Dot, Mean, Map, Along, Const, ...
        sort     vector or scalar
        indices  the letters of the family, distinct;  plates  the names of their plates;  bound  the letters bound here
        matrix   the name of the matrix of a MatMul, else None
        name     the variable, else None;  slots  the letters and members at which it stands, else None: x0 = x[0] names
                 the family x[i] at ("0",), if nothing more general does
        label    the operation with holes for its arguments: `WQ[a] @ ·`, `softmax(·, over=j)`

    An edge stands for all uses of a family in one other: `position` are the places among the arguments, and `index_map`
    has for each of them a dict from the letters of the child to those of the user, free or bound there. Members are no
    letters: they stand only in the slots of a variable.
    """
    import networkx  # a dependency of this module alone, and slow to import

    names = Names(variables)
    numbers = count()
    nodes: dict[bytes, str] = {}
    graph = networkx.DiGraph()
    for family in postorder(*variables.values()):
        name = names.variable(family)
        rule = type(family.op).__name__
        node = name or next(free for k in numbers if (free := f"{rule}_{k}") not in variables)
        nodes[family.key] = node
        term = names.readable(generic(family))
        letters = tuple(map(str, term.slots))
        bound, args = names.open(term, letters)
        graph.add_node(
            node,
            rule=rule,
            sort="scalar" if family.width is None else "vector",
            indices=letters,
            plates=tuple(p.name for p in family.plates),
            matrix=family.op.matrix.name if isinstance(family.op, MatMul) else None,
            name=name,
            slots=tuple(map(str, variables[name].slots)) if name else None,
            label=spell(family.op, Site(term, [HOLE] * len(args), bound, variables)).text,
            bound=tuple(map(str, bound)),
        )
        uses: defaultdict[str, list[tuple[int, dict[str, str]]]] = defaultdict(list)
        for position, arg in enumerate(args):
            child = nodes[arg.family.key]
            wires = zip(graph.nodes[child]["indices"], map(str, arg.slots), strict=True)
            uses[child].append((position, dict(wires)))
        for child, places in uses.items():
            positions, maps = zip(*places, strict=True)
            graph.add_edge(child, node, position=positions, index_map=maps)
    return graph


def dot(variables: Mapping[str, Term], name: str) -> str:
    """Graphviz DOT text. Boxes are vectors, ellipses scalars; families over the same plates stand in one cluster, and
    an edge shows where letters change."""
    graph = digraph(variables)
    clusters: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, data in graph.nodes(data=True):
        label = quoted(f"{heading(node, data)}\n{data['label']}")
        shape = "box" if data["sort"] == "vector" else "ellipse"
        clusters[tuple(sorted(set(data["plates"])))].append(f"{quoted(node)} [label={label}, shape={shape}];")
    lines = [f"digraph {quoted(name)} {{"]
    for plates, members in clusters.items():
        if plates:
            head = [f"subgraph {quoted('cluster ' + ' '.join(plates))} {{", f"  label={quoted(' × '.join(plates))};"]
            members = [*head, *indented(members), "}"]
        lines += indented(members)
    for child, user, data in graph.edges(data=True):
        moved = moves(data["index_map"])
        label = f" [label={quoted(moved)}]" if moved else ""
        lines.append(f"  {quoted(child)} -> {quoted(user)}{label};")
    return "\n".join([*lines, "}"])


def mermaid(variables: Mapping[str, Term]) -> str:
    """A Mermaid flowchart of the same picture: rectangles are vectors, stadiums scalars, subgraphs sets of plates."""
    graph = digraph(variables)
    place = {node: f"n{k}" for k, node in enumerate(graph)}
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, data in graph.nodes(data=True):
        label = entity(f"{heading(node, data)}<br/>{data['label']}")
        left, right = ("[", "]") if data["sort"] == "vector" else ("([", "])")
        groups[tuple(sorted(set(data["plates"])))].append(f'{place[node]}{left}"{label}"{right}')
    lines = ["flowchart BT"]
    for k, (plates, members) in enumerate(groups.items()):
        if plates:
            members = [f'subgraph g{k}["{entity(" × ".join(plates))}"]', *indented(members), "end"]
        lines += indented(members)
    for child, user, data in graph.edges(data=True):
        moved = moves(data["index_map"])
        arrow = f'-- "{entity(moved)}" -->' if moved else "-->"
        lines.append(f"  {place[child]} {arrow} {place[user]}")
    return "\n".join(lines)


def picture(variables: Mapping[str, Term], name: str, form: str) -> bytes:
    """The DOT text drawn by Graphviz, as svg or png. Raises: NS311 where Graphviz is not installed."""
    program = shutil.which("dot")
    if program is None:
        raise IllFormed(
            "NS311",
            statement=f"--format {form}",
            hypothesis="Graphviz draws it, and its program `dot` is not on the path",
            repair="install Graphviz, or ask for --format dot or mermaid",
        )
    done = subprocess.run([program, f"-T{form}"], input=dot(variables, name).encode(), capture_output=True, check=True)
    return done.stdout


def text(variables: Mapping[str, Term]) -> str:
    """The nodes, then the edges, one a line."""
    graph = digraph(variables)
    nodes = [(heading(node, data), data["sort"], data["label"]) for node, data in graph.nodes(data=True)]
    edges = [(child, "->", user, moves(data["index_map"])) for child, user, data in graph.edges(data=True)]
    return "\n".join(["nodes", *indented(aligned(nodes)), "edges", *indented(aligned(edges))])


def heading(node: str, data: Mapping[str, Any]) -> str:
    """The node with its letters, and the slots at which its variable stands if they are others."""
    special = data["slots"] not in (None, data["indices"])
    return indexed(node, data["indices"]) + (f" at [{','.join(data['slots'])}]" if special else "")


def moves(maps: Iterable[Mapping[str, str]]) -> str:
    """Where letters change, place by place: `i→j`. Empty if none does."""
    shown = [", ".join(f"{old}→{new}" for old, new in wires.items() if old != new) for wires in maps]
    return "; ".join(place or "=" for place in shown) if any(shown) else ""


def quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def entity(label: str) -> str:
    """A label as Mermaid takes it between quotes."""
    return label.replace('"', "#quot;").replace("`", "#96;")


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
