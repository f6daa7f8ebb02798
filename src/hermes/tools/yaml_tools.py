"""Tools that are declared in YAML files as a command template.

`{{name}}` becomes the value, quoted as one word. Quoting protects only where the shell reads words,
so a slot inside quotes, a comment, a here-document, arithmetic and the like is refused when the
template is read, not when a hostile value comes. Every problem of a file is reported with its line.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolDefinition, ToolSpec, Value
from hermes.core.protocols import ToolContext
from hermes.plumbing.problems import Problem, closest_name
from hermes.plumbing.yaml_document import KeyPath, YamlDocument, YamlFileError, load_yaml
from hermes.tools.declare import ToolRequirements, check_arguments, json_schema

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_WORD_START = " \t\n;&|()"
_REPARSING_PROGRAMS = {"eval", "let", "ssh", "su", "watch", "parallel", "xargs", "-c"}


class CommandTemplateError(Exception):
    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


class TemplateSlot(Value, frozen=True):
    name: str
    starts_word: bool
    """True when a value that begins with a dash would be taken for an option here."""


TemplatePart = str | TemplateSlot


def parse_template(text: str) -> tuple[TemplatePart, ...]:
    """Raises `CommandTemplateError` where a value could be read as anything but a word."""
    parts: list[TemplatePart] = []
    at = done = 0
    quote = ""
    guarded = bool(_SLOT.search(text))
    while at < len(text):
        match = _SLOT.match(text, at)
        if match is None:
            if guarded:
                _refuse_risky(text, at, quote)
            quote, at = _advance(text, at, quote)
            continue
        _refuse_slot(text, at, quote)
        before = text[done:at]
        starts_word = (not text[:at] or text[at - 1] in _WORD_START) and " -- " not in text[:at]
        parts += [before, TemplateSlot(match[1], starts_word)]
        at = done = match.end()
    if quote not in ("", "#"):
        raise CommandTemplateError(len(text), f"a {quote} is never closed")
    return (*parts, text[done:])


def render_command(parts: Sequence[TemplatePart], words: Mapping[str, str]) -> str:
    """The command; `words` are already quoted for the shell."""
    return "".join(part if isinstance(part, str) else words[part.name] for part in parts)


def reparsing_program(parts: Sequence[TemplatePart]) -> str:
    """A program in the command that parses its arguments as code again; empty when none does."""
    literal = " ".join(part for part in parts if isinstance(part, str))
    return next(
        (word for word in re.split(r"[\s;&|()]+", literal) if word in _REPARSING_PROGRAMS), ""
    )


def quote_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return shlex.quote(str(value))


def _advance(text: str, at: int, quote: str) -> tuple[str, int]:
    """Advances by one character of the shell's grammar: the quote that is then open, and the
    position."""
    char = text[at]
    if quote == "#":
        return ("" if char == "\n" else quote), at + 1
    if quote == "'":
        return ("" if char == "'" else quote), at + 1
    if char == "\\":
        return quote, at + 2
    if quote:
        return ("" if char == quote[-1] else quote), at + 1
    if char == "'":
        return ("$'" if text[at - 1 : at] == "$" else "'"), at + 1
    if char in '"`':
        return char, at + 1
    comment = char == "#" and (at == 0 or text[at - 1] in _WORD_START)
    return ("#" if comment else ""), at + 1


def _refuse_risky(text: str, at: int, quote: str) -> None:
    """Refuse syntax that this simple reading of the shell's grammar could misread."""
    rest = text[at:]
    if rest.startswith("{{"):
        raise CommandTemplateError(at, "{{ begins a parameter: write {{name}}")
    if rest.startswith("\\{{"):
        raise CommandTemplateError(at, "a backslash before {{ would undo the quoting of the value")
    if quote == '"' and (rest[0] == "`" or rest.startswith("$(")):
        raise CommandTemplateError(
            at, "a command inside double quotes cannot be checked: put it into a variable first"
        )
    if quote == '"' and re.match(r"\$\{[^}]*[\"']", rest):
        raise CommandTemplateError(at, "quotes inside ${…} inside quotes cannot be checked")
    if quote:
        return
    for risky, why in (("((", "arithmetic"), ("[[", "[[ … ]]")):
        if rest.startswith(risky):
            raise CommandTemplateError(
                at, f"{why} would run code hidden in a value: use [ … ] or expr"
            )
    if rest.startswith("<<") and not rest.startswith("<<<") and text[at - 1 : at] != "<":
        raise CommandTemplateError(at, "a here-document does not protect values: use printf | …")


def _refuse_slot(text: str, at: int, quote: str) -> None:
    if quote == "#":
        raise CommandTemplateError(at, "a value inside a comment could end it")
    if quote:
        raise CommandTemplateError(
            at, f"a value inside {quote} is not safe: write it bare, it is quoted for you"
        )
    if text[at - 1 : at] in ("$", "\\") and at:
        raise CommandTemplateError(at, f"{text[at - 1]} before a value would change its quoting")


_PARAMETER_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[str],
}


class CommandParameter(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    type: Literal["string", "integer", "number", "boolean", "array"] = "string"
    description: str = ""
    default: Any = None
    required: bool | None = None
    """By default, true without a default value."""
    enum: tuple[str | int, ...] = ()
    pattern: str = ""
    """The whole value must match."""
    minimum: float | None = None
    maximum: float | None = None
    flag: str = ""
    """An option before the value; for a boolean the option alone when it is true, else nothing."""
    allow_dash: bool = False
    """Whether the value may begin with a dash, where it could be taken for an option."""

    @property
    def is_required(self) -> bool:
        return self.default is None if self.required is None else self.required

    @property
    def is_harmless(self) -> bool:
        """True when no value can be code."""
        return bool(self.enum or self.pattern) or self.type not in ("string", "array")


class CommandTool:
    def __init__(
        self,
        spec: ToolSpec,
        parameters: Mapping[str, CommandParameter],
        command: tuple[TemplatePart, ...],
        *,
        needs: ToolRequirements,
        timeout: float,
    ) -> None:
        self.spec = spec
        self.needs = needs
        self.definition = ToolDefinition()
        self._parameters = parameters
        self._arguments = build_arguments_struct(spec.name, parameters)
        self._command = command
        self._timeout = timeout

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        command = self.command(arguments)
        result = await context.environment.run(command, timeout=self._timeout)
        if result.timed_out:
            raise ToolError(f"{result.output}\n[stopped after {self._timeout:g} seconds]".strip())
        ending = f"\n[exit code {result.exit_code}]" if result.exit_code else ""
        return f"{result.output.rstrip()}{ending}".strip() or "[no output]"

    def fit(self, arguments: Mapping[str, Any]) -> str:
        return self.command(arguments)

    def command(self, arguments: Mapping[str, Any]) -> str:
        """The command that would run. Raises `ToolError` for a value that does not fit."""
        checked = check_arguments(self.spec.name, self._arguments, arguments)
        slots = {part.name: part for part in self._command if isinstance(part, TemplateSlot)}
        words = {
            name: _parameter_word(name, self._parameters[name], slot, getattr(checked, name))
            for name, slot in slots.items()
        }
        return render_command(self._command, words)


def build_tool_spec(
    name: str, description: str, risk: Risk, parameters: Mapping[str, CommandParameter]
) -> ToolSpec:
    schema = json_schema(build_arguments_struct(name, parameters))
    return ToolSpec(name=name, description=description, parameters=schema, risk=risk)


def build_arguments_struct(
    name: str, parameters: Mapping[str, CommandParameter]
) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for key, each in parameters.items():
        kind = parameter_type(each)
        if each.is_required:
            fields.append((key, kind))
        elif each.default is None:
            fields.append((key, kind | None, None))
        else:
            fields.append((key, kind, msgspec.convert(each.default, kind)))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def parameter_type(each: CommandParameter) -> Any:
    """Raises `TypeError` or `ValueError` when the limits do not fit the type."""
    kind = Literal[each.enum] if each.enum else _PARAMETER_TYPES[each.type]
    number = int if each.type == "integer" else float
    numeric = each.type in ("integer", "number")
    meta = msgspec.Meta(
        description=each.description or None,
        extra_json_schema={"pattern": each.pattern} if each.pattern else None,
        ge=number(each.minimum) if numeric and each.minimum is not None else None,
        le=number(each.maximum) if numeric and each.maximum is not None else None,
    )
    return Annotated[kind, meta]


def _parameter_word(name: str, parameter: CommandParameter, slot: TemplateSlot, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) and parameter.flag:
        return parameter.flag if value else ""
    values = value if isinstance(value, list) else [value]
    for each in values:
        _check_text(name, parameter, slot, each)
    flag = f"{parameter.flag} " if parameter.flag else ""
    return " ".join(flag + quote_value(each) for each in values)


def _check_text(name: str, parameter: CommandParameter, slot: TemplateSlot, value: object) -> None:
    if not isinstance(value, str):
        return
    if "\0" in value:
        raise ToolError(f"{name} contains a zero byte")
    if parameter.pattern and not re.fullmatch(parameter.pattern, value):
        raise ToolError(f"{name} must match {parameter.pattern}")
    optional = slot.starts_word and not parameter.flag and not parameter.allow_dash
    if optional and value.startswith("-") and not parameter.enum:
        raise ToolError(f"{name} must not begin with a dash: it would be taken for an option")


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
