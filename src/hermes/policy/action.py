"""From a tool call to a deed: what it would do, tool by tool, and the hash of exactly that."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import Value
from hermes.policy import written_files
from hermes.policy.commands.values import Analysis, Lookup, SimpleCommand
from hermes.policy.deed import Deed, IncidentFacts, Step, Whereabouts, fingerprint
from hermes.policy.implicit_files import files_obeyed_by, loads, names_no_program
from hermes.policy.remembered import Remembered
from hermes.policy.tool_calls import Intent, intent_of
from hermes.policy.written_files import WrittenFiles

_PRESENTATION = frozenset({"timeout", "watch", "limit", "offset"})
"""Arguments that change nothing in the world; the same deed with another is the same deed."""
_MOVES = frozenset({"cd", "pushd"})
INTERPRETERS = frozenset(
    {".", "source", "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "expect"}
    | {"python", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh"}
    | {"Rscript", "java", "go", "awk", "gawk", "mawk", "sed", "make", "gmake", "ansible-playbook"}
    | {"psql", "mysql", "mariadb", "sqlite", "redis-cli", "vim", "ex", "ed", "gdb", "exec"}
)
"""Programs that run what is in a file they are given."""


class Analyse(Protocol):
    def __call__(
        self, command: str, *, cwd: str, home: str, lookup: Lookup, own_paths: Sequence[str]
    ) -> Analysis: ...


class Situation(Value, kw_only=True, frozen=True):
    """What the call itself does not say."""

    cwd: str = "/"
    home: str = "/root"
    """The home folder of the user, in the place where it runs."""
    workspace: str = ""
    """The folder the work is about; empty is `cwd`."""
    command: str = ""
    """What a tool declared in YAML would run."""
    receiver: str = ""
    """The command of the background process that text is typed into."""
    tainted: bool = False
    actor: str = ""
    """Who asked for it; the `requester` that may not approve it."""
    where: Whereabouts = Whereabouts()
    incident: IncidentFacts = IncidentFacts()


class WrittenInSandbox(Protocol):
    """Files that commands in a sandbox wrote where this gate's commands can reach them."""

    def wrote(self, path: str) -> bool: ...

    def matching(self, folder: str, patterns: Sequence[str]) -> list[str]: ...


def _no_links(path: str) -> str:
    return path


def _no_digest(path: str) -> str:
    return ""


@dataclass(frozen=True)
class Reader:
    """Reads actions. `lookup` follows symlinks; `digest` gives the content hash of a script."""

    analyse: Analyse
    own_paths: tuple[str, ...] = ()
    lookup: Lookup = _no_links
    digest: Callable[[str], str] = _no_digest
    remembered: Remembered = field(default_factory=Remembered)
    written: WrittenFiles = field(default_factory=WrittenFiles)
    """What earlier sessions wrote, and this one."""
    sandboxes: WrittenInSandbox | None = None

    def read(self, action: Action, situation: Situation) -> Deed:
        intent = intent_of(action, situation.home, self._pending(action), situation.receiver)
        rendered = situation.command or action.command
        if rendered:
            intent = msgspec.structs.replace(intent, command=rendered, effects=intent.declared)
        cwd = posixpath.normpath(posixpath.join(situation.cwd, intent.workdir))
        steps, dynamic, variables = self._steps(intent, cwd, situation)
        folders = (cwd, *(path for s in steps if s.program in _MOVES for path in s.paths))
        scripts = sorted(set().union(*(self._scripts(action.run, s, folders) for s in steps)))
        steps = tuple(self._noticed(action, step, folders) for step in steps)
        where = _whereabouts(action, situation.where)
        return Deed(
            tool=action.call.name,
            steps=steps,
            hash=fingerprint(
                action.call.name,
                _essence(action.call.arguments),
                intent.command,
                cwd,
                (action.environment, action.target, where.host, where.namespace),
                (*scripts, *variables),
            ),
            command=intent.command,
            cwd=cwd,
            workspace=situation.workspace or situation.cwd,
            run=action.run,
            origin=action.origin,
            actor=situation.actor,
            tainted=situation.tainted,
            where=where,
            incident=situation.incident,
            variables=variables,
            dynamic=dynamic,
            kernel=action.kernel,
        )

    def started(self, action: Action, deed: Deed) -> None:
        """The deed is being done: what it writes and types is remembered."""
        content = fingerprint(action.call.arguments)
        if not action.isolated:
            made = (path for s in deed.steps if s.effects != {"delete"} for path in s.changes)
            self.written.remove(_place(action), (path for s in deed.steps for path in s.written))
            self.written.add(_place(action), made)
        for step in deed.steps:
            for path in step.changes:
                before = self.remembered.digest(action.run, path)
                self.remembered.wrote(action.run, path, fingerprint(before, content))
        typed = _typed(action)
        if typed is not None:
            self.remembered.typed(action.run, *typed)

    def _pending(self, action: Action) -> str:
        typed = _typed(action)
        return self.remembered.pending(action.run, typed[0]) if typed else ""

    def _steps(
        self, intent: Intent, cwd: str, situation: Situation
    ) -> tuple[tuple[Step, ...], tuple[str, ...], tuple[str, ...]]:
        """The steps, why it cannot be known, and the variables that decide what it means."""
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
            # A reader that stumbles over a command must not let it pass, nor end the run.
            reason = f"it could not be read ({type(error).__name__})"
            return (_opaque(intent.shown or intent.command, reason),), (reason,), ()
        steps = [_step(intent, command) for command in analysis.commands]
        steps += _leftovers(intent, analysis, steps)
        return tuple(steps), (*analysis.dynamic, *analysis.problems), analysis.variables

    def _noticed(self, action: Action, step: Step, folders: Sequence[str]) -> Step:
        """A file that the agent or a sandbox wrote and that now runs is only known at run time."""
        run, scripts = action.run, run_by(step, folders)
        here = [path for path in scripts if self.remembered.digest(run, path)]
        inside = [path for path in scripts if self.sandboxes and self.sandboxes.wrote(path)]
        earlier: list[str] = []
        if patterns := files_obeyed_by(step.program, step.argv):
            for folder in _folders_searched(step, folders):
                here += self.remembered.matching(run, folder, patterns)
                earlier += self._earlier(action, step, folder, patterns)
                if self.sandboxes:
                    found = self.sandboxes.matching(folder, patterns)
                    inside += [path for path in found if not names_no_program(path)]
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

    def _earlier(
        self, action: Action, step: Step, folder: str, patterns: tuple[str, ...]
    ) -> list[str]:
        if action.isolated or not folder.startswith("/"):
            return []
        try:
            known = self.written.below(_place(action), folder)
            return written_files.matching(
                known, folder, patterns, lambda file: loads(step.program, step.argv, file)
            )
        except OSError as error:
            return [f"a file (who knows which: {error}; move it away to begin a new one)"]

    def _scripts(self, run: str, step: Step, folders: Sequence[str]) -> set[tuple[str, str]]:
        """Files whose content is part of what is done, with its hash."""
        found = {(path, self._content(run, path)) for path in run_by(step, folders)}
        return {(path, content) for path, content in found if content}

    def _content(self, run: str, path: str) -> str:
        return self.remembered.digest(run, path) + self.digest(path)


def _place(action: Action) -> str:
    """Empty for this machine."""
    return "" if action.environment == "local" else f"{action.environment} {action.target}:"


def _folders_searched(step: Step, folders: Sequence[str]) -> tuple[str, ...]:
    """Folders in which a program may find files that it obeys."""
    return tuple(dict.fromkeys((*folders, *map(posixpath.dirname, step.paths), *step.paths)))


def run_by(step: Step, folders: Sequence[str]) -> list[str]:
    """Files whose content would be run; `folders` are those it may be run from."""
    found: list[str] = []
    if "/" in step.program:
        found += [posixpath.normpath(posixpath.join(each, step.program)) for each in folders]
    name = posixpath.basename(step.program)
    if name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS:
        found += step.paths
    return found


def _step(intent: Intent, command: SimpleCommand) -> Step:
    start, end = command.node
    called = command.argv[0] if command.argv else ""
    node = intent.command.encode("utf-8", "replace")[start:end].decode("utf-8", "replace")
    return Step(
        node=intent.shown or node or intent.command,
        effects=command.effects | intent.effects or frozenset({"read"}),
        program=called if "/" in called else command.program,
        argv=command.argv,
        flags=command.flags,
        paths=command.paths,
        changes=command.changes,
        repositories=command.repositories,
        via=command.via,
        why=(*command.why, *intent.why),
        target=command.target,
    )


def _leftovers(intent: Intent, analysis: Analysis, steps: Sequence[Step]) -> list[Step]:
    """Effects that no single command accounts for must not get lost."""
    told = frozenset().union(*(step.effects for step in steps))
    rest = analysis.effects - told
    reasons = (*analysis.dynamic, *analysis.problems)
    if reasons and "exec-dynamic" not in told:
        rest |= {"exec-dynamic"}
    if not steps:
        rest |= intent.effects
    if not rest:
        return []
    why = tuple(f"exec-dynamic: {reason}" for reason in dict.fromkeys(reasons))
    return [Step(node=intent.shown or intent.command, effects=rest, why=(*why, *intent.why))]


def _opaque(node: str, reason: str) -> Step:
    return Step(node=node, effects=frozenset({"exec-dynamic"}), why=(f"exec-dynamic: {reason}",))


def _essence(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in _PRESENTATION}


def _typed(action: Action) -> tuple[str, str] | None:
    """The session and the text, if the call types something into a background process."""
    arguments = action.call.arguments
    if action.call.name != "process" or arguments.get("action") not in ("write", "submit"):
        return None
    ending = "\n" if arguments["action"] == "submit" else ""
    return str(arguments.get("session_id", "")), str(arguments.get("data", "")) + ending


def _whereabouts(action: Action, known: Whereabouts) -> Whereabouts:
    return msgspec.structs.replace(
        known,
        place=action.environment,
        host=known.host or action.target,
        isolated=action.isolated,
    )
