"""The founding paper again: experiments are run or resumed, drawn, and written up.

Source: Sakai, Karakida, Imaizumi 2025 (arXiv 2506.00846).
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.metadata import version
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from netsor import __version__
from netsor.errors import IllFormed
from netsor.figures import page
from netsor.loading import find
from netsor.report.experiments import EXPERIMENTS, Experiment
from netsor.report.files import replacing
from netsor.report.measures import FAST, Tick
from netsor.report.page import Block, Code, Heading, Image, Points, Text, html, markdown
from netsor.report.views import View

SUFFIXES = ("png", "svg", "pdf")
TITLE = "Infinite-width limit of a single attention layer: the experiments again"


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all of them for none.  Raises: NS311 for a name that none has."""
    known = {e.name: e for e in EXPERIMENTS}
    for name in names:
        if name not in known:
            raise IllFormed("NS311", statement=f"paper {name}", repair="the experiments are " + ", ".join(known))
    return [e for e in EXPERIMENTS if not names or e.name in names]


def key_of(experiment: Experiment, quick: bool, seed: int) -> dict[str, Any]:
    """All that a result depends on, as JSON has it."""
    digests = {p: digest(find(Path(p))) for p in experiment.programs}
    key = {
        "experiment": experiment.name,
        "options": experiment.options(quick),
        "programs": digests,
        "seed": seed,
        "versions": versions(),
        "code": digest(Path(str(getsourcefile(experiment.measure)))),
    }
    return dict(json.loads(json.dumps(key)))


def digest(file: Path) -> str:
    return blake2b(file.read_bytes(), digest_size=8).hexdigest()


def versions() -> dict[str, str]:
    return {"netsor": __version__, "python": platform.python_version(), **{name: version(name) for name in ("numpy", "scipy")}}


def differing(old: dict[str, Any], new: dict[str, Any]) -> str:
    return ", ".join(k for k in new if old.get(k) != new[k])


def paper(
    names: Sequence[str], out: Path, quick: bool, seed: int, tick: Tick = lambda what: None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """One reply an experiment, as text and data; then the report of all that were chosen.

    A result in out/results of the same options, programs, seed, versions and measuring code is not computed again; another
    one is replaced.
    """
    (out / "results").mkdir(parents=True, exist_ok=True)
    records = []
    for experiment in chosen(names):
        key = key_of(experiment, quick, seed)
        file = out / "results" / f"{experiment.name}.json"
        record, how = resumed(file, key)
        if record is None:
            began = time.perf_counter()
            result = experiment.measure(key["options"], seed, tick)
            seconds = time.perf_counter() - began
            now = datetime.now(UTC).isoformat(timespec="seconds")
            record = {"key": key, "seconds": seconds, "finished": now, "compiled": FAST, "result": result}
            record = json.loads(json.dumps(record))
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
            how = f"{how}{seconds:.1f} s"
        view = experiment.show(record["result"])
        draw(view, out, experiment.name)
        records.append((experiment, record, view))
        text = "\n".join([f"{experiment.name} ({how})", *(f"  {s}" for s in view.sentences)])
        yield text, {experiment.name: {"how": how, "sentences": list(view.sentences), "file": str(file)}}
    blocks = report(records, quick, seed)
    for name, text in (("report.md", markdown(blocks)), ("report.html", html(TITLE, blocks))):
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    yield f"The report is {out / 'report.html'}", {"report": str(out / "report.html"), "seed": seed, "quick": quick}


def resumed(file: Path, key: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The record of the file where it answers the same question, and what is said about it."""
    if not file.is_file():
        return None, ""
    try:
        record = dict(json.loads(file.read_text(encoding="utf-8")))
        old = dict(record["key"])
        assert record.keys() >= {"result", "seconds", "finished"}
    except (ValueError, KeyError, TypeError, AssertionError):
        return None, "again, for its file cannot be read: "
    if old != key:
        return None, f"again, for these changed: {differing(old, key)}: "
    return record, "as it was computed before"


def draw(view: View, out: Path, name: str) -> None:
    whole = page(view.panels)
    for suffix in SUFFIXES:
        with replacing(out / f"{name}.{suffix}") as temporary:
            whole.savefig(temporary, dpi=150)


def report(records: Sequence[tuple[Experiment, dict[str, Any], View]], quick: bool, seed: int) -> list[Block]:
    names = " ".join(e.name for e, _, _ in records)
    complete = len(records) == len(EXPERIMENTS)
    command = " ".join(["netsor paper", *([] if complete else [names]), *(["--quick"] if quick else []), f"--seed {seed}"])
    total = sum(r["seconds"] for _, r, _ in records)
    blocks: list[Block] = [
        Heading(TITLE, 1),
        Text(
            "Every experiment of Sakai, Karakida and Imaizumi (2025, arXiv 2506.00846), from programs of a few statements. "
            "Numbers carry one standard error in brackets, in units of the last digit. Laws at width n are exact mixtures: the "
            "last Gaussian source is integrated out. Every sentence is made from the numbers of the run that is shown; "
            "“resolved” means five standard errors unless it says otherwise."
        ),
        Code(command),
        Text(
            ", ".join(f"{k} {v}" for k, v in versions().items())
            + f"; {total:.0f} s of computing in all, compiled arithmetic {'on' if FAST else 'off'}."
        ),
        Heading("What is found"),
        Points([f"{e.title}. {view.sentences[0]}" for e, _, view in records]),
    ]
    for experiment, record, view in records:
        blocks += [
            Heading(experiment.title),
            Image(experiment.name, SUFFIXES, experiment.caption),
            Points(view.sentences),
            *view.tables,
            Code(f"netsor paper {experiment.name}{' --quick' if quick else ''} --seed {record['key']['seed']}"),
            Text(
                f"Programs: {', '.join(f'programs/{p}.py' for p in experiment.programs)}. {record['seconds']:.1f} s, "
                f"finished {record['finished']}. Options: {json.dumps(record['key']['options'], ensure_ascii=False)}"
            ),
        ]
    return blocks
