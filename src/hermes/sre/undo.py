"""Records each change with a way to undo it, and undoes changes that did not help.

Before a command without a known undo command runs, the files that it will touch are copied.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import ChangeBegan, ChangesUndone
from hermes.core.incident import Incident, IncidentChange
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.policy.actions.tool_calls import COPY_TOOL, read_intent
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import READING_EFFECTS
from hermes.policy.undo import NO_UNDO, KnownUndoPolicy, find_undo
from hermes.skills.playbook.commands import ExecuteCall, run_command
from hermes.sre.cause import EXPERIMENT
from hermes.sre.context import IncidentWork
from hermes.sre.coordination import names_of
from hermes.sre.policies import BundledTextPolicy, FindTest, FixTestPolicy, PurposePolicy
from hermes.tools.executor import Executor

UNDO_FOLDER = "/var/tmp/hermes-undo"
MAX_COPY_MB = 64
"""Megabytes of one path that are copied; a larger one cannot be undone."""
_RESTART_COMMANDS = (
    (
        re.compile(
            r"\b(systemctl(?: --user)?|supervisorctl(?: -c \S+)?|docker|podman|sv|pm2)\s+"
            r"(?:--\S+\s+)*(?:re)?(?:start|load)\s+([\w@.:/+-]+)"
        ),
        "{} restart {}",
    ),
    (
        re.compile(r"\b((?:rc-)?service)\s+([\w@.:+-]+)\s+(?:re)?(?:start|load)\b"),
        "{} {} restart",
    ),
)
"""Commands that start, restart or reload a service, and the one that restarts it."""
_UNKNOWN_PATH_MARK = "…"
_COPY_RESULT = re.compile(r"^(file|absent|large) (\d+)$", re.MULTILINE)
UNDO_TIMEOUT_S = 60.0
UNDO_INTERRUPTED = "undoing it was interrupted: it is not known whether it was undone"


class UndoPlan(Value, kw_only=True, frozen=True):
    paths: tuple[str, ...] = ()
    inverse_command: str = ""
    """The command that undoes this one, where it is known for certain."""

    def copy_script(self, folder: str) -> str:
        """A script that copies the paths, and prints for each whether it was copied."""
        lines = [f"umask 077; mkdir -p {folder} || exit 1"]
        for number, path in enumerate(self.paths):
            at = shlex.quote(path)
            lines.append(
                f"if [ ! -e {at} ] && [ ! -L {at} ]; then echo absent {number}; "
                f'elif [ "$(du -sm {at} 2>/dev/null | cut -f1)" -le {MAX_COPY_MB} ] && '
                f"cp -a {at} {folder}/{number}; then echo file {number}; "
                f"else echo large {number}; fi"
            )
        return "\n".join(lines)

    def undo_script(self, folder: str, output: str) -> str:
        """A script that restores the copies. `output`: what the copy script printed."""
        found = {int(number): how for how, number in _COPY_RESULT.findall(output)}
        lines = []
        for number, path in enumerate(self.paths):
            at, kept = shlex.quote(path), f"{folder}/{number}"
            if found.get(number) == "file":
                lines.append(f"{{ {_set_aside(at, kept)} && {_put_back(at, kept)}; }} || failed=1")
            elif found.get(number) == "absent":
                lines.append(f"rm -rf {at} || failed=1")
        return "\n".join(["failed=", *lines, '[ -z "$failed" ]']) if lines else ""


def _set_aside(at: str, kept: str) -> str:
    """Moves away what is of another kind by now. `cp` follows a link that stands there, and would
    change what it names: the mode of /dev/null, where a unit was masked."""
    other_kind = (
        f"[ -L {at} ] || [ -L {kept} ] || {{ [ -d {at} ] && [ ! -d {kept} ]; }}"
        f" || {{ [ ! -d {at} ] && [ -d {kept} ]; }}"
    )
    return (
        f"if {{ [ -e {at} ] || [ -L {at} ]; }} && {{ {other_kind}; }}; then mv {at} {kept}.now; fi"
    )


def _put_back(at: str, kept: str) -> str:
    """A single file is overwritten in place: processes that have it open keep the same file. In a
    folder, each is replaced: one of them may be a link now."""
    return (
        f"if [ -d {kept} ] && [ ! -L {kept} ]; then cp -aT --remove-destination {kept} {at};"
        f" else cp -aT {kept} {at}; fi"
    )


def plan_undo(action: Action) -> UndoPlan:
    intent = read_intent(action, "/root")
    command = action.command or intent.command
    found = analyse_command(command, cwd=action.cwd or "/") if command else None
    paths = [path for path in (found.changes if found else ()) if _can_be_copied(path)]
    known_undo = find_undo(action.call.name, command)
    inverse = (
        ""
        if known_undo.startswith((NO_UNDO, "by hand")) or "(" in known_undo or " the " in known_undo
        else known_undo
    )
    return UndoPlan(paths=tuple(paths[:20]), inverse_command=inverse)


def changed_files(commands: Sequence[str]) -> list[str]:
    """The files that these commands write or delete, as far as that is known before."""
    found = (analyse_command(command, cwd=f"/{_UNKNOWN_PATH_MARK}") for command in commands)
    return list(dict.fromkeys(p for each in found for p in each.changes if _can_be_copied(p)))


class UnitRestart(NamedTuple):
    unit: str
    command: str
    """Restarts it."""


def find_restarts(commands: Sequence[str]) -> tuple[UnitRestart, ...]:
    """The services that these commands start, restart or reload."""
    return tuple(
        dict.fromkeys(
            UnitRestart(unit, form.format(program, unit))
            for command in commands
            for pattern, form in _RESTART_COMMANDS
            for program, unit in pattern.findall(command)
        )
    )


def _can_be_copied(path: str) -> bool:
    known = (
        path.startswith("/")
        and _UNKNOWN_PATH_MARK not in path
        and not any(c in path for c in "*?[")
    )
    return known and not path.startswith(("/dev/", "/proc/", "/sys/", UNDO_FOLDER)) and path != "/"


PrepareChange = Callable[[bool], Awaitable[str]]
"""Is awaited before the first change of an attempt, with whether people were asked about it.
Returns how the problem has ended meanwhile without our work, else an empty text."""


class ChangeRecorder:
    """Records the changes of one attempt. `playbook`: its steps are the changes and have their own
    undo commands; without it every call that does more than read is a change. `find_test`: how the
    fix of a call did on a copy. `prepare`: the first change does not run if the problem ended while
    people were asked. `purpose`: what the changes do and why, for these people."""

    def __init__(
        self,
        work: IncidentWork,
        attempt: int,
        prepare: PrepareChange,
        *,
        playbook: str = "",
        bundled: bool = False,
        find_test: FindTest | None = None,
        purpose: str = "",
    ) -> None:
        self._work, self._attempt, self._playbook = work, attempt, playbook
        self._bundled, self._find_test = bundled, find_test
        self._prepare, self._purpose = prepare, purpose
        self._undo_commands: dict[str, str] = {}
        self._numbers = count(1)
        self.count = 0

    @property
    def executor(self) -> Executor:
        executor = self._work.context.executor.with_hook(self._record_change)
        if self._find_test is not None:
            executor = executor.with_policy(FixTestPolicy(executor.policy, self._find_test))
        if self._purpose:
            executor = executor.with_policy(PurposePolicy(executor.policy, self._purpose))
        if not self._playbook:
            return executor
        trusted = self._work.trusted_policy(executor.policy)
        if self._bundled:
            trusted = BundledTextPolicy(trusted, self._undo_commands)
        return executor.with_policy(KnownUndoPolicy(trusted, self._undo_commands))

    async def problem_ended(self) -> str:
        """Ask the checks once more before people are asked. Return how the problem has ended
        meanwhile; empty while it is there."""
        return await self._prepare(True)

    async def announce_step(self, call_id: str, command: str, undo: str) -> None:
        """The next step of a playbook, with the undo command of its author."""
        self._undo_commands[call_id] = undo
        details = self._work.details
        self._work.context.claims.begin_fix(details.incident, names_of(details))

    async def _record_change(self, action: Action, decision: Decision) -> str:
        """Return why the change must not be made; empty when it was recorded."""
        call = action.call
        if call.name == COPY_TOOL:
            return ""
        if self._playbook and call.id not in self._undo_commands:
            return ""
        if not self._playbook and decision.effects and set(decision.effects) <= READING_EFFECTS:
            return ""
        if not self.count and (recovery := await self._prepare(decision.verdict == "ask")):
            return f"the problem ended before this change: {recovery}"
        undo = self._undo_commands[call.id] if self._playbook else await self._save_copies(action)
        command = action.command or str(call.arguments.get("command", "")) or call.name
        await self._work.context.withdrawal.commit()
        self.count += 1
        await self._work.publish(
            ChangeBegan(
                run=self._work.details.run,
                incident=self._work.details.incident,
                call_id=call.id,
                command=command,
                undo=undo,
                attempt=self._attempt,
                by=self._playbook or action.run,
            )
        )
        return ""

    async def _save_copies(self, action: Action) -> str:
        planned = plan_undo(action)
        if not planned.paths:
            return planned.inverse_command
        number = f"{self._attempt}-{next(self._numbers)}"
        folder = shlex.quote(f"{UNDO_FOLDER}/{self._work.details.incident}/{number}")
        script, id = planned.copy_script(folder), new_id("keep")
        end = await run_command(self._work.execute, script, UNDO_TIMEOUT_S, id=id)
        return planned.undo_script(folder, end.output) if end.code == 0 else planned.inverse_command


async def undo_changes(work: IncidentWork, incident: Incident, reason: str) -> tuple[str, ...]:
    """Undo the remaining changes, the last first; returns what could not be undone, in words.

    A failure does not stop the others. An undo that a crash interrupted is not started again but
    reported to people.
    """
    standing = [change for change in incident.unverified_changes if not change.undone]
    started = {
        str(getattr(recorded.event, "call_id", ""))
        async for recorded in work.journal.read(run=work.details.run, kinds=("tool.started",))
    }
    left = []
    bundled = {each.name for each in await work.context.skills() if each.origin == "bundled"}
    bundled.add(EXPERIMENT)

    def executor_for(changes: Iterable[IncidentChange]) -> ExecuteCall:
        seen = all(change.by in bundled for change in changes)
        return work.execute_undo if seen else work.execute_trusted

    for change in reversed(standing):
        why = await _undo_change(change, started, executor_for([change]))
        if why:
            left.append(f"{change.command[:200]}: {why}")
        await work.publish(
            ChangesUndone(
                run=work.details.run,
                incident=work.details.incident,
                calls=() if why else (change.call_id,),
                failed=(change.call_id,) if why else (),
                reason=why or reason,
            )
        )
    # Services that were started with a change have to read the old files.
    for restart in find_restarts([change.command for change in standing]):
        id = f"settle-{restart.unit}-{work.details.incident}-{len(standing)}"
        if id not in started:
            by = [change for change in standing if restart in find_restarts([change.command])]
            await _run_undo_command(executor_for(by), id, restart.command)
    return tuple(left)


async def _undo_change(change: IncidentChange, started: set[str], execute: ExecuteCall) -> str:
    """Return why it could not be undone; empty when it was, or needs no undo."""
    id = f"undo-{change.call_id}"
    if id in started:
        return UNDO_INTERRUPTED
    if not change.undo.strip():
        return "" if find_restarts([change.command]) else "it cannot be undone"
    return await _run_undo_command(execute, id, change.undo)


async def _run_undo_command(execute: ExecuteCall, id: str, command: str) -> str:
    """The undo command was recorded before the change."""
    end = await run_command(execute, command, UNDO_TIMEOUT_S, id=id)
    if end.status != "ok":
        return end.output[:200]
    if end.timed_out:
        return "it did not end in time"
    return "" if end.code == 0 else f"it ended with exit code {end.code}"
