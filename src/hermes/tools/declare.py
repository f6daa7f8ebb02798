"""Makes a tool of a typed function: its signature is the schema, its docstring the description.

Say more about one parameter with `Annotated[str, about("...")]`.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, ParamSpec, get_type_hints

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import ToolContext

P = ParamSpec("P")


def about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FunctionTool:
    """A `Tool` whose body is a plain async function."""

    def __init__(self, body: Callable[..., Awaitable[str]], *, risk: Risk, alone: bool) -> None:
        self._body = body
        self._arguments = _arguments_of(body)
        self.spec = ToolSpec(
            name=body.__name__,
            description=inspect.cleandoc(body.__doc__ or ""),
            parameters=_schema_of(self._arguments),
            risk=risk,
            alone=alone,
        )

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        checked = check(self.spec.name, self._arguments, arguments)
        return await self._body(context, **msgspec.structs.asdict(checked))


def tool(
    *, risk: Risk, alone: bool = False
) -> Callable[[Callable[Concatenate[ToolContext, P], Awaitable[str]]], FunctionTool]:
    """Declare a tool. Every tool says its risk; there is no default to forget."""
    return lambda body: FunctionTool(body, risk=risk, alone=alone)


def check(name: str, kind: type[msgspec.Struct], arguments: Mapping[str, Any]) -> msgspec.Struct:
    """Arguments as the tool wants them; else a `ToolError` the model can act on."""
    try:
        return msgspec.convert(dict(arguments), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(
            f"arguments do not fit {name}: {error}. "
            f"It takes: {', '.join(f.name for f in msgspec.structs.fields(kind)) or 'nothing'}."
        ) from error


def _arguments_of(body: Callable[..., Awaitable[str]]) -> type[msgspec.Struct]:
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


def _schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    (_, schema), *rest = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")[
        1
    ].items()
    schema.pop("title", None)
    if rest:
        schema["$defs"] = dict(rest)
    return dict(schema)
