"""Which steps a rule is about: every pattern compiled once, every field one small test.

Which way a rule leans decides how a list is read. A rule that tightens (ask, deny, dry-run) fits
when *any* effect or path of a step is on its list; one that loosens (allow, an exception, an
exclusion from a strict rule) only when *all* of them are, looking aside. So no careless list opens
a door.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from hermes.core.messages import Value
from hermes.policy import schema
from hermes.policy.commands.values import PLAIN
from hermes.policy.conditions import Condition
from hermes.policy.deed import Deed, Step
from hermes.policy.patterns import Globs, PathPatterns, program_fits
from hermes.policy.schema import words


class View:
    """One step of a deed, as seen at one moment."""

    def __init__(self, deed: Deed, step: Step, now: datetime) -> None:
        self.deed = deed
        self.step = step
        self.now = now

    @property
    def host(self) -> str:
        target = self.step.target
        return target.host or target.container or self.deed.where.host

    @property
    def service(self) -> str:
        return self.step.target.service or self.deed.where.service

    @property
    def namespace(self) -> str:
        return self.step.target.namespace or self.deed.where.namespace

    @cached_property
    def variables(self) -> dict[str, Any]:
        deed, step, where, now = self.deed, self.step, self.deed.where, self.now
        effects = sorted(step.effects)
        return {
            "action": {
                "tool": deed.tool,
                "program": step.program,
                "argv": list(step.argv),
                "flags": list(step.flags),
                "paths": list(step.paths),
                "changes": list(step.changes),
                "via": list(step.via),
                "effects": effects,
                "command": deed.command,
                "node": step.node,
                "cwd": deed.cwd,
                "run": deed.run,
                "isolated": where.isolated,
            },
            "effects": effects,
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
            "incident": _fields(deed.incident),
            "actor": {"name": deed.actor, "origin": deed.origin, "tainted": deed.tainted},
            "target": {
                **_fields(where),
                "environment": where.environment or where.place,
                "host": self.host,
                "service": self.service,
                "namespace": self.namespace,
            },
        }


def _fields(value: Value) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


Test = Callable[[View, bool], bool]
"""Does the step fit? The flag is true where a list must cover everything."""
Clause = tuple[tuple[str, Test], ...]


@dataclass(frozen=True)
class Matcher:
    any: tuple[Clause, ...]
    all: tuple[Clause, ...]

    def fits(self, view: View, *, every: bool) -> bool:
        for clause in self.all:
            if not all(test(view, every) for _, test in clause):
                return False
        if not self.any:
            return bool(self.all)
        return any(all(test(view, every) for _, test in clause) for clause in self.any)

    def missed(self, view: View, *, every: bool) -> tuple[str, ...]:
        """The fields that kept the closest clause from fitting."""
        must = [name for clause in self.all for name, test in clause if not test(view, every)]
        options = [
            [name for name, test in clause if not test(view, every)] for clause in self.any
        ] or [[]]
        return tuple(dict.fromkeys([*must, *min(options, key=len)]))


def compile_match(match: schema.Match, home: str) -> Matcher:
    """Raises `ValueError` for a condition that is not CEL."""
    return Matcher(
        tuple(tuple(_clause(each, home)) for each in match.any),
        tuple(tuple(_clause(each, home)) for each in match.all),
    )


def _clause(clause: schema.Clause, home: str) -> Iterator[tuple[str, Test]]:
    """Cheap tests first: most rules are about something else."""
    made: tuple[tuple[str, schema.Words, Callable[[tuple[str, ...]], Test]], ...] = (
        ("effects", clause.effects, _effects),
        ("tool", clause.tool, lambda given: _one_of(Globs(given), lambda view: view.deed.tool)),
        ("program", clause.program, _program),
        ("verb", clause.verb, _verb),
        ("flags", clause.flags, _flags),
        ("via", clause.via, _via),
        ("action", clause.action, lambda given: _exact(given, lambda view: view.deed.hash)),
        ("command", clause.command, lambda given: _exact(given, lambda view: view.deed.command)),
    )
    for name, given, make in made:
        if given:
            yield name, make(words(given))
    if clause.paths:
        yield "paths", _paths(PathPatterns(clause.paths, home))
    if clause.changes:
        yield "changes", _changes(PathPatterns(clause.changes, home))
    if clause.repositories:
        yield "repositories", _repositories(PathPatterns(clause.repositories, home))
    if clause.written is not None:
        yield "written", _flag(clause.written, lambda view: bool(view.step.written))
    yield from _target(clause.target or schema.TargetMatch())
    yield from _incident(clause.incident or schema.IncidentMatch())
    yield from _actor(clause.actor or schema.ActorMatch())
    if clause.when:
        yield "when", _when(Condition(clause.when))


def _target(target: schema.TargetMatch) -> Iterator[tuple[str, Test]]:
    yield from _named(
        ("target.environment", target.environment, _environment),
        ("target.place", target.place, lambda view: view.deed.where.place),
        ("target.host", target.host, lambda view: view.host),
        ("target.service", target.service, lambda view: view.service),
        ("target.namespace", target.namespace, lambda view: view.namespace),
    )
    if target.isolated is not None:
        yield "target.isolated", _flag(target.isolated, lambda view: view.deed.where.isolated)


def _incident(incident: schema.IncidentMatch) -> Iterator[tuple[str, Test]]:
    yield from _named(
        ("incident.id", incident.id, lambda view: view.deed.incident.id),
        ("incident.severity", incident.severity, lambda view: view.deed.incident.severity),
        ("incident.service", incident.service, lambda view: view.deed.incident.service),
    )


def _actor(actor: schema.ActorMatch) -> Iterator[tuple[str, Test]]:
    yield from _named(
        ("actor.name", actor.name, lambda view: view.deed.actor),
        ("actor.origin", actor.origin, lambda view: view.deed.origin),
    )
    if actor.tainted is not None:
        yield "actor.tainted", _flag(actor.tainted, lambda view: view.deed.tainted)


def _named(
    *fields: tuple[str, schema.Words, Callable[[View], str]],
) -> Iterator[tuple[str, Test]]:
    for name, given, value in fields:
        if given:
            yield name, _one_of(Globs(words(given)), value)


def _environment(view: View) -> str:
    return view.deed.where.environment or view.deed.where.place


def _one_of(globs: Globs, value: Callable[[View], str]) -> Test:
    return lambda view, every: globs.fits(value(view))


def _exact(texts: tuple[str, ...], value: Callable[[View], str]) -> Test:
    exact = frozenset(text.strip() for text in texts)
    return lambda view, every: value(view).strip() in exact


def _flag(wanted: bool, value: Callable[[View], bool]) -> Test:
    return lambda view, every: value(view) is wanted


def _program(names: tuple[str, ...]) -> Test:
    programs = Globs(names)
    return lambda view, every: program_fits(view.step.program, programs, every=every)


def _verb(names: tuple[str, ...]) -> Test:
    verbs = Globs(names)

    def test(view: View, every: bool) -> bool:
        words = view.step.argv[1:2] if every else view.step.argv[1:]  # options may stand before it
        return any(verbs.fits(word) for word in words)

    return test


def _paths(patterns: PathPatterns) -> Test:
    return lambda view, every: patterns.fit(view.step.paths, view.deed.workspace, every=every)


def _changes(patterns: PathPatterns) -> Test:
    return lambda view, every: patterns.fit(view.step.changes, view.deed.workspace, every=every)


def _repositories(patterns: PathPatterns) -> Test:
    """The records in the folder, since a folder does not cover itself."""

    def test(view: View, every: bool) -> bool:
        records = tuple(f"{folder}/.git" for folder in view.step.repositories)
        return patterns.fit(records, view.deed.workspace, every=every)

    return test


def _effects(names: tuple[str, ...]) -> Test:
    wanted = frozenset(names)

    def test(view: View, every: bool) -> bool:
        effects = view.step.effects
        return effects - PLAIN <= wanted if every else not effects.isdisjoint(wanted)

    return test


def _flags(names: tuple[str, ...]) -> Test:
    wanted = frozenset(names)

    def test(view: View, every: bool) -> bool:
        flags = view.step.flags
        return wanted.issuperset(flags) if every else not wanted.isdisjoint(flags)

    return test


def _via(names: tuple[str, ...]) -> Test:
    wanted = Globs(names)

    def test(view: View, every: bool) -> bool:
        wrapped = [wanted.fits(wrapper) for wrapper in view.step.via]
        return all(wrapped) if every else any(wrapped)

    return test


def _when(condition: Condition) -> Test:
    # What cannot be evaluated never opens a door, and never leaves one open.
    return lambda view, every: condition.holds(view.variables, unsure=not every)
