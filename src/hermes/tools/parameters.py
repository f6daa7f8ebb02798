"""The parameters of tools that are declared in YAML: their types, limits and schema."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.tools.declare import json_schema

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
        elif isinstance(each.default, list):
            default = tuple(msgspec.convert(each.default, kind))
            fields.append((key, kind, msgspec.field(default_factory=partial(list, default))))
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


def check_pattern(name: str, parameter: CommandParameter, value: object) -> None:
    """Raises `ToolError` when a text does not match the pattern of its parameter."""
    if not isinstance(value, str):
        return
    if "\0" in value:
        raise ToolError(f"{name} contains a zero byte")
    if parameter.pattern and not re.fullmatch(parameter.pattern, value):
        meaning = f"; it is: {parameter.description}" if parameter.description else ""
        raise ToolError(f"{name} must match {parameter.pattern}{meaning}")
