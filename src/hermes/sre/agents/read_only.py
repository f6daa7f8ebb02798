"""The gate as an investigator meets it: under any set of rules, all but looking is refused.

A set may allow changes here, an exception may lift a rule, a person may have said yes for good: all
that was meant for those who mend. Nobody is asked either: a look that needs leave is none.
"""

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, HearsText, NotesDeeds, Policy
from hermes.core.messages import ToolCall
from hermes.policy.commands import analyse
from hermes.policy.commands.values import PLAIN
from hermes.policy.tool_calls import intent_of

RULE = "investigators-only-look"
DECLARED = frozenset({"write"})
"""What any shell says of itself; its command says it better."""


class ReadOnly:
    """Fulfils `Policy`, `NotesDeeds` and `HearsText`. `own`: tools that only take notes."""

    def __init__(self, policy: Policy, own: frozenset[str] = frozenset()) -> None:
        self._policy, self._own = policy, own

    def decide(self, action: Action) -> Decision:
        decision = self._policy.decide(action)
        if decision.verdict == "deny" or action.call.name in self._own:
            return decision
        why = self._objection(action, decision)
        return replace(decision, verdict="deny", rule=RULE, reason=why) if why else decision

    def started(self, action: Action) -> None:
        if isinstance(self._policy, NotesDeeds):
            self._policy.started(action)

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        if isinstance(self._policy, HearsText):
            self._policy.heard(run, text, trusted, call)

    def _objection(self, action: Action, decision: Decision) -> str:
        more = effects_of(action, decision) - PLAIN
        if more:
            return f"while it is being investigated nothing is changed, and this is: {_list(more)}"
        given = action.call.arguments
        if given.get("background") or given.get("pty"):
            return "a look ends by itself: nothing is left running in the background"
        if decision.verdict != "allow":
            return f"an investigator asks nobody for leave ({decision.rule}: {decision.reason})"
        return ""


def effects_of(action: Action, decision: Decision) -> frozenset[str]:
    """What the gate says, and what its command says where the gate does not look that closely."""
    intent = intent_of(action, "/root")
    command, told = action.command or intent.command, frozenset(decision.effects)
    if not command:
        return told | intent.effects or frozenset({"unknown"})
    found = analyse(command, cwd=action.cwd or "/")
    own = found.effects | (frozenset({"exec-dynamic"}) if found.problems else frozenset())
    shell = bool(action.command) and action.call.arguments.get("command") == action.command
    return own | (told - DECLARED if shell else told)


def looks_only(command: str) -> bool:
    found = analyse(command, cwd="/")
    return found.plain and not found.problems


def _list(effects: frozenset[str]) -> str:
    return ", ".join(sorted(effects))
