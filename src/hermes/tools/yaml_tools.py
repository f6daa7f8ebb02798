"""Loads tools that are declared in YAML files; every problem is reported with file and line."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from hermes.core.messages import Risk, Value
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


class ToolFileProblem(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


def node_line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def list_items(root: yaml.Node) -> list[yaml.Node]:
    """The entries of a list; anything else is a list of one."""
    return list(root.value) if isinstance(root, yaml.SequenceNode) else [root]


def mapping_entries(node: yaml.Node) -> dict[str, yaml.Node]:
    """The values of a mapping by key. Raises `ToolFileProblem` if it is none, or repeats a key."""
    if not isinstance(node, yaml.MappingNode):
        raise ToolFileProblem(node_line(node), "expected `key: value` lines here")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = str(key.value)
        if name in found:
            raise ToolFileProblem(node_line(key), f"{name} is given twice")
        found[name] = value
    return found


def convert_node(node: yaml.Node, kind: type[T]) -> T:
    """Raises `ToolFileProblem` at the line of the key that does not fit."""
    nodes = mapping_entries(node)
    try:
        return msgspec.convert(_plain_value(node), kind)
    except msgspec.ValidationError as error:
        raise _problem_at_key(node, nodes, kind, str(error)) from error


def _problem_at_key(
    node: yaml.Node, nodes: dict[str, yaml.Node], kind: type[T], error: str
) -> ToolFileProblem:
    known = [field.name for field in msgspec.structs.fields(kind)]
    if match := re.search(r"unknown field `(.*?)`", error):
        near = get_close_matches(match[1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        return ToolFileProblem(_key_line(node, match[1]), f"{match[1]} is not known here; {hint}")
    if match := re.search(r"missing required field `(.*?)`", error):
        return ToolFileProblem(node_line(node), f"{match[1]} is missing")
    cause, _, where = error.partition(" - at `$.")
    key = re.split(r"[.\[`]", where)[0]
    line = node_line(nodes[key]) if key in nodes else node_line(node)
    return ToolFileProblem(line, f"{key}: {cause}" if key else cause)


def _key_line(node: yaml.Node, name: str) -> int:
    return next((node_line(key) for key, _ in node.value if key.value == name), node_line(node))


def _plain_value(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else node_line(node)
        raise ToolFileProblem(line, f"{error.problem}") from error
    finally:
        loader.dispose()


_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


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
            if isinstance(found, ToolFileProblem):
                problems.append(f"{path}:{found.line}: {found}")
                continue
            line, tool = found
            name = tool.spec.name
            if name in tools or name in taken:
                problems.append(f"{path}:{line}: there is a tool {name!r} already")
            else:
                tools[name] = tool
    return LoadedTools(tools, tuple(problems))


def _read_file(path: Path) -> Iterator[tuple[int, CommandTool] | ToolFileProblem]:
    try:
        root = yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        yield ToolFileProblem(line, f"not valid YAML: {error.problem or error.context}")
        return
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        yield ToolFileProblem(1, f"cannot be read: {error}")
        return
    if root is None:
        yield ToolFileProblem(1, "the file is empty")
        return
    for node in list_items(root):
        try:
            yield node_line(node), _build_tool(node)
        except ToolFileProblem as mistake:
            yield mistake


def _build_tool(node: yaml.Node) -> CommandTool:
    form = convert_node(node, _ToolForm)
    nodes = mapping_entries(node)
    if not _TOOL_NAME.fullmatch(form.name):
        raise ToolFileProblem(
            node_line(nodes["name"]), "a name is made of a-z, 0-9 and _, like disk_usage"
        )
    if not 0 < form.timeout <= 3600:
        raise ToolFileProblem(node_line(nodes["timeout"]), "timeout is in seconds, from 0 to 3600")
    parameters = _read_parameters(nodes.get("parameters"))
    command = _parse_command(nodes["command"], form.command, parameters)
    needs = convert_node(nodes["needs"], _NeedsForm) if "needs" in nodes else _NeedsForm()
    return CommandTool(
        build_tool_spec(form.name, form.description, form.risk, parameters),
        parameters,
        command,
        needs=ToolRequirements(programs=needs.programs, variables=needs.variables, how=needs.how),
        timeout=form.timeout,
    )


def _read_parameters(node: yaml.Node | None) -> dict[str, CommandParameter]:
    parameters: dict[str, CommandParameter] = {}
    for name, each in mapping_entries(node).items() if node is not None else ():
        if not _TOOL_NAME.fullmatch(name):
            raise ToolFileProblem(node_line(each), f"{name!r}: a name is made of a-z, 0-9 and _")
        parameters[name] = convert_node(each, CommandParameter)
        _check_parameter(name, parameters[name], mapping_entries(each))
    return parameters


def _check_parameter(
    name: str, parameter: CommandParameter, nodes: Mapping[str, yaml.Node]
) -> None:
    kinds = {"string": str, "integer": int}
    key = "type"
    try:
        key = "pattern"
        re.compile(parameter.pattern)
        key = "enum"
        for choice in parameter.enum:
            msgspec.convert(choice, kinds[parameter.type])
        key = "default"
        kind = parameter_type(parameter)
        if parameter.default is not None:
            msgspec.convert(parameter.default, kind)
    except KeyError as error:
        raise ToolFileProblem(
            node_line(nodes["enum"]), f"{name}: {parameter.type} takes no enum"
        ) from error
    except (re.error, msgspec.ValidationError, TypeError, ValueError) as error:
        where = nodes.get(key) or next(iter(nodes.values()))
        raise ToolFileProblem(node_line(where), f"{name}: {key} does not fit: {error}") from error


def _parse_command(
    node: yaml.Node, text: str, parameters: Mapping[str, CommandParameter]
) -> tuple[TemplatePart, ...]:
    block = getattr(node, "style", None) in ("|", ">")
    try:
        parts = parse_template(text)
    except CommandTemplateError as error:
        line = node_line(node) + block + text.count("\n", 0, error.position)
        raise ToolFileProblem(line, f"command: {error}") from error
    used = [part.name for part in parts if isinstance(part, TemplateSlot)]
    for name in used:
        if name not in parameters:
            near = get_close_matches(name, parameters, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ToolFileProblem(node_line(node), f"command: no parameter is called {name}{hint}")
    rerun = reparsing_program(parts)
    for name, parameter in parameters.items():
        if name not in used:
            raise ToolFileProblem(node_line(node), f"command: the parameter {name} is never used")
        if rerun and not parameter.is_harmless:
            why = f"{rerun} reads its words as code once more: give {name} a pattern or an enum"
            raise ToolFileProblem(node_line(node), f"command: {why}")
    return parts
