"""The command line. A command computes a Reply; printing it, errors and exit codes are the same for all of them."""

from __future__ import annotations

import functools
import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from netsor.errors import NetsorError

INTERRUPTED, INTERNAL, USAGE = 130, 70, 2
FIGURES = (".png", ".pdf", ".svg")


class Reply(NamedTuple):
    """What a command prints: text, or the same as data for --json; and its exit code."""

    text: str
    data: Mapping[str, Any]
    code: int = 0


# ---- how every command runs


class Group(click.Group):
    """A group that ends every run with one of the documented exit codes, and never with a traceback of its own."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        arguments = list(kwargs.get("args") or (args[0] if args else None) or sys.argv[1:])
        try:
            sys.exit(super().main(arguments, prog_name="netsor", standalone_mode=False))
        except click.ClickException as error:
            if "--json" in arguments:
                write(as_json("error", {"code": "usage", "title": "usage", "statement": error.format_message()}))
            else:
                error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=lambda *a: show_version(*a))
def cli() -> None:
    """Infinite-width limits of neural computations: derived, evaluated, and compared with finite width.

    FILE is a Python file with a function of its own name that returns a Program, or the name of a program that comes with
    netsor, such as attention.

    Exit codes: 0 ok, 1 a comparison failed, 2 usage, 3 outside the theorem, 4 numerical, 130 interrupted.
    """


def main() -> None:
    """The entry point `netsor`."""
    cli()


def show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from netsor import __version__

        write(f"netsor {__version__}")
        context.exit()


def command(run: Callable[..., Reply]) -> click.Command:
    """A command of the group: prints the Reply of `run`, or what went wrong, and exits with its code."""

    @click.option("--json", "json_wanted", is_flag=True, help="One JSON object on stdout, numbers with their errors.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(run)
    def call(json_wanted: bool, debug: bool, **options: Any) -> None:
        from netsor.errors import NetsorError

        try:
            with redirect_stdout(sys.stderr), warnings_as_lines():  # programs may print
                reply = run(**options)
        except NetsorError as error:
            shown = traceback.format_exc() if debug else ""
            if not json_wanted:
                click.echo(shown + str(error) + others(error), err=True)
                sys.exit(error.exit_code)
            reply = Reply("", {"schema": "netsor.error/1", **error_data(error)}, error.exit_code)
            click.echo(shown, err=True, nl=False)
        except Exception as error:
            click.echo(traceback.format_exc() if debug else "", err=True, nl=False)
            message = f"internal error: {type(error).__name__}: {error}"
            click.echo(f"{message}\nThis is a defect of netsor: please report it, with what --debug shows.", err=True)
            sys.exit(INTERNAL)
        write(as_json(run.__name__, reply.data) if json_wanted else reply.text)
        sys.exit(reply.code)

    return cli.command()(call)


def write(text: str) -> None:
    """Text to stdout, also where its encoding lacks the letters of mathematics."""
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding))


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: click.echo(f"warning: {message}", err=True)
        yield


def others(error: NetsorError) -> str:
    more = sum(getattr(d, "severity", "") == "refused" for d in error.diagnostics) - 1
    return f"\nand {more} more: `netsor check` shows all" if more > 0 else ""


# ---- JSON


def as_json(name: str, data: Mapping[str, Any]) -> str:
    return json.dumps(plain({"schema": f"netsor.{name}/1", **data}), indent=2, ensure_ascii=False)


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


def error_data(error: NetsorError) -> dict[str, Any]:
    data = {"code": error.code, "title": error.title, **error.parts()}
    return {**data, "diagnostics": [diagnostic_data(d) for d in error.diagnostics]} if error.diagnostics else data


def diagnostic_data(diagnostic: Any) -> dict[str, Any]:
    return {"severity": diagnostic.severity, "code": diagnostic.code, "title": diagnostic.error.title} | (
        diagnostic.error.parts()
    )
