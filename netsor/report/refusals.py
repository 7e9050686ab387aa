"""What a code means: its section of docs/refusals.md, which lies in the wheel too."""

from __future__ import annotations

import re

from netsor.errors import TITLES, IllFormed
from netsor.loading import shipped


def title(code: str) -> str:
    """Raises: NS311 for a code that netsor does not have."""
    if code not in TITLES:
        raise IllFormed(
            "NS311",
            statement=f"explain {code}",
            hypothesis="netsor has no such code",
            repair="the codes are " + ", ".join(TITLES),
        )
    return TITLES[code]


def section(code: str) -> str:
    """The section of the code in Markdown, or its title alone where the file is missing."""
    alone = f"{code}: {title(code)}"
    file = shipped("docs") / "refusals.md"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(rf"^## {code} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0].rstrip() if found else alone
