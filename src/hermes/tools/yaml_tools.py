"""Reads tools that YAML files declare; every problem of a file is reported with its line."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.core.messages import Risk, ToolSpec, Value
from hermes.plumbing.problems import Problem, closest_name
from hermes.plumbing.yaml_document import KeyPath, YamlDocument, YamlFileError, load_yaml
from hermes.tools.answer_shapes import ShapeForm
from hermes.tools.command_tool import (
    CommandTemplateError,
    CommandTool,
    TemplatePart,
    TemplateSlot,
    parse_template,
    reparsing_program,
)
from hermes.tools.connected_command import (
    BEFORE,
    CONNECTION,
    CommandConnection,
    CommandUndoForm,
    ConnectedCommand,
    Connections,
    TargetForm,
    connection_parameter,
)
from hermes.tools.declare import ToolRequirements
from hermes.tools.parameters import (
    CommandParameter,
    build_tool_spec,
    parameter_type,
)
from hermes.tools.request_template import RequestForm, check_template
from hermes.tools.request_tool import RequestTool, SystemEndpoint, reads_only

T = TypeVar("T", bound=msgspec.Struct)
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ENUM_TYPES: dict[str, type] = {"string": str, "integer": int}


class _ToolForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    risk: Risk
    command: str = ""
    request: dict[str, Any] = {}
    shape: dict[str, Any] = {}
    timeout: float = 60.0
    parameters: dict[str, Any] = {}
    needs: dict[str, Any] = {}
    connection: str = ""
    target: dict[str, Any] = {}
    undo: dict[str, Any] = {}


class _NeedsForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    how: str = ""


DeclaredTool = CommandTool | ConnectedCommand | RequestTool


class LoadedTools(Value, frozen=True):
    tools: dict[str, DeclaredTool]
    problems: tuple[str, ...] = ()
    """`file:line: cause`, one for each tool that could not be read."""


def load_tool_folder(
    folder: Path,
    *,
    taken: Collection[str] = (),
    systems: Mapping[str, SystemEndpoint] | None = None,
    connections: Connections | None = None,
    only: Collection[str] | None = None,
) -> LoadedTools:
    """Every tool of the folder; `taken` are names that belong to others, `systems` those that
    requests go to, `connections` those of commands, `only` the files that are read, by name."""
    tools: dict[str, DeclaredTool] = {}
    problems: list[str] = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        if only is not None and path.stem not in only:
            continue
        for found in _read_file(path, systems or {}, connections or {}):
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


def _read_file(
    path: Path, systems: Mapping[str, SystemEndpoint], connections: Connections
) -> Iterator[tuple[int, DeclaredTool] | Problem]:
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
            reader = _ToolReader(document, place, systems, connections)
            yield document.line_of(*place), reader.build(item)
        except YamlFileError as error:
            yield error.problem


class _ToolReader:
    """Reads one tool of a file. Raises `YamlFileError`."""

    def __init__(
        self,
        document: YamlDocument,
        place: KeyPath,
        systems: Mapping[str, SystemEndpoint],
        connections: Connections,
    ) -> None:
        self._document, self._place, self._systems = document, place, systems
        self._connections = connections

    def build(self, item: object) -> DeclaredTool:
        form = self._convert(item, _ToolForm)
        if not _TOOL_NAME.fullmatch(form.name):
            raise self._error("a name is made of a-z, 0-9 and _, like disk_usage", "name")
        if not 0 < form.timeout <= 3600:
            raise self._error("timeout is in seconds, from 0 to 3600", "timeout")
        parameters = {
            name: self._read_parameter(name, given) for name, given in form.parameters.items()
        }
        given = self._convert(form.needs, _NeedsForm, "needs")
        needs = ToolRequirements(**msgspec.structs.asdict(given))
        if form.connection:
            return self._build_connected(form, parameters, needs)
        spec = build_tool_spec(form.name, form.description, form.risk, parameters)
        if bool(form.request) == bool(form.command):
            raise self._error("a tool has either a command or a request", "name")
        if form.request:
            return self._build_request(form, spec, parameters, needs)
        return CommandTool(
            spec,
            parameters,
            self._parse_command(form.command, parameters),
            needs=needs,
            timeout=form.timeout,
        )

    def _build_connected(
        self,
        form: _ToolForm,
        parameters: Mapping[str, CommandParameter],
        needs: ToolRequirements,
    ) -> ConnectedCommand:
        known = self._connections.get(form.connection) or {"": CommandConnection(options="")}
        chooser = connection_parameter(known)
        own = {**({CONNECTION: chooser} if chooser else {}), **parameters}
        target = self._convert(form.target, TargetForm, "target")
        for name in filter(None, (target.namespace, target.service)):
            if name not in parameters:
                raise self._error(f"target: no parameter is called {name}", "target")

        def build(
            text: str, more: Mapping[str, CommandParameter], *, all_used: bool
        ) -> CommandTool:
            given = {**own, **more}
            spec = build_tool_spec(form.name, form.description, form.risk, given)
            parts = self._parse_command(text, given, connected=True, all_used=all_used)
            return CommandTool(
                spec, given, parts, needs=needs, timeout=form.timeout, connections=known
            )

        inner, undo = build(form.command, {}, all_used=True), None
        if form.undo:
            given = self._convert(form.undo, CommandUndoForm, "undo")
            read = build(given.read, {}, all_used=False) if given.read else None
            before = {BEFORE: CommandParameter()} if read is not None else {}
            undo = (read, build(given.command, before, all_used=False))
        return ConnectedCommand(form.connection, known, inner, target, undo)

    def _build_request(
        self,
        form: _ToolForm,
        spec: ToolSpec,
        parameters: Mapping[str, CommandParameter],
        needs: ToolRequirements,
    ) -> RequestTool:
        request = self._convert(form.request, RequestForm, "request")
        shape = self._convert(form.shape, ShapeForm, "shape")
        if problem := check_template(request):
            raise self._error(f"request: {problem}", "request")
        if (form.risk is Risk.READ) != reads_only(request):
            kind = "only reads" if reads_only(request) else "changes something"
            raise self._error(f"risk is {form.risk}, but the request {kind}", "risk")
        used = request.used_names() | set(shape.where.values())
        for name in sorted(used - parameters.keys()):
            raise self._error(f"request: no parameter is called {name}", "request")
        for name in sorted(parameters.keys() - used):
            raise self._error(f"request: the parameter {name} is never used", "request")
        for name, slashes, _ in request.slots():
            if slashes and not parameters[name].pattern:
                raise self._error(f"request: {name} has slashes, so it needs a pattern", "request")
        return RequestTool(
            spec,
            parameters,
            request,
            shape,
            needs=needs,
            endpoint=self._systems.get(request.system),
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
        self,
        text: str,
        parameters: Mapping[str, CommandParameter],
        *,
        connected: bool = False,
        all_used: bool = True,
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
            if name not in parameters and not (connected and name == CONNECTION):
                near = closest_name(name, parameters)
                hint = f"; did you mean {near}?" if near else ""
                raise self._error(f"command: no parameter is called {name}{hint}", "command")
        rerun = reparsing_program(parts)
        for name, parameter in parameters.items():
            if name not in used and all_used:
                raise self._error(f"command: the parameter {name} is never used", "command")
            if rerun and not parameter.is_harmless:
                why = f"{rerun} reads its words as code once more: give {name} a pattern or an enum"
                raise self._error(f"command: {why}", "command")
        return parts
