"""Judges calls that do not act in the environment of the agent: where they go, and what they send.

The tool says both, never the model. A call of which only the risk is known acts in this process or
elsewhere, so it is not isolated either.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import OutgoingRequest, RemoteTarget, Risk
from hermes.policy.actions.action_effects import ActionLocation

ENVIRONMENT_TOOLS = frozenset(
    {"terminal", "host_terminal", "process", "read_file", "search_files", "write_file", "patch"}
    | {"execute_code", "try_on_copy"}
)
"""Tools of ours that act in the environment of the agent."""
BROWSER_ACTS = frozenset({"browser_click", "browser_type", "browser_press", "browser_dialog"})
"""Tools of ours that act on the web page which is open; one approval is for all of its site."""
_DISPLAY_ARGUMENTS = frozenset({"timeout", "watch", "limit", "offset"})
"""Arguments that do not change what our own tools do, so they are not part of the hash."""
_EFFECTS_BY_RISK: Mapping[Risk, frozenset[str]] = {
    Risk.READ: frozenset({"network-read"}),
    Risk.CHANGE: frozenset({"write", "network-out", "unknown"}),
    Risk.DESTROY: frozenset({"delete", "irreversible", "network-out", "unknown"}),
}
_READ_METHODS = frozenset({"GET", "HEAD"})
_METADATA_HOST = re.compile(r"169\.254\.|metadata(?:\.|$)|fd00:ec2:|100\.100\.100\.200$")
_MAX_SHOWN_BODY_CHARS = 4_000

RemoteJudgement = tuple[str, frozenset[str], tuple[str, ...]]
"""What people are shown, the effects, and one line for each effect that is not a read."""


def is_remote(action: Action) -> bool:
    """Return whether it acts elsewhere, or its tool was defined elsewhere and shows no command."""
    digest = action.definition.digest if action.definition else ""
    return action.remote is not None or (bool(digest) and not action.command)


def judge_remote_call(action: Action) -> RemoteJudgement:
    name = rule_name(action)
    where = f" on {describe_target(action.remote)}" if action.remote else ""
    if action.request is not None:
        return _judge_request(action.request, where)
    effects = _EFFECTS_BY_RISK[action.risk]
    why = f"unknown: all we know of {name} is its risk, {action.risk.value}"
    return f"{name}{where}", effects, (why,) if "unknown" in effects else ()


def rule_name(action: Action) -> str:
    """The name of the tool for rules and people, such as `mcp:github/create_issue`."""
    return (action.definition.name if action.definition else "") or action.call.name


def describe_target(target: RemoteTarget) -> str:
    named = "/".join(filter(None, (target.host, target.namespace, target.service)))
    return f"{target.kind} {named}".strip()


def render_request(request: OutgoingRequest) -> str:
    """The request as people see it before they approve it."""
    body = request.body
    if len(body) > _MAX_SHOWN_BODY_CHARS:
        left_out = len(body) - _MAX_SHOWN_BODY_CHARS
        body = f"{body[:_MAX_SHOWN_BODY_CHARS]} [{left_out:,} CHARACTERS ARE NOT SHOWN]"
    price = f" [about ${request.price_usd:.3f}]" if request.price_usd else ""
    return f"{request.method} {request.url}{f' {body}' if body else ''}{price}"


def location_of(action: Action, known: ActionLocation, command: str) -> ActionLocation:
    remote = action.remote
    if remote is None:
        here = bool(command) or action.call.name in ENVIRONMENT_TOOLS
        return msgspec.structs.replace(
            known,
            place=action.environment,
            host=known.host or action.target,
            isolated=action.isolated and here,
        )
    return msgspec.structs.replace(
        known,
        place=remote.kind,
        host=remote.host,
        namespace=remote.namespace,
        service=remote.service or known.service,
        isolated=False,
    )


def identity_of(action: Action) -> tuple[object, ...]:
    """Return what identifies the call in the hash of the action, beside its command and its
    place."""
    if action.call.name in BROWSER_ACTS and action.remote is not None:
        return ("browser", msgspec.structs.astuple(action.remote))  # approved once for a site
    own, arguments = action.call.name in ENVIRONMENT_TOOLS, action.call.arguments
    relevant = {
        name: value for name, value in arguments.items() if not (own and name in _DISPLAY_ARGUMENTS)
    }
    remote: dict[str, Any] = {}
    if action.definition is not None and action.definition.digest:
        remote["definition"] = (action.definition.name, action.definition.digest)
    if action.remote is not None:
        remote["target"] = msgspec.structs.astuple(action.remote)
    if action.request is not None:
        *sent, _ = msgspec.structs.astuple(action.request)  # its price does not identify it
        remote["request"] = tuple(sent)
    return (action.call.name, relevant, *([remote] if remote else []))


def _judge_request(request: OutgoingRequest, where: str) -> RemoteJudgement:
    method, parts = request.method.upper(), urlsplit(request.url)
    shown, near = render_request(request), "network-local" if request.configured else "network-read"
    if method in _READ_METHODS and request.effect in ("", "read"):
        effects, why = {near}, list[str]()
    elif method == "POST" and request.effect == "read":
        effects, why = {near}, []
    elif request.configured and request.effect == "service-change":
        effects, why = {near, "service-change"}, [f"service-change: {method}{where}"]
    else:
        change = "delete" if "delete" in (request.effect, method.lower()) else "write"
        effects = {"network-out", change}
        why = [f"network-out: {method} sends a change{where}", f"{change}: {method}"]
        if request.effect == "service-change":
            effects.add("service-change")
    if not request.configured and _METADATA_HOST.match(parts.hostname or ""):
        effects.add("secret-read")
        why.append("secret-read: the metadata service of a cloud gives out credentials")
    if not request.configured and "@" in parts.netloc:
        effects.add("unknown")
        why.append("unknown: the address contains a user or a password")
    return shown, frozenset(effects), tuple(why)
