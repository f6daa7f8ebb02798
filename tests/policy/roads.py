"""Every road on which a command reaches the gate, as the action it becomes there."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from msgspec.structs import replace

from hermes.core.actions import Action
from hermes.core.events.base import RunOrigin
from hermes.core.messages import Risk, ToolCall

ORIGINS: tuple[RunOrigin, ...] = get_args(RunOrigin)

Road = Callable[[str, RunOrigin], Action]


def _action(tool: str, arguments: dict[str, Any], origin: RunOrigin, **more: Any) -> Action:
    known = {"environment": "local", "target": "here", "isolated": False, "run": "run-1"}
    call = ToolCall("call-1", tool, arguments)
    return Action(call=call, risk=Risk.CHANGE, origin=origin, **{**known, **more})


def terminal(command: str, origin: RunOrigin) -> Action:
    return _action("terminal", {"command": command}, origin)


def process_start(command: str, origin: RunOrigin) -> Action:
    return _action("terminal", {"command": command, "background": True, "pty": True}, origin)


def process_stdin(command: str, origin: RunOrigin) -> Action:
    typed = {"action": "submit", "session_id": "p-1", "data": command}
    return _action("process", typed, origin)


def declared_tool(command: str, origin: RunOrigin) -> Action:
    return _action("from_yaml", {"what": "it"}, origin, command=command)


def declared_reading(command: str, origin: RunOrigin) -> Action:
    """A tool from YAML that says of itself that it only reads: its command counts all the same."""
    call = ToolCall("call-1", "from_yaml", {"what": "it"})
    return replace(declared_tool(command, origin), call=call, risk=Risk.READ)


def inner_call(command: str, origin: RunOrigin) -> Action:
    """What code run by `execute_code` asks for: the same call, in the same run."""
    call = ToolCall("code-1-1", "terminal", {"command": command})
    return replace(terminal(command, origin), call=call)


def subagent(command: str, origin: RunOrigin) -> Action:
    return _action("terminal", {"command": command}, "subagent", run="run-1/sub-1")


ROADS: Mapping[str, Road] = {
    road.__name__: road
    for road in (
        terminal,
        process_start,
        process_stdin,
        declared_tool,
        declared_reading,
        inner_call,
        subagent,
    )
}
