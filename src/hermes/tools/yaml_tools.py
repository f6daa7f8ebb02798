"""Loads tools that are declared in YAML files; every problem is reported with file and line."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.core.messages import Risk, Value
from hermes.plumbing.problems import Problem, closest_name
from hermes.plumbing.yaml_document import KeyPath, YamlDocument, YamlFileError, load_yaml
from hermes.tools.command_tool import (
    CommandParameter,
    CommandTemplateError,
    CommandTool,
    TemplatePart,
    TemplateSlot,
    build_tool_spec,
    parameter_type,
    parse_template,
    reparsing_program,
)
from hermes.tools.declare import ToolRequirements

T = TypeVar("T", bound=msgspec.Struct)
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ENUM_TYPES: dict[str, type] = {"string": str, "integer": int}


class _ToolForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    risk: Risk
    command: str
    timeout: float = 60.0
    parameters: dict[str, Any] = {}
    needs: dict[str, Any] = {}


class _NeedsForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    how: str = ""


class LoadedTools(Value, frozen=True):
    tools: dict[str, CommandTool]
    problems: tuple[str, ...] = ()
    """`file:line: cause`, one for each tool that could not be read."""


def load_tool_folder(folder: Path, *, taken: Collection[str] = ()) -> LoadedTools:
    """Every tool of the folder; `taken` are names that belong to others."""
    tools: dict[str, CommandTool] = {}
    problems: list[str] = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        for found in _read_file(path):
            if isinstance(found, Problem):
                problems.append(str(found))
                continue
            line, tool = found
            name = tool.spec.name
            if name in tools or name in taken:
                problems.append(str(Problem(str(path), line, f"there is a tool {name!r} already")))
            else:
                tools[name] = tool
    return LoadedTools(tools, tuple(problems))


def _read_file(path: Path) -> Iterator[tuple[int, CommandTool] | Problem]:
    try:
        document = load_yaml(path.read_text("utf-8"), str(path))
    except YamlFileError as error:
        yield error.problem
        return
    except (UnicodeDecodeError, OSError) as error:
        yield Problem(str(path), 1, f"cannot be read: {error}")
        return
    data = document.data
    if data is None:
        yield Problem(str(path), 1, "the file is empty")
        return
    items = enumerate(data) if isinstance(data, list) else [(None, data)]
    for index, item in items:
        place: KeyPath = () if index is None else (index,)
        try:
            yield document.line_of(*place), _ToolReader(document, place).build(item)
        except YamlFileError as error:
            yield error.problem


class _ToolReader:
    """Reads one tool of a file. Raises `YamlFileError`."""

    def __init__(self, document: YamlDocument, place: KeyPath) -> None:
        self._document, self._place = document, place

    def build(self, item: object) -> CommandTool:
        form = self._convert(item, _ToolForm)
        if not _TOOL_NAME.fullmatch(form.name):
            raise self._error("a name is made of a-z, 0-9 and _, like disk_usage", "name")
        if not 0 < form.timeout <= 3600:
            raise self._error("timeout is in seconds, from 0 to 3600", "timeout")
        parameters = {
            name: self._read_parameter(name, given) for name, given in form.parameters.items()
        }
        needs = self._convert(form.needs, _NeedsForm, "needs")
        return CommandTool(
            build_tool_spec(form.name, form.description, form.risk, parameters),
            parameters,
            self._parse_command(form.command, parameters),
            needs=ToolRequirements(
                programs=needs.programs, variables=needs.variables, how=needs.how
            ),
            timeout=form.timeout,
        )

    def _convert(self, value: object, kind: type[T], *path: str) -> T:
        if not isinstance(value, dict):
            raise self._error("expected `key: value` lines here", *path)
        return self._document.convert(value, kind, *self._place, *path)

    def _error(self, cause: str, *path: str) -> YamlFileError:
        return YamlFileError(self._document.problem((*self._place, *path), cause))

    def _read_parameter(self, name: str, given: object) -> CommandParameter:
        if not _TOOL_NAME.fullmatch(name):
            raise self._error(f"{name!r}: a name is made of a-z, 0-9 and _", "parameters", name)
        parameter = self._convert(given, CommandParameter, "parameters", name)
        if parameter.enum and parameter.type not in _ENUM_TYPES:
            cause = f"{name}: {parameter.type} takes no enum"
            raise self._error(cause, "parameters", name, "enum")
        key = "pattern"
        try:
            re.compile(parameter.pattern)
            key = "enum"
            for choice in parameter.enum:
                msgspec.convert(choice, _ENUM_TYPES[parameter.type])
            key = "default"
            kind = parameter_type(parameter)
            if parameter.default is not None:
                msgspec.convert(parameter.default, kind)
        except (re.error, msgspec.ValidationError, TypeError, ValueError) as error:
            cause = f"{name}: {key} does not fit: {error}"
            raise self._error(cause, "parameters", name, key) from error
        return parameter

    def _parse_command(
        self, text: str, parameters: Mapping[str, CommandParameter]
    ) -> tuple[TemplatePart, ...]:
        try:
            parts = parse_template(text)
        except CommandTemplateError as error:
            path = (*self._place, "command")
            first = self._document.text_lines.get(path, self._document.line_of(*path))
            line = first + text.count("\n", 0, error.position)
            problem = Problem(self._document.file, line, f"command: {error}")
            raise YamlFileError(problem) from error
        used = [part.name for part in parts if isinstance(part, TemplateSlot)]
        for name in used:
            if name not in parameters:
                near = closest_name(name, parameters)
                hint = f"; did you mean {near}?" if near else ""
                raise self._error(f"command: no parameter is called {name}{hint}", "command")
        rerun = reparsing_program(parts)
        for name, parameter in parameters.items():
            if name not in used:
                raise self._error(f"command: the parameter {name} is never used", "command")
            if rerun and not parameter.is_harmless:
                why = f"{rerun} reads its words as code once more: give {name} a pattern or an enum"
                raise self._error(f"command: {why}", "command")
        return parts
