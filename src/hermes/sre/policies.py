"""The gate as a trusted playbook meets it: its author vouches for the words, its kinds for values.

What a model repeats from a log is somebody else's words, and asks. A playbook repeats nothing: its
commands were written, tried and proved before, and what it fills in was found by its own looks,
fits a kind (a unit, a path, a number) and stands quoted. So where a rule asks because of whose
words they are, it does not ask of a playbook. All other rules hold for both.
"""

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, Policy, TracksActions, TracksText
from hermes.core.messages import ToolCall
from hermes.policy.actions.tool_calls import read_intent
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import READING_EFFECTS


class TrustedPlaybookPolicy:
    """Fulfils `Policy`, `TracksActions` and `TracksText`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, action: Action) -> Decision:
        return self._policy.decide(_in_untainted_run(action))

    def started(self, action: Action) -> None:
        if isinstance(self._policy, TracksActions):
            self._policy.started(_in_untainted_run(action))

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        """What it reads is still suspect to whoever comes after it."""
        if isinstance(self._policy, TracksText):
            self._policy.heard(run, text, trusted, call)


def _in_untainted_run(action: Action) -> Action:
    """The same deed in a run that has read nothing."""
    return replace(action, run=f"{action.run.partition('/')[0]}#playbook")


READ_ONLY_RULE = "investigators-only-look"
DECLARED_SHELL_EFFECTS = frozenset({"write"})
"""What any shell says of itself; its command says it better."""


class ReadOnlyPolicy:
    """Fulfils `Policy`, `TracksActions` and `TracksText`. `own`: tools that only take notes."""

    def __init__(self, policy: Policy, own: frozenset[str] = frozenset()) -> None:
        self._policy, self._own = policy, own

    def decide(self, action: Action) -> Decision:
        decision = self._policy.decide(action)
        if decision.verdict == "deny" or action.call.name in self._own:
            return decision
        why = self._objection(action, decision)
        return (
            replace(decision, verdict="deny", rule=READ_ONLY_RULE, reason=why) if why else decision
        )

    def started(self, action: Action) -> None:
        if isinstance(self._policy, TracksActions):
            self._policy.started(action)

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        if isinstance(self._policy, TracksText):
            self._policy.heard(run, text, trusted, call)

    def _objection(self, action: Action, decision: Decision) -> str:
        more = action_effects(action, decision) - READING_EFFECTS
        if more:
            return f"while it is being investigated nothing is changed, and this is: {_joined_effects(more)}"
        given = action.call.arguments
        if given.get("background") or given.get("pty"):
            return "a look ends by itself: nothing is left running in the background"
        if decision.verdict != "allow":
            return f"an investigator asks nobody for leave ({decision.rule}: {decision.reason})"
        return ""


def action_effects(action: Action, decision: Decision) -> frozenset[str]:
    """What the gate says, and what its command says where the gate does not look that closely."""
    intent = read_intent(action, "/root")
    command, told = action.command or intent.command, frozenset(decision.effects)
    if not command:
        return told | intent.effects or frozenset({"unknown"})
    found = analyse_command(command, cwd=action.cwd or "/")
    own = found.effects | (frozenset({"exec-dynamic"}) if found.problems else frozenset())
    shell = bool(action.command) and action.call.arguments.get("command") == action.command
    return own | (told - DECLARED_SHELL_EFFECTS if shell else told)


def is_read_only(command: str) -> bool:
    found = analyse_command(command, cwd="/")
    return found.is_read_only and not found.problems


def _joined_effects(effects: frozenset[str]) -> str:
    return ", ".join(sorted(effects))
