"""Makes a tool of a typed function: its signature is the schema, its docstring the description.

Describe a parameter with `Annotated[str, about("...")]`.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, Protocol, get_type_hints, runtime_checkable

import msgspec
from msgspec.structs import asdict

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec, Value
from hermes.core.protocols import ToolContext

P = ParamSpec("P")


class ToolRequirements(Value, kw_only=True, frozen=True):
    """Requirements that must be met before a tool is offered."""

    programs: tuple[str, ...] = ()
    """Found by name in the environment where the tool will run."""
    variables: tuple[str, ...] = ()
    """Keys that must be set in `.env`."""
    settings: tuple[str, ...] = ()
    """Settings that must have a value, such as `systems.prometheus.url`."""
    any_of: tuple[str, ...] = ()
    """Keys and settings of which at least one must be set."""
    how: str = ""
    """How to get what is missing, for the person who reads `hermes tools`."""


Needs = ToolRequirements
"""The earlier name, which plug-ins may still import."""


@runtime_checkable
class ChecksArguments(Protocol):
    """A tool that can check a call before a person is asked to approve it."""

    def validate(self, arguments: Mapping[str, Any]) -> object:
        """Raises `ToolError`, for the model, when the arguments do not fit."""


def about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FunctionTool:
    """A `Tool` whose body is a plain async function."""

    def __init__(
        self,
        body: Callable[..., Awaitable[str]],
        *,
        risk: Risk,
        alone: bool,
        needs: ToolRequirements,
    ) -> None:
        self._body = body
        self._risk, self._alone = risk, alone
        self.needs = needs

    @cached_property
    def spec(self) -> ToolSpec:  # made when it is needed: some tools are replaced before that
        return ToolSpec(
            name=self._body.__name__,
            description=inspect.cleandoc(self._body.__doc__ or ""),
            parameters=json_schema(self._arguments),
            risk=self._risk,
            alone=self._alone,
        )

    @cached_property
    def _arguments(self) -> type[msgspec.Struct]:
        return _arguments_struct(self._body)

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return await self._body(context, **asdict(self.validate(arguments)))

    def validate(self, arguments: Mapping[str, Any]) -> msgspec.Struct:
        return check_arguments(self._body.__name__, self._arguments, arguments)


def tool(
    *, risk: Risk, alone: bool = False, needs: ToolRequirements | None = None
) -> Callable[[Callable[Concatenate[ToolContext, P], Awaitable[str]]], FunctionTool]:
    """Declare a tool. Every tool states its risk; there is no default."""
    return lambda body: FunctionTool(
        body, risk=risk, alone=alone, needs=needs or ToolRequirements()
    )


def check_arguments(
    name: str, kind: type[msgspec.Struct], arguments: Mapping[str, Any]
) -> msgspec.Struct:
    """The arguments as the tool's struct; else a `ToolError` that the model can act on."""
    try:
        return msgspec.convert(dict(arguments), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(
            f"arguments do not fit {name}: {error}. It takes: "
            f"{_describe_parameters(json_schema(kind))}."
        ) from error


def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct in one piece: some providers do not follow references."""
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found: dict[str, Any] = _inline_references(parts[kind.__name__], parts)
    if not found.get("required"):
        found.pop("required", None)
    return found


def _arguments_struct(body: Callable[..., Awaitable[str]]) -> type[msgspec.Struct]:
    hints = get_type_hints(body, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, parameter in list(inspect.signature(body).parameters.items())[1:]:
        if parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    return msgspec.defstruct(
        f"{body.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )


_EMPTY_DEFAULTS: tuple[object, ...] = (None, "", False, 0, [])
_NULL = {"type": "null"}


def _inline_references(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with every reference replaced by its target, and without what a model can do
    without: titles, empty defaults, and that other arguments are refused."""
    if isinstance(schema, list):
        return [_inline_references(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline_references(parts[schema["$ref"]], parts)
    inner = {key: _inline_references(value, parts) for key, value in schema.items()}
    if inner.get("type") == "object":
        inner.pop("title", None)
    if inner.get("additionalProperties") is False:
        del inner["additionalProperties"]
    if "default" not in inner or inner["default"] not in _EMPTY_DEFAULTS:
        return inner
    del inner["default"]
    choices = [each for each in inner.get("anyOf", ()) if each != _NULL]
    if len(choices) == 1:  # instead of null it is left out
        del inner["anyOf"]
        inner |= choices[0]
    return inner


def _describe_parameters(schema: Mapping[str, Any]) -> str:
    """`path: string, limit: integer = 500`, for a model that sent something else."""
    required = schema.get("required", ())
    parts = []
    for name, inner in schema.get("properties", {}).items():
        choices = inner.get("enum") or [part.get("type") for part in inner.get("anyOf", ())]
        kind = inner.get("type") or " | ".join(str(choice) for choice in choices) or "anything"
        default = f" = {inner['default']!r}" if "default" in inner else ""
        default = default if default or name in required else " (optional)"
        parts.append(f"{name}: {kind}{default}")
    return ", ".join(parts) or "nothing"
