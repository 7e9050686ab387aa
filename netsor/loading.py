"""A program from a file: a .py file is code and is run, a .json file is data and never is; settings are values."""

from __future__ import annotations

import math
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from netsor import functions
from netsor.data.tree import BYTES
from netsor.errors import IllFormed, NetsorError
from netsor.ir import Function
from netsor.program import Program


def load(path: str | Path, settings: Mapping[str, str] = MappingProxyType({})) -> Program:
    """The program of a file. Of a .py file, which is code and is run: what the function named like the file returns, else
    the only Program in it. Of a .json file, which is data (`Program.to_json`): nothing in it is run.

    Settings are keyword arguments of the function as text, `{"tokens": "8", "phi": "clip(1)"}`; those that it does not
    have bind plates and parameters that are still open. A file that does not exist is looked for among the programs
    that come with netsor: `load("attention", {})`.
    Raises: NS310 where the file gives no program, NS311 for a setting that nothing has or that cannot be read; errors
    of netsor raised while the program is built pass unchanged.
    """
    file = find(Path(path))
    values = {key: value_of(key, text) for key, text in settings.items()}
    if file.suffix == ".json":
        return bound(data_of(file), values, [])
    module = execute(file)
    build = vars(module).get(name_of(file))
    if not callable(build) or getattr(build, "__module__", "").startswith("netsor."):  # relu.py imports relu
        return bound(only_program(file, module), values, [])
    keywords = [p for p in signature(build).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    taken = {p.name: values.pop(p.name) for p in keywords if p.name in values}
    return bound(called(file, build, keywords, taken), values, [p.name for p in keywords])


# ---- the file


def name_of(file: Path) -> str:
    return file.stem.replace("-", "_")


def shipped(folder: str) -> Path:
    """A folder that comes with netsor: inside the package when it is installed, beside it in a checkout."""
    package = Path(__file__).parent
    return package / folder if (package / folder).is_dir() else package.parent / folder


def find(path: Path) -> Path:
    """The file meant: the path, with or without .py or .json, or a program of that name that comes with netsor."""
    if found := next((p for p in (path, Path(f"{path}.py"), Path(f"{path}.json")) if p.is_file()), None):
        return found
    known = {file.stem: file for file in sorted(shipped("programs").glob("*.py"))}
    if path.parent.name in ("", "programs") and path.suffix in ("", ".py") and path.stem in known:
        return known[path.stem]
    raise unusable(
        str(path),
        "there is no such file, and no program of that name comes with netsor",
        "give the path of a file, or one of the programs " + ", ".join(known),
    )


def data_of(file: Path) -> Program:
    """The program of a .json file.  Raises: NS310."""
    try:
        if file.stat().st_size > 4 * BYTES:
            raise unusable(str(file), f"the file has more than {4 * BYTES} bytes", "store large arrays elsewhere")
        text = file.read_text(encoding="utf-8")
    except (ValueError, OSError) as error:
        raise unusable(str(file), f"the file cannot be read: {error}", "write it with program.to_json()") from error
    return Program.from_json(text, str(file))


def execute(file: Path) -> ModuleType:
    """The module of the file. It is known to sys.modules by its path, a name that no import statement can mean."""
    if file.suffix != ".py":
        raise unusable(
            str(file),
            "a program file is Python code, and its name ends in .py, or data, and its name ends in .json",
            "define a Program in a .py file",
        )
    spec = spec_from_file_location(str(file.resolve()), file)
    assert spec is not None  # .py files have a loader
    module = module_from_spec(spec)
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise unusable(f"{file}:{error.lineno}", f"the file is not valid Python: {error.msg}", "correct the line") from error
    except (ValueError, OSError, MemoryError, RecursionError) as error:  # null bytes; no permission; too deep
        raise unusable(
            str(file), f"the file cannot be read: {error or type(error).__name__}", "define a Program in a .py file"
        ) from error
    sys.modules[module.__name__] = module  # dataclasses look their module up
    guarded(file, lambda: exec(code, vars(module)), "the file fails when it is run")
    return module


def only_program(file: Path, module: ModuleType) -> Program:
    found = {id(p): (name, p) for name, p in vars(module).items() if isinstance(p, Program)}
    if len(found) == 1:
        return next(p for _, p in found.values())
    names = ", ".join(name for name, _ in found.values())
    raise unusable(
        str(file),
        f"the file has several programs: {names}" if found else "the file defines no program",
        f"define a function {name_of(file)}(...) that returns a Program, or one Program at the top level",
    )


def called(file: Path, build: Callable[..., Any], keywords: list[Parameter], values: Mapping[str, Any]) -> Program:
    missing = [p.name for p in keywords if p.default is p.empty and p.name not in values]
    if missing:
        raise unusable(
            f"{file}: {build.__name__}{signature(build)}",
            "the function needs a value for " + ", ".join(missing),
            "give it a default, or set it: " + " ".join(f"-s {name}=..." for name in missing),
        )
    result = guarded(file, lambda: build(**values), f"{build.__name__}(...) fails")
    if not isinstance(result, Program):
        raise unusable(
            f"{file}: {build.__name__}(...)",
            f"the function returns {type(result).__name__}, not a Program",
            f'return Program("{build.__name__}", y=y) at its end',
        )
    return result


def guarded(file: Path, run: Callable[[], Any], what: str) -> Any:
    """The result of code of the user; an exception is reported at the deepest line of the file that it went through."""
    try:
        return run()
    except NetsorError:
        raise
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
        place = f"{file}:{lines[-1]}" if lines else str(file)
        raise unusable(place, f"{what}: {type(error).__name__}: {error}", "correct it; --debug shows the traceback") from error


def unusable(place: str, hypothesis: str, repair: str) -> IllFormed:
    return IllFormed("NS310", place=place, hypothesis=hypothesis, repair=repair)


# ---- settings


def bound(program: Program, values: Mapping[str, Any], keywords: list[str]) -> Program:
    """The program with the settings that are no keywords of its function bound to what is open in it."""
    try:
        return program.at(**values) if values else program
    except IllFormed as error:
        if error.code == "NS311" and keywords:
            error.repair += f"; keywords of the function are: {', '.join(keywords)}"
        raise


def value_of(name: str, text: str) -> Any:
    """An int, a float, a Fraction "1/2", oo, or a function of netsor: `relu`, `clip(1)`.

    Raises: NS311 for anything else.
    """
    readings = (read(text) for read in (number_of, infinity_of, function_of))
    value = next((v for v in readings if v is not None), None)
    if value is None:
        raise IllFormed(
            "NS311",
            statement=f"-s {name}={text}",
            hypothesis="a setting is a number, oo, or a function of netsor, made from numbers or not",
            repair=f"{name}=8, {name}=1/2, {name}=relu, {name}='clip(1)'",
        )
    return value


def number_of(text: str) -> int | float | Fraction | None:
    for read in (int, float, Fraction):
        try:
            return read(text)
        except (ValueError, ZeroDivisionError):
            continue
    return None


def infinity_of(text: str) -> Any:
    return math.inf if text.strip() == "oo" else None


def function_of(text: str) -> Any:
    """A coordinatewise function by name, `relu`, or made from numbers, `clip(1)`."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if not match or match[1] not in functions.__all__:
        return None
    found = getattr(functions, match[1])
    if match[2] is None:
        return found if isinstance(found, Function) or found in (functions.layernorm, functions.rmsnorm) else None
    arguments = [number_of(part) for part in match[2].split(",")]
    makes_one = getattr(found, "__annotations__", {}).get("return") == "Function" and found is not functions.elementwise
    if not makes_one or None in arguments:
        return None
    try:
        return found(*arguments)
    except TypeError:  # another number of arguments
        return None
