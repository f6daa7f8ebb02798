"""Compiles and evaluates `when:` expressions in CEL. The engine is loaded with the first one."""

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from hermes.core.errors import SettingsError
from hermes.plumbing.problems import suggest_name

CONDITION_VARIABLES: Mapping[str, Mapping[str, Any] | list[str]] = {
    "action": {
        "tool": "terminal",
        "program": "rm",
        "argv": ["rm", "x"],
        "flags": ["-r"],
        "paths": ["/srv/x"],
        "changes": ["/srv/x"],
        "via": ["sudo"],
        "effects": ["read"],
        "command": "rm x",
        "node": "rm x",
        "cwd": "/srv",
        "run": "run",
        "isolated": False,
        "tested": False,
        "reviewed": False,
        "digest": "",
    },
    "effects": ["read"],
    "now": {
        "hour": 9,
        "minute": 30,
        "weekday": 0,
        "day": 1,
        "month": 1,
        "year": 2026,
        "date": "2026-01-01",
        "timestamp": 1_767_225_600,
    },
    "incident": {"id": "", "severity": "", "service": ""},
    "actor": {"name": "", "origin": "cli", "tainted": False},
    "target": {
        "environment": "prod",
        "place": "local",
        "host": "",
        "service": "",
        "namespace": "",
        "isolated": False,
    },
}
"""The names that an expression may use, with sample values."""

_MACRO_VARIABLE = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_FIELD_ACCESS = re.compile(r"(?<![\w.'\"])(\w+)\.(\w+)\b(?!\()")
_STRING_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_MAX_EXPRESSION_CHARS = 2_000


class CelCondition:
    """A compiled expression. `unsure` is the result when it cannot be evaluated."""

    def __init__(self, source: str) -> None:
        """Raises `ValueError` for an invalid expression."""
        self.source = source
        self._program = _compile_expression(source)
        used = self._program.variables()
        _check_names(source, used)
        self._uses = tuple(name for name in CONDITION_VARIABLES if name in used)
        _evaluate_on_samples(self._program)

    def holds(self, variables: Mapping[str, Any], *, unsure: bool) -> bool:
        try:
            given = {name: variables[name] for name in self._uses}
            return self._program.execute(given) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return unsure


def _compile_expression(source: str) -> Any:
    if (
        len(source) > _MAX_EXPRESSION_CHARS
    ):  # the parser recurses; real conditions are not that deep
        raise ValueError(f"an expression is at most {_MAX_EXPRESSION_CHARS} characters long")
    try:
        return _load_engine().compile(source)
    except ValueError as error:
        cause = str(error).partition("ERROR: <input>:")[2] or str(error)
        position, _, rest = cause.partition(": ")
        what = rest.splitlines()[0].partition(" expecting {")[0] if rest else cause
        raise ValueError(f"not valid CEL at {position}: {what}") from error


def _check_names(source: str, used: list[str]) -> None:
    code = _STRING_LITERAL.sub("''", source)
    bound = set(_MACRO_VARIABLE.findall(code))
    for name in used:
        if name not in CONDITION_VARIABLES and name not in bound:
            raise ValueError(
                f"there is no variable {name}; {suggest_name(name, list(CONDITION_VARIABLES))}"
            )
    for name, field in _FIELD_ACCESS.findall(code):
        known = CONDITION_VARIABLES.get(name)
        if isinstance(known, dict) and name not in bound and field not in known:
            raise ValueError(f"{name} has no {field}; {suggest_name(field, list(known))}")


def _evaluate_on_samples(program: Any) -> None:
    """Evaluates the expression on sample values, to find type errors."""
    try:
        result = program.execute(CONDITION_VARIABLES)
    except (ArithmeticError, LookupError):
        return  # other values may work
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(str(error).partition(". ")[0]) from error
    if not isinstance(result, bool):
        raise ValueError(f"it must say true or false, and says {result!r}")


@cache
def _load_engine() -> ModuleType:
    """Only the compiled module: the package's `__init__` imports a CLI, which takes 170 ms."""
    package = find_spec("cel")
    if package is None:
        raise SettingsError("`when:` needs the package common-expression-language: pip install it")
    loaded = sys.modules.get("cel.cel")
    if loaded is not None:
        return loaded
    spec = PathFinder.find_spec("cel.cel", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise SettingsError("the package common-expression-language is damaged: install it again")
    module = module_from_spec(spec)
    sys.modules["cel.cel"] = module  # it can be initialised only once
    spec.loader.exec_module(module)
    return module
