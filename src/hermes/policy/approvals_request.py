"""What a person is shown before they answer: the deed in full, the rule, the way back."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from hermes.core.actions import Action, Decision
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.policy.deed import fingerprint
from hermes.policy.undo import undo_of
from hermes.policy.verdict import Ask, Verdict

SHOWN = 20_000
"""Characters; what is longer says that it is."""


class Manners(Value, kw_only=True, frozen=True):
    """What an operator decided about asking people."""

    requester: str = ""
    """In whose name this process works."""
    groups: dict[str, tuple[str, ...]] = {}
    wait: bool = False
    """Somebody follows the journal, so it is waited for also where nobody sits."""


def ask_of(decision: Decision) -> Ask:
    asked = decision.ask if isinstance(decision, Verdict) else None
    return asked or Ask()


def identity(action: Action, decision: Decision) -> str:
    """The exact action, also for a policy that does not say."""
    call = action.call
    parts = (call.name, call.arguments, action.command, action.environment, action.target)
    return decision.hash or fingerprint(*parts, action.cwd)


def request_of(
    action: Action,
    decision: Decision,
    manners: Manners,
    *,
    now: datetime,
    prompted: bool,
    redact: Callable[[str], str] = str,
) -> ApprovalRequested:
    ask, call = ask_of(decision), action.call
    command = _command(action)
    undo = decision.undo if isinstance(decision, Verdict) else ""
    return ApprovalRequested(
        run=action.run,
        at=now,
        approval=new_id("ask"),
        call_id=call.id,
        tool=call.name,
        shown=redact(_cut(shown_of(call, command))),
        effects=decision.effects or (action.risk.value,),
        rule=decision.rule,
        reason=redact(decision.reason),
        undo=redact(_cut(undo.strip() or undo_of(call.name, command))),
        hash=decision.hash,
        requester=manners.requester,
        approvers=resolved(ask.approvers, manners.groups),
        count=ask.count,
        barred=resolved(
            (manners.requester if name == "requester" else name for name in ask.barred),
            manners.groups,
        ),
        until=now + timedelta(seconds=ask.timeout),
        place=place_of(action),
        tainted=redact(decision.tainted),
        variables=decision.variables,
        prompted=prompted,
    )


def resolved(names: Iterable[str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """People: a group gives way to its members, any other name stands for itself."""
    found = (person for name in names for person in groups.get(name, (name,)))
    return tuple(dict.fromkeys(person for person in found if person))


def place_of(action: Action) -> str:
    where = f"{action.environment} ({action.target})" if action.target else action.environment
    return f"{where} in {action.cwd}" if action.cwd else where


def shown_of(call: ToolCall, command: str = "") -> str:
    """A lone command reads as a shell line; other arguments one after the other by name."""
    if set(call.arguments) == {"command"} and isinstance(call.arguments["command"], str):
        return str(call.arguments["command"])
    if call.malformed:
        return call.malformed
    lines = [f"{name}: {_pretty(value)}" for name, value in call.arguments.items()]
    if command and "command" not in call.arguments:
        lines.append(f"runs: {command}")
    return "\n".join(lines)


def _command(action: Action) -> str:
    given = action.call.arguments.get("command")
    return action.command or (given if isinstance(given, str) else "")


def _pretty(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _cut(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} CHARACTERS ARE NOT SHOWN …]\n{text[-half:]}"
