"""Tools of the agent that are made from pins, without a connection."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from hermes.core.errors import ToolError
from hermes.core.messages import RemoteTarget, ToolDefinition, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.integrations.mcp.pins import (
    ServerPin,
    ToolPin,
    agent_tool_name,
    policy_tool_name,
    tool_objection,
)

CallServer = Callable[[ServerPin, ToolPin, Mapping[str, Any], ToolContext], Awaitable[str]]
"""Calls a tool of a server, which is started when it does not run yet."""

_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_UNSENT_SCHEMA_KEYS = frozenset({"$schema", "$id", "title"})


class McpTool:
    """A reviewed tool of an MCP server. Implements `Tool`, `ActsElsewhere` and `DefinedByOthers`.

    Everything that the policy reads comes from the pin: nothing that the server says later.
    """

    def __init__(self, server: ServerPin, pin: ToolPin, call: CallServer) -> None:
        self._server, self._pin, self._call = server, pin, call
        self.found_by_search = False
        """Whether the model finds it by `tool_search`, and not in its list."""
        self.definition = ToolDefinition(
            name=policy_tool_name(server.name, pin.tool.name), digest=pin.digest
        )
        self.spec = ToolSpec(
            name=agent_tool_name(server.name, pin.tool.name),
            description=f"[words of the MCP server {server.name}] {pin.tool.shown_description}",
            parameters=_sent_schema(pin.tool.input_schema),
            risk=pin.effective_risk,
        )

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        namespace = arguments.get("namespace")
        return RemoteTarget(
            kind="mcp",
            host=urlsplit(self._server.address.url).hostname or "",
            namespace=namespace if isinstance(namespace, str) else "",
            service=self._server.name,
        )

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """Checks names and kinds only: a pattern of the server could take for ever."""
        schema, name = self._pin.tool.input_schema, self.spec.name
        properties = schema.get("properties")
        known: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        for key in required if isinstance(required, list) else ():
            if key not in arguments:
                raise ToolError(f"{name} needs {key}; it takes: {_shown_names(known)}")
        for key, value in arguments.items():
            if key not in known and schema.get("additionalProperties") is False:
                raise ToolError(f"{name} takes no {key}; it takes: {_shown_names(known)}")
            if not _fits(value, known.get(key)):
                raise ToolError(f"{key} of {name} must be {known[key]['type']}")

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        self.validate(arguments)
        return await self._call(self._server, self._pin, arguments, context)


def make_tools(
    pins: Sequence[ServerPin], call: CallServer, taken: Collection[str] = ()
) -> dict[str, McpTool]:
    """The tools of all servers by name. `taken` are names of other tools, which stay theirs."""
    made = [
        McpTool(server, pin, call)
        for server in pins
        for pin in server.tools
        if not tool_objection(pin.tool) and pin.tool.digest == pin.digest
    ]
    return {tool.spec.name: tool for tool in made if tool.spec.name not in taken}


def _sent_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what providers accept at the top: an object with properties."""
    sent = {key: value for key, value in schema.items() if key not in _UNSENT_SCHEMA_KEYS}
    for key in ("anyOf", "oneOf", "allOf", "not", "enum"):  # refused by providers at the top
        sent.pop(key, None)
    return {**sent, "type": "object", "properties": sent.get("properties") or {}}


def _fits(value: object, schema: object) -> bool:
    kind: Any = schema.get("type") if isinstance(schema, dict) else None
    kinds: list[Any] = kind if isinstance(kind, list) else [kind]
    if not all(isinstance(each, str) and each in _JSON_TYPES for each in kinds):
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _JSON_TYPES[each]) for each in kinds)


def _shown_names(properties: Mapping[str, Any]) -> str:
    return ", ".join(list(properties)[:30]) or "nothing"
