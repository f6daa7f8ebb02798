"""A declared command that acts on a configured system: a cluster, a container daemon, a database.

The options of the connection come from the settings, as a shell reads them, and never from a model.
Such a call is not isolated, wherever its command runs. A change reads beforehand what its undo
command needs, through the executor like any other call.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from hermes.core.messages import RemoteTarget, ToolCall, ToolDefinition, ToolResult, ToolSpec, Value
from hermes.core.protocols import ToolContext
from hermes.core.run_ids import new_id
from hermes.tools.declare import ToolRequirements
from hermes.tools.parameters import CommandParameter

CONNECTION = "connection"
"""The slot of the options, and the parameter that chooses among several connections."""
BEFORE = "before"
"""The slot of an undo command for what was read before the change."""
ExecuteCall = Callable[[ToolCall], Awaitable[ToolResult]]
_LONGEST_FAILURE = 1_000
"""Characters; a longer answer holds data, whatever words are in it."""
_ADVICE = (
    (
        r"NOAUTH|WRONGPASS|ERROR 1045 |ERR AUTH|fe_sendauth|psql: .*(password|authentication)",
        "the account or its password was refused: `user` of tools.databases.NAME in config.yaml "
        "names the account, the password is in {password}",
    ),
    (
        r"ERROR 1049 |psql: .*database \".*\" does not exist",
        "`database` of tools.databases.NAME in config.yaml names one that is not there",
    ),
    (
        r"ERROR 20(0[2-5]|13) |Could not connect|psql: .*(connection to server|translate host)"
        r"|it does not answer|\[exit code 124\]",
        "the server was not reached, or did not answer in time: check that it runs, and `host` and "
        "`port` of tools.databases.NAME in config.yaml",
    ),
)
"""What a client of a database prints when it failed, and how to go on."""
_PASSWORDS = {
    "postgres": "~/.pgpass (mode 0600)",
    "mysql": "~/.my.cnf ([client], password=)",
    "redis": "REDISCLI_AUTH (`hermes config set REDISCLI_AUTH <password>` and "
    "`hermes config set terminal.pass_variables REDISCLI_AUTH`)",
}
_PLAIN_VALUE = re.compile(r"[\w.:/@=-]{1,200}")


class CommandConnection(Value, kw_only=True, frozen=True):
    options: str
    """As a shell reads them."""
    host: str = ""
    """What the connection leads to, for rules and people."""


Connections = Mapping[str, Mapping[str, CommandConnection]]
"""By the kind of system, then by name; the only one of a kind may have an empty name."""


class TargetForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Parameters that name what a call acts on."""

    namespace: str = ""
    service: str = ""


class CommandUndoForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    command: str
    read: str = ""
    """A command that prints one plain word, which the undo command has as `{{before}}`."""


def connection_parameter(known: Mapping[str, CommandConnection]) -> CommandParameter | None:
    """The parameter that chooses a connection; None where there is nothing to choose."""
    if set(known) == {""}:
        return None
    names = tuple(known)
    return CommandParameter(
        enum=names,
        default=names[0] if len(names) == 1 else None,
        description="Which of the configured ones",
    )


class RendersCommand(Protocol):
    """A command template with its parameters, as a tool."""

    spec: ToolSpec
    needs: ToolRequirements
    definition: ToolDefinition

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str: ...

    def command(self, arguments: Mapping[str, Any]) -> str: ...


class ConnectedCommand:
    """`undo`: templates of the commands that read the present state and that undo the change."""

    def __init__(
        self,
        kind: str,
        connections: Mapping[str, CommandConnection],
        inner: RendersCommand,
        target: TargetForm,
        undo: tuple[RendersCommand | None, RendersCommand] | None = None,
    ) -> None:
        self.spec: ToolSpec = inner.spec
        self.needs: ToolRequirements = inner.needs
        self.definition: ToolDefinition = inner.definition
        self._kind, self._connections, self._inner = kind, connections, inner
        self._target, self._undo = target, undo

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        undo = await self.undo_note(context.call, arguments)
        answer = await self._inner(context, arguments)
        return "\n".join(filter(None, (answer, advise(self._kind, answer), undo)))

    def validate(self, arguments: Mapping[str, Any]) -> str:
        return self._inner.command(arguments)

    def command(self, arguments: Mapping[str, Any]) -> str:
        return self._inner.command(arguments)

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        self._inner.command(arguments)  # raises where they do not fit
        names = tuple(self._connections)
        chosen = str(arguments.get(CONNECTION) or (names[0] if names else ""))
        known = self._connections.get(chosen, CommandConnection(options=""))
        return RemoteTarget(
            kind=self._kind,
            host=known.host or chosen,
            namespace=str(arguments.get(self._target.namespace) or ""),
            service=str(arguments.get(self._target.service) or ""),
        )

    async def undo_note(self, execute: ExecuteCall, arguments: Mapping[str, Any]) -> str:
        """Return how the change is undone, found out before it is made."""
        if self._undo is None:
            return ""
        read, back = self._undo
        given = dict(arguments)
        if read is not None:
            call = ToolCall(new_id("before"), "terminal", {"command": read.command(arguments)})
            result = await execute(call)
            value, _, notes = result.content.strip().partition("\n")  # of the terminal, on its end
            failed = result.status != "ok" or notes.startswith("[exit")
            if failed or not _PLAIN_VALUE.fullmatch(value):
                return "[no undo is known: what was there before could not be read]"
            given[BEFORE] = value
        return f"[to undo: {back.command(given)}]"


def advise(kind: str, answer: str) -> str:
    """Return what a person does about a failure of the connection; empty for any other answer."""
    if kind not in _PASSWORDS or len(answer) > _LONGEST_FAILURE:
        return ""
    for pattern, advice in _ADVICE:
        if re.search(rf"^({pattern})", answer, re.MULTILINE):
            return f"[{advice.format(password=_PASSWORDS[kind])}; see docs/how-to/databases.md]"
    return ""
