"""A tool that is a command: parameters are checked, and each becomes one shell word."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.tools.command_template import Part, Place, quoted, render
from hermes.tools.declare import Needs, check, schema_of

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[str],
}


class Parameter(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    type: Literal["string", "integer", "number", "boolean", "array"] = "string"
    description: str = ""
    default: Any = None
    required: bool | None = None
    """By default, whatever has no default."""
    enum: tuple[str | int, ...] = ()
    pattern: str = ""
    """The whole value must match."""
    minimum: float | None = None
    maximum: float | None = None
    flag: str = ""
    """An option to put before the value; alone for a boolean that is true, nothing without one."""
    allow_dash: bool = False
    """Whether the value may begin with a dash, where it could be taken for an option."""

    @property
    def wanted(self) -> bool:
        return self.default is None if self.required is None else self.required

    @property
    def harmless(self) -> bool:
        """True when no value can be code."""
        return bool(self.enum or self.pattern) or self.type not in ("string", "array")


class DeclaredTool:
    def __init__(
        self,
        spec: ToolSpec,
        parameters: Mapping[str, Parameter],
        command: tuple[Part, ...],
        *,
        needs: Needs,
        timeout: float,
    ) -> None:
        self.spec = spec
        self.needs = needs
        self._parameters = parameters
        self._arguments = arguments_of(spec.name, parameters)
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
        """What would run. Raises `ToolError` for a value that does not fit."""
        checked = check(self.spec.name, self._arguments, arguments)
        places = {part.name: part for part in self._command if isinstance(part, Place)}
        words = {
            name: _word(name, self._parameters[name], place, getattr(checked, name))
            for name, place in places.items()
        }
        return render(self._command, words)


def spec_of(
    name: str, description: str, risk: Risk, parameters: Mapping[str, Parameter]
) -> ToolSpec:
    schema = schema_of(arguments_of(name, parameters))
    return ToolSpec(name=name, description=description, parameters=schema, risk=risk)


def arguments_of(name: str, parameters: Mapping[str, Parameter]) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for key, each in parameters.items():
        kind = type_of(each)
        if each.wanted:
            fields.append((key, kind))
        elif each.default is None:
            fields.append((key, kind | None, None))
        else:
            fields.append((key, kind, msgspec.convert(each.default, kind)))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def type_of(each: Parameter) -> Any:
    """Raises `TypeError` or `ValueError` when the limits do not fit the type."""
    kind = Literal[each.enum] if each.enum else _TYPES[each.type]
    number = int if each.type == "integer" else float
    numeric = each.type in ("integer", "number")
    meta = msgspec.Meta(
        description=each.description or None,
        extra_json_schema={"pattern": each.pattern} if each.pattern else None,
        ge=number(each.minimum) if numeric and each.minimum is not None else None,
        le=number(each.maximum) if numeric and each.maximum is not None else None,
    )
    return Annotated[kind, meta]


def _word(name: str, parameter: Parameter, place: Place, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) and parameter.flag:
        return parameter.flag if value else ""
    values = value if isinstance(value, list) else [value]
    for each in values:
        _check_text(name, parameter, place, each)
    flag = f"{parameter.flag} " if parameter.flag else ""
    return " ".join(flag + quoted(each) for each in values)


def _check_text(name: str, parameter: Parameter, place: Place, value: object) -> None:
    if not isinstance(value, str):
        return
    if "\0" in value:
        raise ToolError(f"{name} contains a zero byte")
    if parameter.pattern and not re.fullmatch(parameter.pattern, value):
        raise ToolError(f"{name} must match {parameter.pattern}")
    optional = place.starts_word and not parameter.flag and not parameter.allow_dash
    if optional and value.startswith("-") and not parameter.enum:
        raise ToolError(f"{name} must not begin with a dash: it would be taken for an option")
