"""Tools declared in YAML, without Python: <home>/tools/*.yaml. Imported only when there are some.

    name: pods
    description: List the pods of a namespace.
    risk: read                      # read, change or destroy; must be said
    command: kubectl get pods -n {{namespace}} {{wide}}
    timeout: 30
    parameters:
      namespace: {type: string, default: default, pattern: "[a-z0-9-]+"}
      wide: {type: boolean, default: false, flag: -o wide}
    needs: {programs: [kubectl], how: install kubectl}

A file holds one tool or a list of them. A mistake costs only the tool it is in; each is told with
file, line and cause.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hermes.core.messages import Risk, Value
from hermes.tools import command_template
from hermes.tools.declare import Needs
from hermes.tools.declared_tool import DeclaredTool, Parameter, spec_of, type_of
from hermes.tools.yaml_lines import Mistake, convert, entries, items, line_of

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class _Form(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
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


class Declared(Value, frozen=True):
    tools: dict[str, DeclaredTool]
    mistakes: tuple[str, ...] = ()
    """`file:line: cause`, one for each tool that could not be read."""


def load_folder(folder: Path, *, taken: Collection[str] = ()) -> Declared:
    """Every tool of the folder; `taken` are names that belong to others."""
    tools: dict[str, DeclaredTool] = {}
    mistakes: list[str] = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        for found in _read(path):
            if isinstance(found, Mistake):
                mistakes.append(f"{path}:{found.line}: {found}")
                continue
            line, tool = found
            name = tool.spec.name
            if name in tools or name in taken:
                mistakes.append(f"{path}:{line}: there is a tool {name!r} already")
            else:
                tools[name] = tool
    return Declared(tools, tuple(mistakes))


def _read(path: Path) -> Iterator[tuple[int, DeclaredTool] | Mistake]:
    try:
        root = yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        yield Mistake(line, f"not valid YAML: {error.problem or error.context}")
        return
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        yield Mistake(1, f"cannot be read: {error}")
        return
    if root is None:
        yield Mistake(1, "the file is empty")
        return
    for node in items(root):
        try:
            yield line_of(node), _tool(node)
        except Mistake as mistake:
            yield mistake


def _tool(node: yaml.Node) -> DeclaredTool:
    form = convert(node, _Form)
    nodes = entries(node)
    if not _NAME.fullmatch(form.name):
        raise Mistake(line_of(nodes["name"]), "a name is made of a-z, 0-9 and _, like disk_usage")
    if not 0 < form.timeout <= 3600:
        raise Mistake(line_of(nodes["timeout"]), "timeout is in seconds, from 0 to 3600")
    parameters = _parameters(nodes.get("parameters"))
    command = _command(nodes["command"], form.command, parameters)
    needs = convert(nodes["needs"], _NeedsForm) if "needs" in nodes else _NeedsForm()
    return DeclaredTool(
        spec_of(form.name, form.description, form.risk, parameters),
        parameters,
        command,
        needs=Needs(programs=needs.programs, variables=needs.variables, how=needs.how),
        timeout=form.timeout,
    )


def _parameters(node: yaml.Node | None) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for name, each in entries(node).items() if node is not None else ():
        if not _NAME.fullmatch(name):
            raise Mistake(line_of(each), f"{name!r}: a name is made of a-z, 0-9 and _")
        parameters[name] = convert(each, Parameter)
        _check_parameter(name, parameters[name], entries(each))
    return parameters


def _check_parameter(name: str, parameter: Parameter, nodes: Mapping[str, yaml.Node]) -> None:
    kinds = {"string": str, "integer": int}
    key = "type"
    try:
        key = "pattern"
        re.compile(parameter.pattern)
        key = "enum"
        for choice in parameter.enum:
            msgspec.convert(choice, kinds[parameter.type])
        key = "default"
        kind = type_of(parameter)
        if parameter.default is not None:
            msgspec.convert(parameter.default, kind)
    except KeyError as error:
        raise Mistake(line_of(nodes["enum"]), f"{name}: {parameter.type} takes no enum") from error
    except (re.error, msgspec.ValidationError, TypeError, ValueError) as error:
        where = nodes.get(key) or next(iter(nodes.values()))
        raise Mistake(line_of(where), f"{name}: {key} does not fit: {error}") from error


def _command(
    node: yaml.Node, text: str, parameters: Mapping[str, Parameter]
) -> tuple[command_template.Part, ...]:
    block = getattr(node, "style", None) in ("|", ">")
    try:
        parts = command_template.parse(text)
    except command_template.TemplateMistake as error:
        line = line_of(node) + block + text.count("\n", 0, error.position)
        raise Mistake(line, f"command: {error}") from error
    used = [part.name for part in parts if isinstance(part, command_template.Place)]
    for name in used:
        if name not in parameters:
            near = get_close_matches(name, parameters, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Mistake(line_of(node), f"command: no parameter is called {name}{hint}")
    rerun = command_template.rerun_word(parts)
    for name, parameter in parameters.items():
        if name not in used:
            raise Mistake(line_of(node), f"command: the parameter {name} is never used")
        if rerun and not parameter.harmless:
            why = f"{rerun} reads its words as code once more: give {name} a pattern or an enum"
            raise Mistake(line_of(node), f"command: {why}")
    return parts
