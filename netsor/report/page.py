"""A report as blocks that are written twice, as Markdown and as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

STYLE = """\
body { font: 16px/1.5 Georgia, "DejaVu Serif", serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 90%; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 1px solid #888; } th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; } pre { background: #f5f5f5; padding: .6rem .8rem; overflow-x: auto; font-size: 85%; }
figure { margin: 1rem 0; } figcaption, .small { color: #555; font-size: 90%; }"""


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list, one point a sentence."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Table:
    """Cells are anything with a text: numbers with errors print their error in brackets; None is a dash."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Image:
    """Files beside the report, by suffix; the first is shown, all are linked."""

    stem: str
    suffixes: Sequence[str]
    caption: str


Block = Heading | Text | Points | Code | Table | Image


def cell(value: Any) -> str:
    return "-" if value is None else str(value)


def markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(as_markdown, blocks)) + "\n"


def as_markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return "#" * level + " " + text
        case Text(text):
            return text
        case Points(items):
            return "\n".join(f"- {item}" for item in items)
        case Code(text):
            return f"```\n{text}\n```"
        case Table(columns, rows):
            lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *([cell(v) for v in row] for row in rows)]
            return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)
        case Image(stem, suffixes, caption):
            others = ", ".join(f"[{s}]({stem}.{s})" for s in suffixes)
            return f"![{caption}]({stem}.{suffixes[0]})\n\n{caption} ({others})"


def html(title: str, blocks: Sequence[Block]) -> str:
    body = "\n".join(map(as_html, blocks))
    head = f'<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>'
    head = f"<head>\n{head}\n<style>\n{STYLE}\n</style>\n</head>"
    return f'<!doctype html>\n<html lang="en">\n{head}\n<body>\n{body}\n</body>\n</html>\n'


def as_html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Points(items):
            return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in items) + "\n</ul>"
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Table(columns, rows):
            lines = ["<tr>" + "".join(f"<th>{escape(c)}</th>" for c in columns) + "</tr>"]
            lines += ["<tr>" + "".join(f"<td>{escape(cell(v))}</td>" for v in row) + "</tr>" for row in rows]
            return "<table>\n" + "\n".join(lines) + "\n</table>"
        case Image(stem, suffixes, caption):
            others = ", ".join(f'<a href="{stem}.{s}">{s}</a>' for s in suffixes)
            shown = f'<img src="{stem}.{suffixes[0]}" alt="{escape(caption)}">'
            return f"<figure>{shown}<figcaption>{escape(caption)} ({others})</figcaption></figure>"
