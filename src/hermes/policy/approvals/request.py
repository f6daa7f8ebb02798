"""Builds approval requests: the whole action, the rule, and how to undo it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec

from hermes.core.actions import Action, Decision
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.foreign_text import shorten_middle
from hermes.core.messages import ToolCall, Value
from hermes.core.run_ids import new_id
from hermes.policy.actions.action_effects import fingerprint
from hermes.policy.actions.remote_calls import describe_target, render_request, rule_name
from hermes.policy.rules.rule import AskOptions, PolicyVerdict
from hermes.policy.undo import find_undo

MAX_SHOWN_CHARS = 20_000
"""Longer texts are truncated with a note."""
_shorten = partial(shorten_middle, max_chars=MAX_SHOWN_CHARS, note="CHARACTERS ARE NOT SHOWN")


class ApprovalOptions(Value, kw_only=True, frozen=True):
    """The operator's settings for approvals."""

    requester: str = ""
    """The user of this process, who asks where an action has no person."""
    groups: dict[str, tuple[str, ...]] = {}
    wait: bool = False
    """Wait for answers from elsewhere, even without a person at this terminal."""


def ask_options_of(decision: Decision) -> AskOptions:
    asked = decision.ask if isinstance(decision, PolicyVerdict) else None
    return asked or AskOptions()


def action_identity(action: Action, decision: Decision) -> str:
    """The hash of the exact action, also for a policy that does not provide it."""
    call = action.call
    parts = (call.name, call.arguments, action.command, action.environment, action.target)
    more = (action.definition,) if action.definition else ()
    return decision.hash or fingerprint(*parts, action.cwd, *more)


def build_request(
    action: Action,
    decision: Decision,
    options: ApprovalOptions,
    *,
    now: datetime,
    prompted: bool,
    redact: Callable[[str], str] = str,
) -> ApprovalRequested:
    ask, call = ask_options_of(decision), action.call
    requester = action.actor or options.requester
    command = _command_text(action)
    sends = f"sends: {render_request(action.request)}\n" if action.request else ""
    undo = decision.undo if isinstance(decision, PolicyVerdict) else ""
    undo = undo or (action.request.undo if action.request else "")
    tested = decision.tested if isinstance(decision, PolicyVerdict) else ""
    purpose = decision.purpose if isinstance(decision, PolicyVerdict) else ""
    return ApprovalRequested(
        run=action.run,
        at=now,
        approval=new_id("ask"),
        call_id=call.id,
        tool=rule_name(action),
        shown=redact(_shorten(sends + render_call(call, command))),
        effects=decision.effects or (action.risk.value,),
        rule=decision.rule,
        reason=redact(decision.reason),
        undo=redact(_shorten(undo.strip() or find_undo(call.name, command))),
        hash=decision.hash,
        requester=requester,
        approvers=expand_groups(ask.approvers, options.groups),
        count=ask.count,
        barred=expand_groups(
            (requester if name == "requester" else name for name in ask.barred),
            options.groups,
        ),
        until=now + timedelta(seconds=ask.timeout),
        place=environment_label(action),
        tainted=redact(decision.tainted),
        variables=decision.variables,
        prompted=prompted,
        tested=redact(tested),
        purpose=redact(purpose),
    )


def expand_groups(names: Iterable[str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Replaces groups by their members; other names are kept."""
    found = (person for name in names for person in groups.get(name, (name,)))
    return tuple(dict.fromkeys(person for person in found if person))


def environment_label(action: Action) -> str:
    if action.remote is not None:
        return describe_target(action.remote)
    where = f"{action.environment} ({action.target})" if action.target else action.environment
    return f"{where} in {action.cwd}" if action.cwd else where


def render_call(call: ToolCall, command: str = "") -> str:
    """A command first, as a shell line; other arguments as `name: value`."""
    if call.malformed:
        return call.malformed
    arguments = dict(call.arguments)
    lines = []
    if isinstance(arguments.get("command"), str):
        lines.append(str(arguments.pop("command")))
        arguments.pop("timeout", None)  # how long one waits for it says nothing about what it does
    lines += [f"{name}: {_render_value(value)}" for name, value in arguments.items()]
    if command and "command" not in call.arguments:
        lines.append(f"runs: {command}")
    return "\n".join(lines)


def _command_text(action: Action) -> str:
    given = action.call.arguments.get("command")
    return action.command or (given if isinstance(given, str) else "")


def _render_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value)).decode()
