"""The command line. A command yields replies; printing them, errors and exit codes are the same for all commands."""

from __future__ import annotations

import functools
import io
import json
import math
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

if TYPE_CHECKING:
    from netsor.program import Program
    from netsor.symbolic.variable import Expand

USAGE, INTERNAL, INTERRUPTED = 2, 70, 130
REFUSAL = re.compile(r"(?i)NS\d{3}")
ENGINES = ("dense", "lazy", "collapsed")

Advance = Callable[[str, int, int], None]  # (label, steps just done, steps in all)


class Reply(NamedTuple):
    """A piece of what a command says: text, the same as data for --json, and an exit code."""

    text: str
    data: Mapping[str, Any]
    code: int = 0


# ---- how every command runs


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=lambda *a: show_version(*a))
def cli() -> None:
    """Infinite-width limits of neural computations: derived, evaluated, and compared with finite width.

    FILE is a .py file with a function of its own name that returns a Program, a .json file written by
    Program.to_json(), or the name of a program that comes with netsor, such as attention. A .py file is code, and is run:
    give only files that you trust. A .json file is data, and nothing in it is run.

    Exit codes: 0 ok, 1 a comparison failed, 2 usage, 3 outside the theorem, 4 numerical, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point `netsor`: always ends with one of the documented exit codes."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # formulas have letters that a terminal may lack
    try:
        sys.exit(cli.main(arguments, prog_name="netsor", standalone_mode=False))
    except click.ClickException as error:
        if "--json" in arguments:
            show_json("error", {"code": "usage", "title": "usage", "statement": error.format_message()})
        else:
            error.show()
        sys.exit(error.exit_code)
    except click.Abort as error:  # Ctrl-C
        notes = getattr(error.__cause__, "__notes__", None) or ["interrupted"]
        click.echo("\n".join(notes), err=True)
        sys.exit(INTERRUPTED)


def command(run: Callable[..., Iterator[Reply]]) -> click.Command:
    """A command of the group: shows the replies of `run`, or what went wrong, and exits with the code."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, numbers with their errors.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(run)
    def call(as_json: bool, debug: bool, **options: Any) -> NoReturn:
        out, code = sys.stdout, 0
        data: dict[str, Any] = {}
        try:
            with redirect_stdout(sys.stderr), warnings_as_lines():  # a program may print
                for reply in run(**options):
                    data |= reply.data
                    code = max(code, reply.code)
                    if not as_json:
                        click.echo(reply.text, file=out)
        except BrokenPipeError:  # `netsor derive attention | head`: click knows what to do
            raise
        except Exception as error:
            if debug:
                traceback.print_exc()
            failure = failed(error)
            if as_json:
                show_json("error", failure.data)
            else:
                click.echo(failure.text, err=True)
            sys.exit(failure.code)
        if as_json:
            show_json(run.__name__, data)
        sys.exit(code)

    return cli.command()(call)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    def line(message: Warning | str, *_: Any) -> None:
        click.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = line  # type: ignore[assignment]  # the rest of its arguments is not used
        yield


@contextmanager
def progress() -> Iterator[Advance]:
    """A bar for each label, on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda label, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bars:

        def advance(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bars.add_task(label, total=total)
            bars.advance(tasks[label], done)

        yield advance


# ---- what replies and errors look like


def show_json(name: str, data: Mapping[str, Any]) -> None:
    click.echo(json.dumps(plain({"schema": f"netsor.{name}/1", **data}), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """The value as JSON has it: numbers with errors as {"value": , "error": }, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        number = float(value) if math.isfinite(value) else None
        return {"value": number, "error": plain(value.error)} if hasattr(value, "error") else number
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def failed(error: Exception) -> Reply:
    """What is said about an error: its parts, and all findings where it is the first of several."""
    from netsor.errors import NetsorError, Numerical

    if isinstance(error, MemoryError | RecursionError):
        error = Numerical("NS403", statement=str(error), repair="ask for a smaller width, fewer runs, variables or layers")
    if isinstance(error, NetsorError):
        found = findings(error.diagnostics)
        more = sum(d["severity"] == "refused" for d in found) - 1
        text = f"{error}\nand {more} more; `netsor check` shows all" if more > 0 else str(error)
        return Reply(text, {"code": error.code, "title": error.title, **error.parts(), "diagnostics": found}, error.exit_code)
    if isinstance(error, OSError):
        return Reply(f"Error: {error}", {"code": "usage", "title": "usage", "statement": str(error)}, USAGE)
    text = f"internal error: {type(error).__name__}: {error}"
    data = {"code": "internal", "title": "internal error", "statement": text}
    return Reply(f"{text}\nThis is a defect of netsor: please report it, with what --debug shows.", data, INTERNAL)


def findings(diagnostics: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"severity": d.severity, "code": d.code, "title": d.error.title, **d.error.parts()} for d in diagnostics]


def show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from netsor import __version__

        click.echo(f"netsor {__version__}")
        context.exit()


# ---- arguments and options


def pairs(convert: Callable[[str], Any]) -> Callable[..., dict[str, Any]]:
    """A callback that reads repeated `name=value`."""

    def read(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or name.strip() in found:
                raise click.BadParameter(f"{text!r}: write name=value, each name once", context, option)
            try:
                found[name.strip()] = convert(value.strip())
            except ValueError:
                raise click.BadParameter(f"{text!r}: the value is a number, {name}=0", context, option) from None
        return found

    return read


def widths(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> list[int]:
    try:
        return [int(n) for text in texts for n in text.split(",")]
    except ValueError:
        raise click.BadParameter("widths are integers: 16,64,256", context, option) from None


def output(*suffixes: str) -> Callable[..., Any]:
    """The option -o. What cannot be written is refused before anything is computed."""

    def check(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
        if path is not None and not path.parent.is_dir():
            raise click.BadParameter(f"there is no folder {path.parent}", context, option)
        if path is not None and suffixes and path.suffix not in suffixes:
            raise click.BadParameter(f"{path} does not end in {' or '.join(suffixes)}", context, option)
        return path

    kind = click.Path(dir_okay=False, writable=True, path_type=Path)
    text = f"Write a file ({', '.join(suffixes)})." if suffixes else "Write to a file."
    return click.option("-o", "--out", type=kind, callback=check, help=text)


file_argument = click.argument("file")


def no_settings(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if "=" in name:
            raise click.UsageError(f"{name} is a setting and no name: write -s {name}", context)
    return names


names_argument = click.argument("names", metavar="[NAME]...", nargs=-1, callback=no_settings)
settings_option = click.option(
    "-s",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs(str),
    help="A keyword argument of the program, or an open plate or parameter: tokens=8, beta=1/2, phi='clip(1)'.",
)
at_option = click.option(
    "--at", multiple=True, metavar="INDEX=MEMBER", callback=pairs(int), help="The entry to look at; without it member 0."
)
runs_option = click.option("--runs", type=click.IntRange(2), help="Number of runs; errors come from their spread.")
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)


def workers_option(run: Callable[..., Any]) -> Callable[..., Any]:
    """The options --workers and --scheduler, which change no bit of the results."""
    number = click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that draw.")
    address = click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers draw, with netsor[dask].")
    return number(address(run))


@contextmanager
def executing(workers: int, scheduler: str | None) -> Iterator[dict[str, Any]]:
    """The arguments `workers` and `executor` of a request."""
    if scheduler is None:
        yield {"workers": workers}
        return
    from netsor.runs import cluster

    with cluster.scheduler(scheduler) as executor:
        yield {"executor": executor}


def loaded(file: str, settings: Mapping[str, str]) -> Program:
    from netsor.loading import load

    return load(file, settings)


# ---- the commands


@command
@file_argument
@settings_option
@click.option("--latex", is_flag=True, help="Formulas in LaTeX.")
@click.option("--closed", "expand", flag_value="closed", help="Expectations in closed form, where there is one.")
@click.option("--numbers", "expand", flag_value="numbers", help="The same, with bound sizes, sigmas and parameters as numbers.")
def derive(file: str, settings: Mapping[str, str], latex: bool, expand: Expand | None) -> Iterator[Reply]:
    """The program, and the limit of each variable as a formula."""
    how: Expand = expand or "E"
    from netsor.symbolic.printing import Text

    program = loaded(file, settings)
    yield Reply(f"{program}\n", {"program": program.name, "listing": str(program)})
    limit = program.limit()
    blocks = [f"% {v.name}\n\\begin{{gather*}}\n{v.latex(how)}\n\\end{{gather*}}" for _, v in limit.items()]
    variables = [
        {"name": name, "kind": v.kind, "rule": v.rule, "status": v.status.level, "theorem": v.status.theorem}
        | {"text": v.expanded(how).lines(Text()), "latex": v.latex(how)}
        for name, v in limit.items()
    ]
    yield Reply("\n".join(blocks) if latex else limit.text(how), {"variables": variables})


@command
@file_argument
@names_argument
@settings_option
@runs_option
@seed_option
@at_option
def evaluate(
    file: str, names: Sequence[str], settings: Mapping[str, str], runs: int | None, seed: int, at: Mapping[str, int]
) -> Iterator[Reply]:
    """The law of each variable in the limit, in numbers with errors."""
    from netsor.report import tables

    limit = loaded(file, settings).limit()
    chosen = [limit.known(name) for name in names or limit]
    sampling = {"rng": seed} if runs is None else {"rng": seed, "runs": runs}
    with progress() as advance:
        rows = tables.laws(limit, chosen, at, lambda: advance("laws", 1, len(chosen)), **sampling)
    yield Reply(tables.table(rows), {"program": limit.name, "seed": seed, "laws": rows})


@command
@file_argument
@names_argument
@settings_option
@click.option("--width", type=click.IntRange(1), required=True)
@click.option("--runs", type=click.IntRange(2), default=1024, show_default=True)
@seed_option
@click.option("--engine", type=click.Choice(ENGINES), help="All draw from one law; without it the one with the least work.")
@click.option("--fast", is_flag=True, help="Compiled arithmetic, with the extra netsor[fast]: the same draws.")
@click.option("--explain", is_flag=True, help="Say why the engine was chosen, and how many normals each would draw.")
@workers_option
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep finished shards in a folder; the same command continues an interrupted run.",
)
@output(".npz", ".nc")
def simulate(
    file: str,
    names: Sequence[str],
    settings: Mapping[str, str],
    width: int,
    runs: int,
    seed: int,
    engine: str | None,
    fast: bool,
    explain: bool,
    workers: int,
    scheduler: str | None,
    keep: Path | None,
    out: Path | None,
) -> Iterator[Reply]:
    """Exact draws at finite width: coordinate 0 of each vector, and every scalar."""
    from netsor import simulate
    from netsor.report import files, tables

    program = loaded(file, settings)
    outputs: dict[str, dict[str, int]] | None = {name: {} for name in names} or None
    with executing(workers, scheduler) as who, progress() as advance:
        draws = simulate(
            program,
            width=width,
            runs=runs,
            rng=seed,
            outputs=outputs,
            engine=engine,
            fast=fast,
            explain=explain,
            progress=lambda done: advance(f"n = {width}", done, runs),
            out=keep,
            **who,
        )
    if out:
        files.save_draws(draws, out)
    rows = tables.draws(draws)
    data = {
        "program": program.name,
        "width": width,
        "runs": runs,
        "seed": seed,
        "how": draws.how,
        "variables": rows,
        "file": out,
    }
    yield Reply(f"{draws.title}\n{tables.table(rows)}", data)


@command
@file_argument
@click.argument("name", required=False)
@settings_option
@click.option("--width", multiple=True, default=["16,64,256"], callback=widths, help="Widths.", show_default=True)
@runs_option
@seed_option
@at_option
@click.option("--fast", is_flag=True, help="Compiled arithmetic, with the extra netsor[fast]: the same draws.")
@workers_option
@output(".png", ".pdf", ".svg")
def compare(
    file: str,
    name: str | None,
    settings: Mapping[str, str],
    width: Sequence[int],
    runs: int | None,
    seed: int,
    at: Mapping[str, int],
    fast: bool,
    workers: int,
    scheduler: str | None,
    out: Path | None,
) -> Iterator[Reply]:
    """The law of one entry of NAME (by default the last variable) at each width beside its limit.

    Exit code 1 where variance or kurtosis, fitted over at least three widths, is more than 5 standard errors away.
    """
    from netsor.comparison import compare
    from netsor.report import tables

    program = loaded(file, settings)
    name = name or list(program)[-1]
    members: dict[str, Any] = dict(tables.entry({name: program[name]}, at)[name])
    with executing(workers, scheduler) as who, progress() as advance:
        comparison = compare(
            program,
            name,
            widths=width,
            runs=runs,
            rng=seed,
            fast=fast,
            progress=lambda n, done, total: advance(f"n = {n}", done, total),
            **who,
            **members,
        )
    if out:
        from netsor.report.figures import save

        save(comparison, out)
    data = {"program": program.name, "seed": seed, **tables.compared(comparison), "file": out}
    yield Reply(f"{comparison}\n{tables.verdict(comparison)}", data, 0 if comparison.agrees else 1)


@command
@file_argument
@click.argument("name", required=False)
@click.option(
    "-s",
    "settings",
    multiple=True,
    metavar="NAME=VALUE,...",
    callback=pairs(str),
    help="A setting and its values: tokens=2,4,8, phi='relu,clip(1)'. All combinations are drawn.",
)
@click.option(
    "--observe",
    default="variance",
    show_default=True,
    metavar="WHAT,...",
    help="mean, variance, excess_kurtosis, entropy; A:entropy of another variable than NAME.",
)
@click.option("--width", multiple=True, callback=widths, help="Widths; without them the limit.")
@click.option("--runs", type=click.IntRange(2), default=2**15, show_default=True)
@seed_option
@at_option
@click.option("--fast", is_flag=True, help="Compiled arithmetic, with the extra netsor[fast]: the same draws.")
@workers_option
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the parts, table.csv and figure.png; the same command continues an interrupted sweep.",
)
def sweep(
    file: str,
    name: str | None,
    settings: Mapping[str, str],
    observe: str,
    width: Sequence[int],
    runs: int,
    seed: int,
    at: Mapping[str, int],
    fast: bool,
    workers: int,
    scheduler: str | None,
    out: Path,
) -> Iterator[Reply]:
    """Numbers of NAME (by default the last variable) at every setting of a grid: a table and a figure with errors.

    The entropy of a softmax is that of its weights, -sum A log A averaged over runs; else that of the law, in nats.
    """
    from netsor.report import sweeps
    from netsor.sweep import Sweep

    grid = Sweep.of(file, settings, observe=observe.split(","), name=name, widths=width, at=at, runs=runs, rng=seed, fast=fast)
    with executing(workers, scheduler) as who, progress() as advance:
        rows = grid.run(out=out, progress=lambda done: advance("sweep", 1, grid.chain.count), **who)
    sweeps.save_csv(rows, out / "table.csv")
    sweeps.save_figure(rows, list(settings), [str(o) for o in grid.observables], out / "figure.png")
    data = {"program": grid.points[0].program.name, "seed": seed, "rows": rows, "folder": out}
    yield Reply(f"{sweeps.table(rows)}\n\nThe table and the figure are {out / 'table.csv'} and {out / 'figure.png'}", data)


@command
@file_argument
@names_argument
@settings_option
@click.option("--empirical", is_flag=True, help="Test that NAME (default: all) at three widths or more tends to the limit.")
@click.option("--width", multiple=True, default=["32,256,2048"], callback=widths, help="Widths.", show_default=True)
@runs_option
@seed_option
@click.option("--false-alarm", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=1e-6, show_default=True)
def check(
    file: str,
    names: Sequence[str],
    settings: Mapping[str, str],
    empirical: bool,
    width: Sequence[int],
    runs: int | None,
    seed: int,
    false_alarm: float,
) -> Iterator[Reply]:
    """Everything that keeps the program from having a limit, and lints; with --empirical the theorem as a test.

    Exit code 1 where the test fails.
    """
    program = loaded(file, settings)
    diagnostics = program.check()
    for diagnostic in diagnostics:
        yield Reply(str(diagnostic), {})
    refused = [d.error.exit_code for d in diagnostics if d.severity == "refused"]
    data = {"program": program.name, "legal": not refused, "diagnostics": findings(diagnostics)}
    if refused:
        yield Reply("refused: the program has no limit that netsor knows", data, max(refused))
        return
    limit = program.limit()
    status = [f"  {name:<{max(map(len, limit))}}  {v.kind:<11}  {v.status}" for name, v in limit.items()]
    variables = [
        {"name": name, "kind": v.kind, "status": v.status.level, "theorem": v.status.theorem} for name, v in limit.items()
    ]
    yield Reply("\n".join(["legal: every variable has a limit", *status]), {**data, "variables": variables})
    if empirical:
        from netsor.testing import converges

        budget = {} if runs is None else {"runs": runs}
        record = converges(program, names or None, widths=width, rng=seed, false_alarm=false_alarm, **budget)
        yield Reply(str(record), {"empirical": record.data()}, 0 if record.passed else 1)


@command
@file_argument
@settings_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "dot", "mermaid", "svg", "png"]),
    help="svg and png are drawn by Graphviz.  [default: the suffix of --out, else text]",
)
@output()
def graph(file: str, settings: Mapping[str, str], form: str | None, out: Path | None) -> Iterator[Reply]:
    """The statements and how they use each other."""
    from netsor import graph
    from netsor.errors import IllFormed
    from netsor.report.files import replacing

    program = loaded(file, settings)
    suffixes = {".dot": "dot", ".mmd": "mermaid", ".svg": "svg", ".png": "png"}
    form = form or suffixes.get(out.suffix if out else "", "text")
    if form in ("svg", "png"):
        if out is None:
            hypothesis = "a picture goes to a file"
            raise IllFormed("NS311", statement=f"--format {form}", hypothesis=hypothesis, repair=f"-o graph.{form}")
        drawn = graph.picture(program, program.name, form)
    else:
        written = {"text": graph.text, "mermaid": graph.mermaid}.get(form)
        drawn = ((written(program) if written else graph.dot(program, program.name)) + "\n").encode()
    if out:
        with replacing(out) as temporary:
            temporary.write_bytes(drawn)
    net = program.graph()
    nodes = [{"node": node, **data} for node, data in net.nodes(data=True)]
    edges = [{"from": child, "to": user, **data} for child, user, data in net.edges(data=True)]
    said = f"wrote {out}" if out else drawn.decode().rstrip()
    yield Reply(said, {"program": program.name, "nodes": nodes, "edges": edges, "file": out})


@command
def info() -> Iterator[Reply]:
    """Versions of netsor, of Python and of the libraries that numbers depend on."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import netsor

    libraries = {}
    for name in ("numpy", "scipy", "sympy", "networkx", "matplotlib", "click", "rich", "numba", "distributed", "xarray"):
        with suppress(PackageNotFoundError):
            libraries[name] = version(name)
    found = {"netsor": netsor.__version__, "python": platform.python_version(), **libraries, "machine": platform.machine()}
    yield Reply("\n".join(f"{name:<11}{value}" for name, value in found.items()), found)


@command
@click.argument("subject", metavar="FILE|CODE")
@click.argument("name", required=False)
@settings_option
def explain(subject: str, name: str | None, settings: Mapping[str, str]) -> Iterator[Reply]:
    """The derivation of NAME in FILE, step by step; or what a code such as NS101 means."""
    if REFUSAL.fullmatch(subject):
        from netsor.report.refusals import section, title

        code = subject.upper()
        yield Reply(section(code), {"code": code, "title": title(code), "section": section(code)})
        return
    limit = loaded(subject, settings).limit()
    name = limit.known(name or list(limit)[-1])
    steps = limit[name].explain()
    yield Reply(steps, {"program": limit.name, "variable": name, "steps": steps.splitlines()})


@command
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"), help="Folder of the figure."
)
def demo(out: Path) -> Iterator[Reply]:
    """The attention layer from program to figure, in under a minute."""
    from netsor.report.demo import demo

    for text, data in demo(out, progress):
        yield Reply(text, data)


@command
@click.argument("names", metavar="[EXPERIMENT]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Fewer runs: under two minutes.")
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/paper"),
    help="Folder of the report.",
    show_default=True,
)
@seed_option
def paper(names: Sequence[str], quick: bool, out: Path, seed: int) -> Iterator[Reply]:
    """The experiments of the founding paper: results, figures and a report. What is done already is not done again."""
    from netsor.report.paper import paper

    with progress() as advance:
        for text, data in paper(names, out, quick, seed, lambda what: advance(what, 1, 1)):
            yield Reply(text, data)
