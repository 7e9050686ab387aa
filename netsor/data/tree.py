"""JSON text as a tree that knows where each part stands, within limits of size and depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from netsor.checks import identifier
from netsor.errors import IllFormed, NetsorError

BYTES = 2**25  # of a text
DEPTH = 64  # brackets within brackets
DIGITS = 2000  # of a number
LETTERS = 200  # of a name
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wrong:
    """Stands for a part of the text that is not data, until its place is known."""

    why: str


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the text and its path from the root, such as p.json: $.families[3].op"""

    value: Any
    source: str
    path: str = "$"

    def refuse(self, why: str, repair: str = "write programs with program.to_json()") -> NoReturn:
        raise unreadable(self.source, self.path, why, repair)

    def inner(self, key: str | int, value: Any) -> Node:
        return Node(value, self.source, f"{self.path}.{key}" if isinstance(key, str) else f"{self.path}[{key}]")

    def fields(self, needed: str, optional: str = "") -> dict[str, Node]:
        """The members of an object: all of `needed`, perhaps some of `optional`, and no others."""
        if not isinstance(self.value, Mapping):
            self.refuse(f"an object with the keys {needed} is expected, not {shown(self.value)}")
        known = [*needed.split(), *optional.split()]
        for key in self.value:
            if key not in known:
                self.refuse(f"there is no key {shown(key)} here; the keys are {', '.join(known)}")
        for key in needed.split():
            if key not in self.value:
                self.refuse(f"the key {key} is missing")
        return {key: self.inner(key, value) for key, value in self.value.items()}

    def choice(self) -> tuple[str, Node]:
        """The one member of an object {kind: what}."""
        if not isinstance(self.value, Mapping) or len(self.value) != 1:
            self.refuse(f"an object with one key is expected, not {shown(self.value)}")
        ((key, value),) = self.value.items()
        return key, self.inner(key, value)

    def items(self, most: int = 2**20) -> list[Node]:
        if not isinstance(self.value, list):
            self.refuse(f"a list is expected, not {shown(self.value)}")
        if len(self.value) > most:
            self.refuse(f"the list has {len(self.value)} entries, and {most} are the most")
        return [self.inner(k, value) for k, value in enumerate(self.value)]

    def whole(self, below: int) -> int:
        """An integer from 0 on."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 0 <= self.value < below:
            self.refuse(f"an integer from 0 to {below - 1} is expected, not {shown(self.value)}")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse(f"true or false is expected, not {shown(self.value)}")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str) or len(self.value) > LETTERS:
            self.refuse(f"text of at most {LETTERS} letters is expected, not {shown(self.value)}")
        return self.value

    def name(self, what: str) -> str:
        name = self.text()
        try:
            identifier(name, what)
        except NetsorError as error:
            self.refuse(f"{error.statement}: {error.hypothesis}")
        return name


def parsed(text: str, source: str) -> Node:
    """The tree of a text.

    Raises: NS310 for what is no JSON, too large, nested too deeply, or has a key twice, NaN, or a number of many digits.
    """
    root = Node(None, source)
    if len(text) > BYTES:
        root.refuse(f"the text has {len(text)} characters, and {BYTES} are the most")
    check_depth(text, root)
    try:
        value = json.loads(
            text,
            object_pairs_hook=once,
            parse_int=integer,
            parse_float=decimal,
            parse_constant=not_a_number,
        )
    except json.JSONDecodeError as error:
        raise unreadable(source, f"line {error.lineno}, column {error.colno}", f"the text is not JSON: {error.msg}") from None
    node = Node(value, source)
    for part in wrong_parts(node):
        part.refuse(part.value.why)
    return node


def check_depth(text: str, root: Node) -> None:
    depth = 0
    for token in TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > DEPTH:
                line = text.count("\n", 0, token.start()) + 1
                raise unreadable(root.source, f"line {line}", f"brackets are nested more than {DEPTH} deep")
        elif token[0] in "]}":
            depth -= 1


def wrong_parts(node: Node) -> Iterator[Node]:
    if isinstance(node.value, Wrong):
        yield node
    elif isinstance(node.value, Mapping):
        for key, value in node.value.items():
            if isinstance(value, Wrong | list | dict):
                yield from wrong_parts(node.inner(shown(key) if not key.isidentifier() else key, value))
    elif isinstance(node.value, list):
        for k, value in enumerate(node.value):
            if isinstance(value, Wrong | list | dict):
                yield from wrong_parts(node.inner(k, value))


def once(pairs: list[tuple[str, Any]]) -> Any:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            return Wrong(f"the key {shown(key)} stands twice")
        found[key] = value
    return found


def integer(text: str) -> Any:
    return int(text) if len(text) <= DIGITS else Wrong(f"a number has {len(text)} digits, and {DIGITS} are the most")


def not_a_number(text: str) -> Wrong:
    return Wrong(f"{text} is no number")


def decimal(text: str) -> Any:
    value = float(text) if len(text) <= DIGITS else float("inf")
    return value if abs(value) < float("inf") else Wrong(f"{shown(text)} is not a finite number")


def shown(value: Any) -> str:
    """A short form of a value for a message, without control characters."""
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return "a huge integer"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"


def unreadable(source: str, path: str, why: str, repair: str = "write programs with program.to_json()") -> IllFormed:
    return IllFormed("NS310", place=f"{source}: {path}", hypothesis=why, repair=repair)
