"""Describes a tool call as an action that the policy judges, and as the events about it."""

from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from hermes.core.actions import Action, Decision, KernelSupport
from hermes.core.errors import ToolError
from hermes.core.events.tools import ToolDecided, ToolRequested
from hermes.core.messages import RemoteTarget, ToolCall
from hermes.core.protocols import (
    ActsElsewhere,
    ConfinesCommands,
    DefinedByOthers,
    Environment,
    KnowsWorkingDirectory,
    ShowsCommand,
    ShowsRequest,
    Tool,
    ToolContext,
    provides,
)


async def build_action(call: ToolCall, tool: Tool, context: ToolContext) -> Action:
    environment = context.environment
    action = Action(
        call=call,
        risk=tool.spec.risk,
        run=context.run,
        origin=context.origin,
        environment=environment.name,
        target=environment.target,
        isolated=environment.isolated,
        cwd=environment.folder if isinstance(environment, KnowsWorkingDirectory) else "",
        actor=context.actor,
        kernel=await _kernel_support(environment),
    )
    return describe_action(action, tool)


def describe_action(action: Action, tool: Tool) -> Action:
    """The action with what its tool says: the command, where it acts, and what it would send."""
    arguments, command, request = action.call.arguments, "", None
    elsewhere = provides(tool, ActsElsewhere) or provides(tool, ShowsRequest)
    remote = RemoteTarget(kind="unknown") if elsewhere else None
    with suppress(ToolError):  # the tool will report it; until then its risk counts
        if provides(tool, ShowsCommand):
            command = tool.command(arguments)
        if provides(tool, ShowsRequest):
            request = tool.request(arguments)
            remote = RemoteTarget(kind="http", host=urlsplit(request.url).hostname or "")
        if provides(tool, ActsElsewhere):
            remote = tool.acts_on(arguments)
    return msgspec.structs.replace(
        action,
        command=command,
        request=request,
        definition=tool.definition if isinstance(tool, DefinedByOthers) else None,
        remote=remote,
        target=action.target if remote is None else remote.host,
        isolated=action.isolated and remote is None,
    )


async def _kernel_support(environment: Environment) -> KernelSupport:
    if provides(environment, ConfinesCommands):
        return await environment.kernel_support()
    return KernelSupport(reason=f"commands in {environment.name} are not confined by the kernel")


def origin_of(url: str) -> str:
    """Scheme, host and port of an address; the standard port is left out."""
    parts = urlsplit(url)
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port and parts.port != standard else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}".lower()


def requested_event(action: Action) -> ToolRequested:
    return ToolRequested(
        run=action.run,
        call=action.call,
        risk=action.risk,
        origin=action.origin,
        environment=action.environment,
        target=action.target,
        isolated=action.isolated,
        cwd=action.cwd,
        command=action.command,
        actor=action.actor,
        remote=action.remote,
        request=action.request,
        definition=action.definition,
    )


def decided_event(action: Action, decision: Decision) -> ToolDecided:
    return ToolDecided(
        run=action.run,
        call_id=action.call.id,
        verdict=decision.verdict,
        rule=decision.rule,
        reason=decision.reason,
        effects=decision.effects,
        hash=decision.hash,
        tainted=decision.tainted,
        audited=tuple(f"{each.rule}: {each.effect}" for each in decision.audited),
        judged=decision.profile.describe if decision.profile else "",
        enforced=decision.enforced,
        unenforced=decision.unenforced,
    )
