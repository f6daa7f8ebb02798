"""Policies for incidents: for trusted playbooks, for their checks, and for reading alone.

A command that a model composed may repeat untrusted text from a log, so the policy may ask for
approval because of it. The commands of a trusted playbook were reviewed and tested before, and the
values that it fills in are checked against a type (a unit, a path, a number) and quoted. Rules
about untrusted text do not apply to it; all other rules do.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, Policy, PolicyWrapper
from hermes.core.events.experiments import FixTested
from hermes.policy.actions.tool_calls import COPY_TOOL, read_intent
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import READING_EFFECTS
from hermes.policy.rules.rule import PolicyVerdict
from hermes.skills.supervisors.commands import HostSupervisors, UnsupportedActionError
from hermes.skills.supervisors.units import HostUnit, PlainDaemon
from hermes.sre.reports.experiments import describe_test

READ_ONLY_RULE = "investigators-only-look"
UNATTENDED_RULE = "checks-do-not-ask"
UNDO_RULE = "recorded-undo"
WRITTEN_SCRIPT_RULE = "written-then-run"
RECENT_CHANGE_RULE = "respect-people"
RECENT_CHANGES_RULES = "recent-changes"
"""Rules whose names begin so allow recent changes to be reverted."""
DECLARED_SHELL_EFFECTS = frozenset({"write"})
"""Effects that every shell declares; its command tells more exactly."""


class TrustedPlaybookPolicy(PolicyWrapper):
    """Decides without regard to untrusted text that the run has read. Text that the playbook reads
    is still untrusted for later actions."""

    def decide(self, action: Action) -> Decision:
        return super().decide(_in_untainted_run(action))

    def record_start(self, action: Action) -> None:
        super().record_start(_in_untainted_run(action))


class BundledTextPolicy(PolicyWrapper):
    """Decides on commands of playbooks that are part of this program, unchanged. What the text
    reads and writes is judged as always; which of its programs run side by side was reviewed.
    `undo_commands`: by call; with them, a step without an undo command is judged like any other."""

    def __init__(self, policy: Policy, undo_commands: Mapping[str, str] | None = None) -> None:
        super().__init__(policy)
        self._undo_commands = undo_commands

    def decide(self, action: Action) -> Decision:
        return super().decide(self._as_reviewed(action))

    def record_start(self, action: Action) -> None:
        super().record_start(self._as_reviewed(action))

    def _as_reviewed(self, action: Action) -> Action:
        undo = self._undo_commands
        if undo is not None and not undo.get(action.call.id, "").strip():
            return action
        return replace(action, reviewed=True)


class RecordedUndoPolicy(PolicyWrapper):
    """Allows the undo of a change by a bundled playbook: people saw it when they were asked about
    the change, or it was announced."""

    def decide(self, action: Action) -> Decision:
        decision = super().decide(action)
        if decision.verdict != "ask":
            return decision
        return replace(
            decision, verdict="allow", rule=UNDO_RULE, reason="it was shown with the change"
        )


class KnownDaemonPolicy(PolicyWrapper):
    """Judges the start or restart of a daemon without a supervisor as that of a service, where the
    command is exactly the one that the watch recorded while the daemon ran: program, arguments,
    user, folder and log. The record is read from the kernel; no model and no probe has a part in
    it."""

    def __init__(self, policy: Policy, daemons: Sequence[PlainDaemon]) -> None:
        super().__init__(policy)
        # A restart ends with the start, so it is looked for first.
        self._starts = {
            text: f"service {shlex.quote(daemon.name)} {verb}"
            for verb in ("restart", "start")
            for daemon in daemons
            if (text := _daemon_command(daemon, verb))
        }

    def decide(self, action: Action) -> Decision:
        judged = self._as_service(action)
        if judged == action:
            return super().decide(action)
        as_service, as_written = super().decide(judged), super().decide(action)
        also = getattr(as_written, "also", ())
        if as_written.verdict != "ask" or WRITTEN_SCRIPT_RULE in (as_written.rule, *also):
            return as_written
        return replace(as_service, hash=as_written.hash)

    def record_start(self, action: Action) -> None:
        super().record_start(self._as_service(action))

    def _as_service(self, action: Action) -> Action:
        command = str(action.call.arguments.get("command", ""))
        for text, start in self._starts.items():
            command = command.replace(text, start)
        if command == action.call.arguments.get("command", ""):
            return action
        call = replace(action.call, arguments={**action.call.arguments, "command": command})
        return replace(action, call=call, command=command if action.command else "")


def _daemon_command(daemon: PlainDaemon, verb: str) -> str:
    """Return the command that starts the daemon; empty when it is not known."""
    supervisors = HostSupervisors([HostUnit(name=daemon.name, kind="daemon")], [daemon])
    try:
        return supervisors.render(verb, daemon.name)
    except UnsupportedActionError:
        return ""


FindTest = Callable[[Action], FixTested | None]
"""The test of the fix that an action belongs to; None where there was none."""


class FixTestPolicy(PolicyWrapper):
    """Tells the rules and the people who are asked how the fix of an action did on a copy."""

    def __init__(self, policy: Policy, find_test: FindTest) -> None:
        super().__init__(policy)
        self._find_test = find_test

    def decide(self, action: Action) -> Decision:
        decision, test = super().decide(self._with_test(action)), self._find_test(action)
        if test is None or not isinstance(decision, PolicyVerdict):
            return decision
        return replace(decision, tested=describe_test(test))

    def record_start(self, action: Action) -> None:
        super().record_start(self._with_test(action))

    def _with_test(self, action: Action) -> Action:
        test = self._find_test(action)
        passed = test is not None and test.outcome in ("recovered", "helped")
        return replace(action, tested=True) if passed else action


class PurposePolicy(PolicyWrapper):
    """Tells the people who are asked what an action changes and why."""

    def __init__(self, policy: Policy, purpose: str) -> None:
        super().__init__(policy)
        self._purpose = purpose

    def decide(self, action: Action) -> Decision:
        decision = super().decide(action)
        if not isinstance(decision, PolicyVerdict):
            return decision
        return replace(decision, purpose=self._purpose)


class RecentChangePolicy(PolicyWrapper):
    """Asks before a recent change by a person, or by an unknown author, is reverted, unless a rule
    whose name begins with `recent-changes` allows or announces it. An announcement by other rules
    is not enough: silence is no approval. `recent`: by call, who made the change."""

    def __init__(self, policy: Policy, recent: Mapping[str, str]) -> None:
        super().__init__(policy)
        self._recent = recent

    def decide(self, action: Action) -> Decision:
        decision, who = super().decide(action), self._recent.get(action.call.id, "")
        ask = getattr(decision, "ask", None)
        announced = ask is not None and ask.announce > 0
        if not who or (decision.verdict in ("ask", "deny") and not announced):
            return decision
        allowing = (decision.rule, *getattr(decision, "also", ()))
        for rule in allowing:
            if rule.startswith(RECENT_CHANGES_RULES):
                return replace(decision, rule=rule, reason=f"a recent change by {who}")
        reason = f"it reverts a recent change by {who}"
        if isinstance(decision, PolicyVerdict) and decision.ask is not None:
            decision = replace(decision, ask=replace(decision.ask, announce=0.0))
        return replace(decision, verdict="ask", rule=RECENT_CHANGE_RULE, reason=reason)


class UnattendedPolicy(PolicyWrapper):
    """Denies what needs an approval. Signatures of playbooks are checked one after the other, and
    none of them waits for people."""

    def decide(self, action: Action) -> Decision:
        decision = super().decide(action)
        if decision.verdict != "ask":
            return decision
        reason = f"a check does not wait for approval ({decision.rule}: {decision.reason})"
        return replace(decision, verdict="deny", rule=UNATTENDED_RULE, reason=reason)


def _in_untainted_run(action: Action) -> Action:
    """The same action in a run that has read no untrusted text."""
    return replace(action, run=f"{action.run.partition('/')[0]}#playbook")


class ReadOnlyPolicy(PolicyWrapper):
    """Denies every action that does more than read. `own`: tools that only take notes."""

    def __init__(self, policy: Policy, own: frozenset[str] = frozenset()) -> None:
        super().__init__(policy)
        self._own = own

    def decide(self, action: Action) -> Decision:
        decision = self._policy.decide(action)
        if decision.verdict == "deny" or action.call.name in self._own:
            return decision
        why = self._objection(action, decision)
        return (
            replace(decision, verdict="deny", rule=READ_ONLY_RULE, reason=why) if why else decision
        )

    def _objection(self, action: Action, decision: Decision) -> str:
        more = action_effects(action, decision) - READING_EFFECTS
        if more:
            effects = ", ".join(sorted(more))
            return f"nothing may be changed during an investigation, and the effects are: {effects}"
        arguments = action.call.arguments
        if arguments.get("background") or arguments.get("pty"):
            return "nothing may run in the background during an investigation"
        if decision.verdict != "allow":
            return f"an investigator cannot ask for approval ({decision.rule}: {decision.reason})"
        return ""


def own_script_policy(policy: Policy) -> Policy:
    """Return the policy for scripts that are part of this program and only read."""
    return ReadOnlyPolicy(BundledTextPolicy(TrustedPlaybookPolicy(policy)))


def action_effects(action: Action, decision: Decision) -> frozenset[str]:
    """Effects by the policy, and by an analysis of the command."""
    intent = read_intent(action, "/root")
    command, decided = action.command or intent.command, frozenset(decision.effects)
    if action.call.name == COPY_TOOL:  # what it changes stays in the copy
        return decided
    if not command:
        return decided | intent.effects or frozenset({"unknown"})
    found = analyse_command(command, cwd=action.cwd or "/")
    own = found.effects | (frozenset({"exec-dynamic"}) if found.problems else frozenset())
    shell = bool(action.command) and action.call.arguments.get("command") == action.command
    return own | (decided - DECLARED_SHELL_EFFECTS if shell else decided)


def is_read_only(command: str) -> bool:
    found = analyse_command(command, cwd="/")
    return found.is_read_only and not found.problems
