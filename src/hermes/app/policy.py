"""The policy and the approver of an application.

The policy is opened at the first decision: reading the rules and the parser takes longer than the
rest of a start, and a question without a tool call needs no decision. If there are policy files it
is opened at once, because a broken file must stop the start, not the first action.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hermes.app.people import PeopleRegister, user_name
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.actions import (
    Action,
    AnswersApprovals,
    Approval,
    Approver,
    DecideAction,
    Decision,
    KernelSupport,
)
from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.messages import Risk, ToolCall
from hermes.core.people import UNIX
from hermes.core.plugin_sources import PLUGIN_FOLDER_NAME
from hermes.plumbing.files import is_locked
from hermes.policy.settings import PolicySettings
from hermes.settings.load import LoadedSettings
from hermes.sre.settings import POLICY_SET_BY_MODE

if TYPE_CHECKING:
    from hermes.app.announcements import InterruptedAnnouncements
    from hermes.core.protocols import Tool
    from hermes.policy.actions.action_effects import IncidentFacts
    from hermes.policy.approvals.approver import JournalApprover
    from hermes.policy.decide import DocumentPolicy
    from hermes.policy.rules.evaluation import RuleSet


FORK_TIMEOUT_S = 60.0
"""Seconds for decisions that take a third of one: the host may be very busy."""


class LazyPolicy:
    """Fulfils `Policy`, `DecidesTogether`, `TracksActions` and `TracksText`."""

    def __init__(self, loaded: LoadedSettings, folder: Path, *, isolated: bool) -> None:
        self._loaded = loaded
        self._folder = folder
        self._isolated = isolated
        self._policy: DocumentPolicy | None = None
        self._incidents: dict[str, IncidentFacts] = {}
        self._active_runs: set[str] = set()
        self._always = AlwaysRulesFile(always_rules_path(loaded))
        if any(path.is_dir() for path in self._folders()):
            self._open()

    def decide(self, action: Action) -> Decision:
        policy = self._open()
        effects = policy.read_effects(action)
        verdict = policy.evaluate(effects)
        if self._always.could_change(verdict) and self._always.changed():
            policy.rule_set = self._always.with_current_rules(
                policy.rule_set, home_path(self._loaded)
            )
            verdict = policy.evaluate(effects)
        return verdict

    async def decide_all(self, actions: Sequence[Action]) -> Sequence[Decision]:
        """Decide in a process that ends, unless the rules and the parser are loaded already: they
        are 6 MB, and a watch that only admits its probes needs them for a moment."""
        if not actions:
            return ()
        if self._policy is None:
            from hermes.environments.processes.forked_call import call_in_fork

            with suppress(EnvironmentFailed):
                made = await call_in_fork(partial(self._encoded_decisions, actions), FORK_TIMEOUT_S)
                return msgspec.msgpack.decode(made, type=list[Decision])
        return [self.decide(each) for each in actions]

    def _encoded_decisions(self, actions: Sequence[Action]) -> bytes:
        return msgspec.msgpack.encode([self.decide(each) for each in actions])

    def record_text(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        self._open().record_text(run, text, trusted, call)

    def record_start(self, action: Action) -> None:
        self._open().record_start(action)

    def record_earlier_action(self, action: Action) -> None:
        self._open().record_earlier_action(action)

    def remember(self, run: str) -> None:
        """Remember what an active run reads and writes, until `forget` is called for it."""
        self._active_runs.add(run)

    def forget(self, run: str) -> None:
        self._active_runs.discard(run)
        self._incidents.pop(run, None)
        if self._policy is not None:
            self._policy.forget(run)

    def set_incident(self, run: str, incident: str, severity: str, service: str) -> None:
        """The incident of this run, for rules with a condition on it."""
        from hermes.policy.actions.action_effects import IncidentFacts

        self._incidents.pop(run, None)
        self._incidents[run] = IncidentFacts(id=incident, severity=severity, service=service)
        self.remember(run)
        for oldest in list(self._incidents)[:-MAX_KEPT_INCIDENTS]:
            self.forget(oldest)

    def _folders(self) -> tuple[Path, Path]:
        return always_rules_path(self._loaded).parent, self._folder / ".hermes" / "policies"

    def _open(self) -> "DocumentPolicy":
        if self._policy is None:
            self._policy = open_policy(
                self._loaded, self._folder, isolated=self._isolated, incidents=self._incidents
            )
            self._policy.set_active_runs(self._active_runs)
        return self._policy


def open_policy(
    loaded: LoadedSettings,
    folder: Path,
    *,
    isolated: bool,
    incidents: "Mapping[str, IncidentFacts] | None" = None,
) -> "DocumentPolicy":
    """Raises `SettingsError` naming every problem in the policy files with file and line."""
    from hermes.environments.sandboxing.sandbox_records import SandboxRecords
    from hermes.policy.actions.action_effects import IncidentFacts
    from hermes.policy.actions.reader import (
        ActionContext,
        ActionReader,
        file_digest,
        resolve_symlinks,
    )
    from hermes.policy.actions.written_files import WRITTEN_FILES_NAME, WrittenFiles
    from hermes.policy.command_analysis import analyse_command
    from hermes.policy.decide import DocumentPolicy
    from hermes.policy.loading import clock_in_timezone, open_rule_set, protected_paths

    settings = effective_policy_settings(loaded, isolated=isolated)
    home = home_path(loaded)
    rules, _ = open_rule_set(settings, loaded.home, folder, home)
    own = protected_paths(loaded.home, folder, [loaded.journal, loaded.home / PLUGIN_FOLDER_NAME])
    if isolated:  # its files are not on this host
        reader = ActionReader(analyse_command, own_paths=own)
    else:
        reader = ActionReader(
            analyse_command,
            own_paths=own,
            loaded_folders=(str(loaded.home), *_program_folders(loaded)),
            lookup=resolve_symlinks,
            digest=file_digest,
            written_files=WrittenFiles(loaded.home / WRITTEN_FILES_NAME, os.path.lexists),
            sandbox_writes=SandboxRecords(loaded.home),
            clean=SecretRedactor(loaded),
        )

    def action_context(action: Action) -> ActionContext:
        cwd = action.cwd or str(folder)
        run = action.run.partition("/")[0].partition("#")[0]
        return ActionContext(
            cwd=cwd,
            home=home,
            workspace=str(folder),
            command=action.command,
            actor=action.actor,
            incident=(incidents or {}).get(run, IncidentFacts()),
        )

    return DocumentPolicy(
        rules, reader, context_of=action_context, clock=clock_in_timezone(settings.timezone)
    )


def describe_call(loaded: LoadedSettings, action: Action) -> Action:
    """The action with what its tool says about it, as before a run. Unknown tools and those that
    act in the environment are left as they are."""
    from hermes.app.tools.tooling import MODEL_TOOLS, WEB_TOOLS, build_tooling
    from hermes.policy.actions.remote_calls import ENVIRONMENT_TOOLS
    from hermes.tools.action_description import describe_action

    name = action.call.name
    tool: Tool | None
    if name in MODEL_TOOLS:
        from hermes.app.tools.model_tools import preview_model_tools

        tool = preview_model_tools(loaded).get(name)
    elif name in ENVIRONMENT_TOOLS:
        return action
    elif name.startswith("browser_"):
        from hermes.app.tools.browsers import list_browser_tools

        tool = list_browser_tools(loaded).get(name)
    elif name in WEB_TOOLS:
        from hermes.app.tools.tooling import web_tools

        tool = web_tools(loaded).get(name)
        if tool is None:  # nothing is configured: in a run it is not offered
            return msgspec.structs.replace(action, risk=Risk.READ)
    else:
        tool = build_tooling(loaded, toolsets=("all",)).catalogue.tools.get(name)
    if tool is None:
        return action
    action = describe_action(action, tool)
    return msgspec.structs.replace(action, risk=tool.spec.risk)


def _program_folders(loaded: LoadedSettings) -> tuple[str, ...]:
    """The folders of PATH, as far as they have a fixed place."""
    listed = (loaded.secrets.get("PATH") or "").split(":")
    return tuple(dict.fromkeys(os.path.realpath(each) for each in listed if each.startswith("/")))


def kernel_support_here(loaded: LoadedSettings, backend: str = "") -> KernelSupport:
    """Return what the kernel would enforce in the environment that the settings, or `backend`,
    name."""
    from hermes.environments.open import expected_kernel_support

    return expected_kernel_support(backend or loaded.settings.terminal.backend)


def effective_policy_settings(loaded: LoadedSettings, *, isolated: bool) -> PolicySettings:
    """Isolated environments get a less strict set, unless the operator chose one."""
    settings = loaded.settings.policy
    if isolated and loaded.origin("policy.set").source == "default":
        settings = replace(settings, set="sandboxed")
    return settings


def always_rules_path(loaded: LoadedSettings) -> Path:
    """Return the file of the operator's own rules in which the answers "always" are kept."""
    own = loaded.settings.policy.folder
    return (Path(own).expanduser() if own else loaded.home / "policies") / "always.yaml"


def home_path(loaded: LoadedSettings) -> str:
    return loaded.secrets.get("HOME") or str(Path.home())


MAX_KEPT_INCIDENTS = 256
"""Far more than are worked on at once; what older ones have read is forgotten."""
INCIDENT_RUN_PREFIX, WATCH_RUN = "incident-", "watch"
"""The watch of a home works on all incidents, in one process."""


async def deny_unattended(action: Action, decision: Decision) -> Approval:
    """Deny the action: no person can be asked."""
    return Approval(approved=False, by="nobody")


class ApplicationApprover:
    """The `Approver` of an application: the person at the terminal, and everyone with the
    journal."""

    def __init__(
        self,
        loaded: LoadedSettings,
        bus: Bus,
        policy: LazyPolicy,
        redactor: SecretRedactor,
        local_approver: Approver | AnswersApprovals,
        people: PeopleRegister,
    ) -> None:
        self._loaded = loaded
        self._bus = bus
        self._policy = policy
        self._redactor = redactor
        self._people = people
        self._local_approver = None if local_approver is deny_unattended else local_approver
        self._approvals: JournalApprover | None = None
        self._interrupted: InterruptedAnnouncements | None = None

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        return await self.approve(action, decision, self._policy.decide)

    async def approve(self, action: Action, decision: Decision, decide: DecideAction) -> Approval:
        people = await self._people.current()  # a person may have been added since
        groups = people.with_groups(self._loaded.settings.policy.groups)
        if self._approvals is None:
            self._approvals = self._open(people.actor_of(UNIX, user_name()), groups)
        self._approvals.set_groups(groups)
        if self._interrupted is not None:
            resumed = await self._interrupted.resume(action, decision, decide)
            if resumed is not None:
                return resumed
        return await self._approvals.approve(action, decision, decide)

    def forget(self, run: str) -> None:
        """The run is given back; its requests and grants are in the journal."""
        if self._approvals is not None:
            self._approvals.forget(run)
        if self._interrupted is not None:
            self._interrupted.forget(run)

    def _open(self, requester: str, groups: dict[str, tuple[str, ...]]) -> "JournalApprover":
        from hermes.app.announcements import InterruptedAnnouncements
        from hermes.policy.approvals.approver import JournalApprover
        from hermes.policy.approvals.request import ApprovalOptions

        settings = self._loaded.settings.policy
        options = ApprovalOptions(requester=requester, groups=groups, wait=settings.wait)
        if self._local_approver is None and settings.wait:  # a person at a terminal is asked again
            self._interrupted = InterruptedAnnouncements(self._bus, options, redact=self._redactor)
        return JournalApprover(
            self._bus,
            self._policy.decide,
            options,
            self._local_approver,
            save_always=partial(_save_always_rule, self._loaded),
            redact=self._redactor,
        )


def _save_always_rule(loaded: LoadedSettings, request: ApprovalRequested, by: str) -> str:
    from hermes.policy.approvals.always_allowed import allow_always

    days = loaded.settings.policy.always_days
    try:
        allow_always(
            always_rules_path(loaded), action=request.hash, shown=request.shown, owner=by, days=days
        )
    except (SettingsError, OSError) as error:
        return f"approved once; always could not be kept: {error}"
    return ""


def is_run_active(loaded: LoadedSettings, run: str) -> bool:
    """Return whether a process works on this run now, and so receives an answer at once."""
    parent = run.partition("/")[0]  # a subagent runs in the process of its parent
    return _is_locked(loaded, parent) or (
        parent.startswith(INCIDENT_RUN_PREFIX) and _is_locked(loaded, WATCH_RUN)
    )


def _is_locked(loaded: LoadedSettings, name: str) -> bool:
    return is_locked(loaded.home / "locks" / f"{name}.lock")


class AlwaysRulesFile:
    """Watches `always.yaml`, and checks it only when it could change the verdict."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp = _file_stamp(file)

    def could_change(self, decision: Decision) -> bool:
        return decision.verdict == "ask" or decision.rule.startswith("always-")

    def changed(self) -> bool:
        stamp = _file_stamp(self._file)
        changed, self._stamp = stamp != self._stamp, stamp
        return changed

    def with_current_rules(self, rules: "RuleSet", home: str) -> "RuleSet":
        """The same rules with the exceptions that the file has now; an invalid file has none."""
        from hermes.policy.approvals.always_allowed import load_always_exceptions

        others = tuple(
            lift for lift in rules.exceptions if not lift.source.startswith(f"{self._file}:")
        )
        try:
            own = load_always_exceptions(self._file, home)
        except SettingsError:
            own = ()
        return dataclasses.replace(rules, exceptions=(*others, *own))


def _file_stamp(file: Path) -> tuple[int, int, int]:
    try:
        stat = file.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def with_waiting_approvals(loaded: LoadedSettings) -> LoadedSettings:
    """Return settings under which a question waits for an answer from elsewhere, unless the
    settings say otherwise."""
    if loaded.origin("policy.wait").source != "default":
        return loaded
    return loaded.with_sections(policy=replace(loaded.settings.policy, wait=True))


def with_watch_mode(loaded: LoadedSettings) -> LoadedSettings:
    """The policy set of the mode that the operator chose, in isolated environments too."""
    chosen = loaded.origin("watch.mode")
    if chosen.source == "default":
        return loaded
    name = POLICY_SET_BY_MODE[loaded.settings.watch.mode]
    changed = loaded.with_sections(policy=replace(loaded.settings.policy, set=name))
    return replace(changed, origins={**loaded.origins, "policy.set": chosen})
