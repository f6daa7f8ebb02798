"""Reads an action: finds its steps and effects, and remembers what a run wrote and typed."""

import hashlib
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import Value
from hermes.policy.actions.action_effects import (
    INTERPRETER_PROGRAMS,
    ActionEffects,
    ActionLocation,
    ActionStep,
    IncidentFacts,
    fingerprint,
    step_in_copy,
)
from hermes.policy.actions.disguised_text import CleanText, mark_disguised_text
from hermes.policy.actions.implicit_files import (
    implicit_files_of,
    is_git_data,
    loads_file,
    loads_from_anywhere,
    mark_imported_files,
    matching_files,
    places_searched,
    writes_trees,
)
from hermes.policy.actions.judged_files import file_clock_ns, files_at_verdict
from hermes.policy.actions.lent_access import (
    is_below_changes,
    mark_lent_access,
    runs_git_in_unknown_folder,
)
from hermes.policy.actions.project_files import mark_project_files, mark_unread_project
from hermes.policy.actions.remote_calls import identity_of, location_of
from hermes.policy.actions.repository_objects import (
    mark_foreign_names,
    mark_printed_file,
    trees_of_others,
)
from hermes.policy.actions.repository_programs import find_hook_folder, mark_hook_changes
from hermes.policy.actions.root_launcher import mark_root_commands
from hermes.policy.actions.tool_calls import COPY_TOOL, ToolIntent, read_intent
from hermes.policy.actions.written_files import RunMemory, WrittenFiles
from hermes.policy.commands.effects import CommandAnalysis, PathLookup, SimpleCommand
from hermes.policy.programs.reversible_changes import is_reversible
from hermes.policy.programs.stored_functions import describe_stored_functions
from hermes.policy.programs.stored_passwords import stored_password_sent

_MAX_DIGEST_BYTES = 8 * 1024 * 1024


def resolve_symlinks(path: str) -> str:
    """The real path; the path itself if it cannot be resolved."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a loop of links, or an invalid byte
        return path


def file_digest(path: str) -> str:
    """The hash of a script, empty if unreadable; of a huge file only metadata."""
    try:
        file = Path(path)
        status = file.stat()
        if not file.is_file():
            return ""
        if status.st_size > _MAX_DIGEST_BYTES:
            return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


_FOLDER_CHANGING_PROGRAMS = frozenset({"cd", "pushd"})


class CommandAnalyser(Protocol):
    def __call__(
        self, command: str, *, cwd: str, home: str, lookup: PathLookup, own_paths: Sequence[str]
    ) -> CommandAnalysis: ...


class ActionContext(Value, kw_only=True, frozen=True):
    """What the call itself does not contain."""

    cwd: str = "/"
    home: str = "/root"
    """The home folder of the user in the environment."""
    workspace: str = ""
    """The working folder of the task; empty is `cwd`."""
    command: str = ""
    """The command of a tool that is declared in YAML."""
    receiver: str = ""
    """The command of the background process that text is typed into."""
    tainted: bool = False
    actor: str = ""
    """The requester, who may not approve it."""
    where: ActionLocation = ActionLocation()
    incident: IncidentFacts = IncidentFacts()


class SandboxWrites(Protocol):
    """Files written by commands in a sandbox that commands outside can reach."""

    def wrote(self, path: str) -> bool: ...

    def matching(self, folder: str, patterns: Sequence[str]) -> list[str]: ...


def _unresolved_path(path: str) -> str:
    return path


def _empty_digest(path: str) -> str:
    return ""


@dataclass(frozen=True)
class ActionReader:
    """Reads actions. `lookup` follows symlinks; `digest` gives the content hash of a script."""

    analyse: CommandAnalyser
    own_paths: tuple[str, ...] = ()
    loaded_folders: tuple[str, ...] = ()
    lookup: PathLookup = _unresolved_path
    digest: Callable[[str], str] = _empty_digest
    run_memory: RunMemory = field(default_factory=RunMemory)
    written_files: WrittenFiles = field(default_factory=WrittenFiles)
    """Files that this and earlier sessions wrote."""
    sandbox_writes: SandboxWrites | None = None
    clean: CleanText = str
    """Removes secrets from a text as from the output of commands."""

    def read(self, action: Action, situation: ActionContext) -> ActionEffects:
        judged_at = file_clock_ns()
        intent = read_intent(
            action, situation.home, self._pending_input(action), situation.receiver
        )
        rendered = situation.command or action.command
        if rendered:
            intent = msgspec.structs.replace(intent, command=rendered, effects=intent.declared)
        cwd = posixpath.normpath(posixpath.join(situation.cwd, intent.workdir))
        home = self.lookup(situation.home)
        steps, dynamic, variables = self._steps(intent, cwd, situation)
        folders = (
            cwd,
            *(path for s in steps if s.program in _FOLDER_CHANGING_PROGRAMS for path in s.paths),
        )
        scripts = set().union(*(self._scripts(action.run, s, folders) for s in steps))
        steps = tuple(self._mark_written_scripts(action, s, folders, home) for s in steps)
        looks_into_files = self._looks_into_files(action)
        if looks_into_files:
            steps = tuple(mark_imported_files(step, folders) for step in steps)
            steps = tuple(
                mark_printed_file(step, _folders_searched(step, folders)) for step in steps
            )
            steps = tuple(map(mark_hook_changes, steps))
            steps = mark_foreign_names(steps, lambda step: _folders_searched(step, folders))
            if not action.reviewed:
                steps = tuple(_mark_stored_password(step, home) for step in steps)
                steps, files = self._mark_projects(steps, folders, home)
                scripts |= files
        if intent.command and not action.reviewed and self.lookup is not _unresolved_path:
            steps = mark_disguised_text(steps, self.clean if looks_into_files else None, folders)
        where = location_of(action, situation.where, rendered)
        in_copy = action.call.name == COPY_TOOL
        if in_copy:
            steps, dynamic = tuple(map(step_in_copy, steps)), ()
        effects = ActionEffects(
            tool=action.call.name,
            definition=action.definition,
            steps=steps,
            hash=fingerprint(
                *identity_of(action),
                intent.command,
                cwd,
                (action.environment, action.target, where.host, where.namespace),
                (*sorted(scripts), *variables),
            ),
            command=intent.command,
            cwd=cwd,
            workspace=situation.workspace or situation.cwd,
            home=home,
            loaded_folders=self.loaded_folders,
            run=action.run,
            origin=action.origin,
            actor=situation.actor,
            tainted=situation.tainted,
            reviewed=action.reviewed,
            tested=action.tested,
            where=where,
            incident=situation.incident,
            variables=variables,
            dynamic=dynamic,
            kernel=None if in_copy else action.kernel,
            files=files_at_verdict(
                steps if not in_copy and looks_into_files and not action.reviewed else (),
                lambda step: _folders_searched(step, folders),
                judged_at,
            ),
            protected=tuple(own for own in self.own_paths if is_below_changes(own, cwd, steps)),
        )
        if in_copy:
            return effects
        effects = _mark_stored_functions(mark_root_commands(effects))
        if action.reviewed:  # its programs were chosen together
            return effects
        if _environment_key(action):  # its files are not on this machine
            return mark_lent_access(mark_unread_project(effects), None)
        return mark_lent_access(
            effects, lambda step: _folders_searched(step, folders) if looks_into_files else ()
        )

    def record_start(self, action: Action, effects: ActionEffects) -> None:
        """The action starts: remembers what it writes and types."""
        content = fingerprint(action.call.arguments)
        if not action.isolated:
            made = (path for s in effects.steps if s.effects != {"delete"} for path in s.changes)
            shown = tuple(path for s in effects.steps for path in s.written)
            for key in (_environment_key(action), _commits_key(action)):
                self.written_files.remove(key, shown)
            self.written_files.add(_environment_key(action), made)
            trees = (
                f"{path}/"
                for s in effects.steps
                if writes_trees(s.program, s.flags)
                for path in s.changes
            )
            self.written_files.add(_environment_key(action), trees)
            looks = self._looks_into_files(action)
            foreign = trees_of_others(
                effects.steps, (lambda s: _folders_searched(s, (effects.cwd,))) if looks else None
            )
            self.written_files.add(_commits_key(action), (f"{tree}/" for tree in foreign))
        for step in effects.steps:
            for path in step.changes:
                before = self.run_memory.digest(action.run, path)
                self.run_memory.record_write(action.run, path, fingerprint(before, content))
        typed = _typed_text(action)
        if typed is not None:
            self.run_memory.record_typing(action.run, *typed)

    def _pending_input(self, action: Action) -> str:
        typed = _typed_text(action)
        return self.run_memory.pending_input(action.run, typed[0]) if typed else ""

    def _steps(
        self, intent: ToolIntent, cwd: str, situation: ActionContext
    ) -> tuple[tuple[ActionStep, ...], tuple[str, ...], tuple[str, ...]]:
        """The steps, why they cannot be known, and the variables that decide their meaning."""
        if not intent.command:
            return (intent.step(),), (), ()
        try:
            analysis = self.analyse(
                intent.command,
                cwd=cwd,
                home=situation.home,
                lookup=self.lookup,
                own_paths=self.own_paths,
            )
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            # An error of the reader must not allow the command, nor end the run.
            reason = f"it could not be read ({type(error).__name__})"
            return (_unreadable_step(intent.shown or intent.command, reason),), (reason,), ()
        steps = [_step_from_command(intent, command) for command in analysis.commands]
        steps += _unattributed_steps(intent, analysis, steps)
        return tuple(steps), (*analysis.dynamic, *analysis.problems), analysis.variables

    def _mark_written_scripts(
        self, action: Action, step: ActionStep, folders: Sequence[str], home: str
    ) -> ActionStep:
        """A step that runs a file which the agent or a sandbox wrote is known only at run time."""
        run, scripts = action.run, files_run_by(step, folders)
        here = [path for path in scripts if self.run_memory.digest(run, path)]
        if action.reviewed:  # a path that it builds at run time is not that of an earlier write
            here = [path for path in here if "…" not in path]
        inside = [
            path for path in scripts if self.sandbox_writes and self.sandbox_writes.wrote(path)
        ]
        earlier: list[str] = []
        searched = _folders_searched(step, folders)
        if places := places_searched(step, searched, home):
            patterns = implicit_files_of(step.program, step.argv)
            if loads_from_anywhere(step) or runs_git_in_unknown_folder(step, searched):
                places.append(("/", tuple(f"*/{pattern}" for pattern in patterns)))
            places += [(hooks, ("*",)) for hooks in self._hook_folders(action, step, searched)]
            for folder, wanted in places:
                here += self.run_memory.matching(run, folder, wanted)
                earlier += self._written_earlier(action, step, folder, wanted)
                if self.sandbox_writes:
                    found = self.sandbox_writes.matching(folder, wanted)
                    inside += [path for path in found if not is_git_data(path)]
        if not (here or earlier or inside):
            return step
        written = tuple(dict.fromkeys((*here, *earlier, *inside)))
        when = "in this run" if here else "by the agent in an earlier session"
        when = when if here or earlier else "in a sandbox"
        more = f" and {len(written) - 1} more" if len(written) > 1 else ""
        why = f"exec-dynamic: {written[0]}{more} was written {when}"
        return msgspec.structs.replace(
            step, effects=step.effects | {"exec-dynamic"}, why=(*step.why, why), written=written
        )

    def _mark_projects(
        self, steps: Sequence[ActionStep], folders: Sequence[str], home: str
    ) -> tuple[tuple[ActionStep, ...], set[tuple[str, str]]]:
        """The steps, and the files that they obey, with their hashes: an answer is for these."""
        marked = [
            mark_project_files(step, _folders_searched(step, folders), home) for step in steps
        ]
        files = {(file, self.digest(file)) for _, found in marked for file in found}
        return tuple(step for step, _ in marked), files

    def _hook_folders(
        self, action: Action, step: ActionStep, searched: Sequence[str]
    ) -> tuple[str, ...]:
        """Folders that repositories name for the hooks which git runs."""
        if posixpath.basename(step.program) != "git" or not self._looks_into_files(action):
            return ()
        return tuple(filter(None, dict.fromkeys(map(find_hook_folder, searched))))

    def _looks_into_files(self, action: Action) -> bool:
        return self.lookup is not _unresolved_path and not _environment_key(action)

    def _written_earlier(
        self, action: Action, step: ActionStep, folder: str, patterns: tuple[str, ...]
    ) -> list[str]:
        if action.isolated or not folder.startswith("/"):
            return []
        keys = [_environment_key(action)]
        if posixpath.basename(step.program) != "git":  # commits hold no settings of git
            keys.append(_commits_key(action))
        try:
            known = [path for key in keys for path in self.written_files.below(key, folder)]
            return matching_files(
                known, folder, patterns, lambda file: loads_file(step.program, step.argv, file)
            )
        except OSError as error:
            return [f"a file (who knows which: {error}; move it away to begin a new one)"]

    def _scripts(self, run: str, step: ActionStep, folders: Sequence[str]) -> set[tuple[str, str]]:
        """Files whose content is part of the action, with their hashes."""
        found = {(path, self._content(run, path)) for path in files_run_by(step, folders)}
        return {(path, content) for path, content in found if content}

    def _content(self, run: str, path: str) -> str:
        return self.run_memory.digest(run, path) + self.digest(path)


def _mark_stored_password(step: ActionStep, home: str) -> ActionStep:
    why = stored_password_sent((step.program, *step.argv[1:]), step.via, home)
    if not why:
        return step
    return msgspec.structs.replace(
        step, effects=step.effects | {"network-out"}, why=(*step.why, f"network-out: {why}")
    )


def _mark_stored_functions(effects: ActionEffects) -> ActionEffects:
    """Says on whose rights a query of a database rests."""
    said = (
        describe_stored_functions(posixpath.basename(step.program), step.argv[1:])
        for step in effects.steps
        if step.is_read_only
    )
    return msgspec.structs.replace(effects, unread=next(filter(None, said), ""))


def _environment_key(action: Action) -> str:
    """Empty for this machine."""
    return "" if action.environment == "local" else f"{action.environment} {action.target}:"


def _commits_key(action: Action) -> str:
    """Work trees with files of commits that others made are recorded under this key."""
    return f"commits {_environment_key(action)}:"


def _folders_searched(step: ActionStep, folders: Sequence[str]) -> tuple[str, ...]:
    """Folders in which a program may find files that it runs or reads as configuration."""
    own = (step.folder,) if step.folder else ()
    above = map(posixpath.dirname, step.paths)
    return tuple(dict.fromkeys((*folders, *own, *above, *step.paths)))


def files_run_by(step: ActionStep, folders: Sequence[str]) -> list[str]:
    """Files whose content would be run; `folders` are the possible working folders."""
    found: list[str] = []
    if "/" in step.program:
        found += [posixpath.normpath(posixpath.join(each, step.program)) for each in folders]
    name = posixpath.basename(step.program)
    if name in INTERPRETER_PROGRAMS or name.rstrip("0123456789.") in INTERPRETER_PROGRAMS:
        found += step.paths
    return found


def _step_from_command(intent: ToolIntent, command: SimpleCommand) -> ActionStep:
    start, end = command.node
    called = command.argv[0] if command.argv else ""
    node = intent.command.encode("utf-8", "replace")[start:end].decode("utf-8", "replace")
    return ActionStep(
        node=intent.shown or node or intent.command,
        effects=command.effects | intent.effects or frozenset({"read"}),
        program=called if "/" in called else command.program,
        argv=command.argv,
        flags=command.flags,
        paths=command.paths,
        changes=command.changes,
        repositories=command.repositories,
        via=command.via,
        folder=command.folder,
        why=(*command.why, *intent.why),
        target=command.target,
        captured=command.captured,
        reversible="service-change" in command.effects
        and is_reversible(command.program, command.argv, command.via, intent.command),
    )


def _unattributed_steps(
    intent: ToolIntent, analysis: CommandAnalysis, steps: Sequence[ActionStep]
) -> list[ActionStep]:
    """Steps for effects that belong to no single command."""
    known = frozenset().union(*(step.effects for step in steps))
    rest = analysis.effects - known
    reasons = (*analysis.dynamic, *analysis.problems)
    if reasons and "exec-dynamic" not in known:
        rest |= {"exec-dynamic"}
    if not steps:
        rest |= intent.effects
    if not rest:
        return []
    why = tuple(f"exec-dynamic: {reason}" for reason in dict.fromkeys(reasons))
    return [ActionStep(node=intent.shown or intent.command, effects=rest, why=(*why, *intent.why))]


def _unreadable_step(node: str, reason: str) -> ActionStep:
    return ActionStep(
        node=node, effects=frozenset({"exec-dynamic"}), why=(f"exec-dynamic: {reason}",)
    )


def _typed_text(action: Action) -> tuple[str, str] | None:
    """The session and the text, if the call types into a background process."""
    arguments = action.call.arguments
    if action.call.name != "process" or arguments.get("action") not in ("write", "submit"):
        return None
    ending = "\n" if arguments["action"] == "submit" else ""
    return str(arguments.get("session_id", "")), str(arguments.get("data", "")) + ending
