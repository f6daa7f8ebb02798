"""Compiles the match section of rules, and matches steps against it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase, translate
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from hermes.core.messages import Value
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.commands.effects import READING_EFFECTS
from hermes.policy.rules import schema
from hermes.policy.rules.conditions import CelCondition
from hermes.policy.rules.schema import as_words

_GLOB = re.compile(r"[*?\[{…]")
_LITERAL_CHARACTER = re.compile(r"[^*?\[\]{}…]")
_TRUSTED_PROGRAM_FOLDERS = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/snap/bin"}
)


_SHARED_FOLDERS = frozenset({"", "/", "/tmp", "/var", "/var/lib", "/var/tmp"})
"""Folders that never count as the workspace, even if a session starts there."""
_SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin"),
    *("/snap", "/sys", "/usr", "/var/spool", "/Library", "/System", "/private/etc"),
)
"""Folders of the system with all below them: services and users run what is there."""
_FOLDERS_OF_PROJECTS = frozenset(
    {"/home", "/media", "/mnt", "/opt", "/srv", "/usr/local/src", "/usr/src", "/var/www", "/Users"}
)
_HOME = re.compile(r"(?:/root|/(?:home|Users|var/lib)/[^/]+)(?=/|$)")
_PROGRAM_FOLDER_NAMES = ("bin", "sbin")


class NamePatterns:
    """Name patterns; those without `*` are looked up in a set."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._exact = frozenset(name for name in names if not _GLOB.search(name))
        globs = [translate(name) for name in names if name not in self._exact]
        self._pattern = re.compile("|".join(globs)) if globs else None

    def matches(self, text: str) -> bool:
        if text in self._exact:
            return True
        return self._pattern is not None and self._pattern.match(text) is not None


def program_matches(program: str, programs: NamePatterns, *, every: bool) -> bool:
    """By name, or by path for a pattern with a slash.

    A rule that loosens accepts `/x/ls` as `ls` only in folders of system programs, because a file
    of that name elsewhere may be anything.
    """
    if programs.matches(program):
        return True
    folder, _, name = program.rpartition("/")
    if not folder or (every and folder not in _TRUSTED_PROGRAM_FOLDERS):
        return False
    return programs.matches(name)


class PathPatterns:
    """`~` is the home folder, `.` the workspace."""

    def __init__(self, match: schema.PathMatch, home: str) -> None:
        under = tuple(_absolute(folder, home) for folder in as_words(match.under))
        self._under = tuple(folder for folder in under if folder != ".")
        self._workspace = len(self._under) < len(under)
        self._exactly = frozenset(_absolute(path, home) for path in as_words(match.exactly))
        self._like = NamePatterns(tuple(_absolute(path, home) for path in as_words(match.like)))

    def match(self, paths: tuple[str, ...], effects: ActionEffects, *, every: bool) -> bool:
        workspace = effects.workspace
        own = (workspace,) if self._workspace and workspace not in _SHARED_FOLDERS else ()
        if every:
            return bool(paths) and all(self._covers(path, own, effects) for path in paths)
        return any(self._touches(path, (*self._under, *own)) for path in paths)

    def _covers(self, path: str, own: tuple[str, ...], effects: ActionEffects) -> bool:
        """A folder does not cover itself: permission to clear it does not include removing it."""
        found = _GLOB.search(path)
        if found is None and self._named(path):
            return True
        if found and ("…" in path or ".." in path or not path.startswith("/")):
            return False  # unknown target
        return any(
            _covers_path(folder, path) and not _is_workspace_start_up(path, effects)
            for folder in own
        ) or any(
            _covers_path(folder, path) and not _is_start_up_below(folder, path, effects)
            for folder in self._under
        )

    def _touches(self, path: str, folders: tuple[str, ...]) -> bool:
        found = _GLOB.search(path)
        if found is None:
            return self._named(path) or any(_within(path, folder) for folder in folders)
        known = path[: found.start()]
        roots = (*folders, *self._exactly)
        return self._named(path) or any(
            root.startswith(known) or _within(known, root) for root in roots
        )

    def _named(self, path: str) -> bool:
        return path in self._exactly or self._like.matches(path)


def _covers_path(folder: str, path: str) -> bool:
    found = _GLOB.search(path)
    if found is None:
        return _inside(path, folder)
    head = path[: path.rfind("/", 0, found.start())]
    name = path[len(head) + 1 :].partition("/")[0]
    literal = _LITERAL_CHARACTER.search(name) is not None
    return _inside(head, folder) or (literal and head == folder)  # /tmp/*.log, not /tmp/*


def _is_workspace_start_up(path: str, effects: ActionEffects) -> bool:
    """Return whether other programs run or load a file of the workspace without asking.

    A session that starts at home, or in a folder of the system, does not mean that all below it
    belongs to the work.
    """
    workspace = effects.workspace
    parent, *above = map(str, PurePosixPath(path).parents)
    in_system = any(_within(path, folder) for folder in _SYSTEM_FOLDERS)
    if parent in _FOLDERS_OF_PROJECTS or (in_system and _FOLDERS_OF_PROJECTS.isdisjoint(above)):
        return True
    known = _HOME.match(path)
    homes = {effects.home, known[0] if known else effects.home}
    return any(
        _is_start_up_of_home(path, home, wide=_within(home, workspace)) for home in homes if home
    ) or any(
        _overlap(path, folder)
        for folder in effects.loaded_folders
        if not _inside(workspace, folder)
    )


def _is_start_up_below(granted: str, path: str, effects: ActionEffects) -> bool:
    """The same for a folder that a rule names: if it is above a home, that may be by accident."""
    if _inside(effects.home, granted) and _is_start_up_of_home(path, effects.home, wide=True):
        return True
    loaded = [folder for folder in effects.loaded_folders if _inside(folder, granted)]
    return any(
        _overlap(path, folder) for folder in loaded if not _inside(effects.workspace, folder)
    )


def _is_start_up_of_home(path: str, home: str, *, wide: bool) -> bool:
    """Hidden files and folders of programs; `wide`: the home was not named itself.

    What is in `.git` has its own rules.
    """
    if not _inside(path, home):
        return wide and _within(home, path)
    first, *more = path[len(home.rstrip("/")) + 1 :].split("/")
    if first.startswith(".") and first != ".git":
        return True
    names = (first, *more) if wide else (first,)
    return any(fnmatchcase(name, part) for part in names for name in _PROGRAM_FOLDER_NAMES)


def _overlap(path: str, folder: str) -> bool:
    return _within(path, folder) or _inside(folder, path)


def _inside(path: str, folder: str) -> bool:
    return path.startswith("/" if folder == "/" else f"{folder}/")


def _within(path: str, folder: str) -> bool:
    return path == folder or _inside(path, folder)


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return str(PurePosixPath(path))


class StepView:
    """One step of an action at one time, as the rules match it."""

    def __init__(self, effects: ActionEffects, step: ActionStep, now: datetime) -> None:
        self.effects = effects
        self.step = step
        self.now = now

    @property
    def host(self) -> str:
        target = self.step.target
        return target.host or target.container or self.effects.where.host

    @property
    def service(self) -> str:
        return self.step.target.service or self.effects.where.service

    @property
    def namespace(self) -> str:
        return self.step.target.namespace or self.effects.where.namespace

    @cached_property
    def variables(self) -> dict[str, Any]:
        effects, step, where, now = self.effects, self.step, self.effects.where, self.now
        effect_names = sorted(step.effects)
        return {
            "action": {
                "tool": effects.tool,
                "digest": effects.definition.digest if effects.definition else "",
                "program": step.program,
                "argv": list(step.argv),
                "flags": list(step.flags),
                "paths": list(step.paths),
                "changes": list(step.changes),
                "via": list(step.via),
                "effects": effect_names,
                "command": effects.command,
                "node": step.node,
                "cwd": effects.cwd,
                "run": effects.run,
                "isolated": where.isolated,
                "tested": effects.tested,
                "reviewed": effects.reviewed,
                "reversible": step.reversible,
            },
            "effects": effect_names,
            "now": {
                "hour": now.hour,
                "minute": now.minute,
                "weekday": now.weekday(),
                "day": now.day,
                "month": now.month,
                "year": now.year,
                "date": now.date().isoformat(),
                "timestamp": int(now.timestamp()),
            },
            "incident": _struct_fields(effects.incident),
            "actor": {"name": effects.actor, "origin": effects.origin, "tainted": effects.tainted},
            "target": {
                **_struct_fields(where),
                "environment": where.environment or where.place,
                "host": self.host,
                "service": self.service,
                "namespace": self.namespace,
            },
        }


def _struct_fields(value: Value) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


StepTest = Callable[[StepView, bool], bool]
"""Whether the step matches. The flag is true where a list must cover everything."""
CompiledClause = tuple[tuple[str, StepTest], ...]


@dataclass(frozen=True)
class StepMatcher:
    any: tuple[CompiledClause, ...]
    all: tuple[CompiledClause, ...]

    def matches(self, view: StepView, *, every: bool) -> bool:
        for clause in self.all:
            if not all(test(view, every) for _, test in clause):
                return False
        if not self.any:
            return bool(self.all)
        return any(all(test(view, every) for _, test in clause) for clause in self.any)

    def unmatched_fields(self, view: StepView, *, every: bool) -> tuple[str, ...]:
        """The fields that kept the closest clause from matching."""
        must = [name for clause in self.all for name, test in clause if not test(view, every)]
        options = [
            [name for name, test in clause if not test(view, every)] for clause in self.any
        ] or [[]]
        return tuple(dict.fromkeys([*must, *min(options, key=len)]))


def compile_match(match: schema.PolicyMatch, home: str) -> StepMatcher:
    """Raises `ValueError` for an invalid condition."""
    return StepMatcher(
        tuple(tuple(_clause_tests(each, home)) for each in match.any),
        tuple(tuple(_clause_tests(each, home)) for each in match.all),
    )


def _clause_tests(clause: schema.MatchClause, home: str) -> Iterator[tuple[str, StepTest]]:
    """Cheap tests first, because most rules do not match."""
    given_tool = clause.tool
    tool = (
        given_tool
        if isinstance(given_tool, schema.ToolMatch)
        else schema.ToolMatch(name=given_tool)
    )
    made: tuple[tuple[str, schema.WordOrWords, Callable[[tuple[str, ...]], StepTest]], ...] = (
        ("effects", clause.effects, _effects_test),
        ("tool", tool.name, _tool_test),
        ("tool.digest", tool.digest, lambda given: _exact_test(given, _definition_digest)),
        ("program", clause.program, _program_test),
        ("verb", clause.verb, _verb_test),
        ("flags", clause.flags, _flags_test),
        ("via", clause.via, _via_test),
        ("action", clause.action, lambda given: _exact_test(given, lambda view: view.effects.hash)),
        (
            "command",
            clause.command,
            lambda given: _exact_test(given, lambda view: view.effects.command),
        ),
    )
    for name, given, make in made:
        if given:
            yield name, make(as_words(given))
    if clause.paths:
        yield "paths", _paths_test(PathPatterns(clause.paths, home))
    if clause.changes:
        yield "changes", _changes_test(PathPatterns(clause.changes, home))
    if clause.repositories:
        yield "repositories", _repositories_test(PathPatterns(clause.repositories, home))
    yield from _fact_tests(clause)
    yield from _target_tests(clause.target or schema.TargetMatch())
    yield from _incident_tests(clause.incident or schema.IncidentMatch())
    yield from _actor_tests(clause.actor or schema.ActorMatch())
    if clause.when and isinstance(clause.when, str):
        yield "when", _condition_test(CelCondition(clause.when))


def _fact_tests(clause: schema.MatchClause) -> Iterator[tuple[str, StepTest]]:
    facts = clause.when if isinstance(clause.when, schema.WhenSection) else schema.WhenSection()
    made: tuple[tuple[str, bool | None, Callable[[StepView], bool]], ...] = (
        ("written", clause.written, lambda view: bool(view.step.written)),
        ("reviewed", clause.reviewed, lambda view: view.effects.reviewed),
        ("reversible", clause.reversible, lambda view: view.step.reversible),
        ("when.reviewed", facts.reviewed, lambda view: view.effects.reviewed),
        ("tested", clause.tested, lambda view: view.effects.tested),
        ("when.tested", facts.tested, lambda view: view.effects.tested),
    )
    for name, wanted, value in made:
        if wanted is not None:
            yield name, _flag_test(wanted, value)


def _target_tests(target: schema.TargetMatch) -> Iterator[tuple[str, StepTest]]:
    yield from _pattern_tests(
        ("target.environment", target.environment, _environment_of),
        ("target.place", target.place, lambda view: view.effects.where.place),
        ("target.host", target.host, lambda view: view.host),
        ("target.service", target.service, lambda view: view.service),
        ("target.namespace", target.namespace, lambda view: view.namespace),
    )
    if target.isolated is not None:
        yield (
            "target.isolated",
            _flag_test(target.isolated, lambda view: view.effects.where.isolated),
        )


def _incident_tests(incident: schema.IncidentMatch) -> Iterator[tuple[str, StepTest]]:
    yield from _pattern_tests(
        ("incident.id", incident.id, lambda view: view.effects.incident.id),
        ("incident.severity", incident.severity, lambda view: view.effects.incident.severity),
        ("incident.service", incident.service, lambda view: view.effects.incident.service),
    )


def _actor_tests(actor: schema.ActorMatch) -> Iterator[tuple[str, StepTest]]:
    yield from _pattern_tests(
        ("actor.name", actor.name, lambda view: view.effects.actor),
        ("actor.origin", actor.origin, lambda view: view.effects.origin),
    )
    if actor.tainted is not None:
        yield "actor.tainted", _flag_test(actor.tainted, lambda view: view.effects.tainted)


def _pattern_tests(
    *fields: tuple[str, schema.WordOrWords, Callable[[StepView], str]],
) -> Iterator[tuple[str, StepTest]]:
    for name, given, value in fields:
        if given:
            yield name, _glob_test(NamePatterns(as_words(given)), value)


def _environment_of(view: StepView) -> str:
    return view.effects.where.environment or view.effects.where.place


def _glob_test(globs: NamePatterns, value: Callable[[StepView], str]) -> StepTest:
    return lambda view, every: globs.matches(value(view))


def _exact_test(texts: tuple[str, ...], value: Callable[[StepView], str]) -> StepTest:
    exact = frozenset(text.strip() for text in texts)
    return lambda view, every: value(view).strip() in exact


def _tool_test(names: tuple[str, ...]) -> StepTest:
    patterns = NamePatterns(names)
    return lambda view, every: any(map(patterns.matches, view.effects.tool_names))


def _definition_digest(view: StepView) -> str:
    return view.effects.definition.digest if view.effects.definition else ""


def _flag_test(wanted: bool, value: Callable[[StepView], bool]) -> StepTest:
    return lambda view, every: value(view) is wanted


def _program_test(names: tuple[str, ...]) -> StepTest:
    programs = NamePatterns(names)
    return lambda view, every: program_matches(view.step.program, programs, every=every)


def _verb_test(names: tuple[str, ...]) -> StepTest:
    verbs = NamePatterns(names)

    def test(view: StepView, every: bool) -> bool:
        words = view.step.argv[1:2] if every else view.step.argv[1:]  # options may precede it
        return any(verbs.matches(word) for word in words)

    return test


def _paths_test(patterns: PathPatterns) -> StepTest:
    return lambda view, every: patterns.match(view.step.paths, view.effects, every=every)


def _changes_test(patterns: PathPatterns) -> StepTest:
    return lambda view, every: patterns.match(view.step.changes, view.effects, every=every)


def _repositories_test(patterns: PathPatterns) -> StepTest:
    """Tests the `.git` folder, because a folder does not cover itself."""

    def test(view: StepView, every: bool) -> bool:
        records = tuple(f"{folder}/.git" for folder in view.step.repositories)
        return patterns.match(records, view.effects, every=every)

    return test


def _effects_test(names: tuple[str, ...]) -> StepTest:
    wanted = frozenset(names)

    def test(view: StepView, every: bool) -> bool:
        effect_names = view.step.effects
        return (
            effect_names - READING_EFFECTS <= wanted
            if every
            else not effect_names.isdisjoint(wanted)
        )

    return test


def _flags_test(names: tuple[str, ...]) -> StepTest:
    wanted = frozenset(names)

    def test(view: StepView, every: bool) -> bool:
        flags = view.step.flags
        return wanted.issuperset(flags) if every else not wanted.isdisjoint(flags)

    return test


def _via_test(names: tuple[str, ...]) -> StepTest:
    wanted = NamePatterns(names)

    def test(view: StepView, every: bool) -> bool:
        wrapped = [wanted.matches(wrapper) for wrapper in view.step.via]
        return all(wrapped) if every else any(wrapped)

    return test


def _condition_test(condition: CelCondition) -> StepTest:
    # A condition that cannot be evaluated never allows anything.
    return lambda view, every: condition.holds(view.variables, unsure=not every)
