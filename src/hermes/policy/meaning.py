"""What is well-formed in a policy document and still makes no sense."""

import re
from collections.abc import Iterator
from typing import get_args

from hermes.core.events.happening import Origin
from hermes.policy import schema
from hermes.policy.commands.values import Effect
from hermes.policy.conditions import Condition
from hermes.policy.durations import seconds
from hermes.policy.schema import words
from hermes.policy.shape import Flaw, Path, suggest

EFFECTS = tuple(get_args(Effect))
ORIGINS = tuple(get_args(Origin))
_NAME = re.compile(r"[a-z0-9][a-z0-9._:-]{0,99}")


def flaws_of(document: schema.Document, *, tighten_only: bool = False) -> Iterator[Flaw]:
    name = document.metadata.name
    if not _NAME.fullmatch(name):
        yield ("metadata", "name"), f"the name {name!r} is not made of a-z, 0-9, '-', '.', '_', ':'"
    if name in ("floor", "default-asks", "default-reads", "tainted-asks"):
        yield ("metadata", "name"), f"{name} is what holds without any file; take another name"
    if isinstance(document, schema.ActionPolicy):
        yield from _policy(document.spec, tighten_only=tighten_only)
    elif isinstance(document, schema.PolicyException):
        yield from _exception(document.spec, tighten_only=tighten_only)
    else:
        yield from _cases(document.spec)


def _policy(spec: schema.PolicySpec, *, tighten_only: bool) -> Iterator[Flaw]:
    yield from _match(spec.match, ("spec", "match"))
    if spec.exclude:
        yield from _match(spec.exclude, ("spec", "exclude"))
    yield from _decide(spec.decide)
    strict = spec.decide.effect in ("ask", "deny") and not spec.decide.announce
    if tighten_only and not strict and spec.mode == "enforce":
        cause = "a project may only tighten, by ask or deny; the rest belongs into your own home"
        yield ("spec", "decide", "effect"), f"{cause}, or set policy.project to trust"


def _decide(decide: schema.Decide) -> Iterator[Flaw]:
    where: Path = ("spec", "decide")
    lengths = [
        ((*where, "announce"), decide.announce),
        ((*where, "timeout"), decide.timeout),
        ((*where, "grant", "valid_for"), decide.grant.valid_for),
    ]
    lengths += [
        ((*where, "escalate", index, "after"), each.after)
        for index, each in enumerate(decide.escalate)
    ]
    if decide.rate_limit:
        lengths.append(((*where, "rate_limit", "per"), decide.rate_limit.per))
        if decide.rate_limit.max < 1:
            yield (*where, "rate_limit", "max"), "max must be at least 1; to forbid, use deny"
    for path, text in lengths:
        if text:
            yield from _length(path, text)
    if decide.announce and decide.effect != "ask":
        yield (*where, "announce"), f"announce goes with ask, not with {decide.effect}"
    if decide.approvers.count < 1:
        yield (*where, "approvers", "count"), "count must be at least 1; to need nobody, use allow"
    if decide.grant.uses < 1:
        yield (*where, "grant", "uses"), "uses must be at least 1"


def _length(path: Path, text: str) -> Iterator[Flaw]:
    try:
        if seconds(text) <= 0:
            yield path, f"{path[-1]}: {text} is no time at all"
    except ValueError as error:
        yield path, f"{path[-1]}: {error}"


def _exception(spec: schema.ExceptionSpec, *, tighten_only: bool) -> Iterator[Flaw]:
    if tighten_only:
        cause = "a project may only tighten; exceptions belong in the policies of your own home"
        yield ("kind",), f"{cause}, or set policy.project to trust"
    for field in ("owner", "reason"):
        if not getattr(spec, field).strip():
            yield ("spec", field), f"{field} is empty: somebody must answer for an exception"
    if not words(spec.policies):
        yield ("spec", "policies"), "policies is empty: name those it lifts"
    for name in words(spec.policies):
        if name.startswith("floor"):
            yield ("spec", "policies"), f"{name}: the floor cannot be lifted"
    yield from _match(spec.match, ("spec", "match"))


def _match(match: schema.Match, path: Path) -> Iterator[Flaw]:
    if not match.any and not match.all:
        yield path, f"{path[-1]} is empty; `any: [{{}}]` would be everything"
    for key, clauses in (("any", match.any), ("all", match.all)):
        for index, clause in enumerate(clauses):
            yield from _clause(clause, (*path, key, index))


def _clause(clause: schema.Clause, path: Path) -> Iterator[Flaw]:
    for effect in words(clause.effects):
        if effect not in EFFECTS:
            yield (*path, "effects"), f"there is no effect {effect!r}; {suggest(effect, EFFECTS)}"
    for origin in words(clause.actor.origin) if clause.actor else ():
        if origin not in ORIGINS:
            cause = f"there is no origin {origin!r}; {suggest(origin, ORIGINS)}"
            yield (*path, "actor", "origin"), cause
    for key in ("paths", "changes"):
        yield from _paths(getattr(clause, key), (*path, key))
    if clause.when:
        try:
            Condition(clause.when)
        except ValueError as error:
            yield (*path, "when"), f"when: {error}"


def _paths(paths: schema.PathMatch | None, path: Path) -> Iterator[Flaw]:
    if paths is None:
        return
    for key in ("under", "exactly", "like"):
        for each in words(getattr(paths, key)):
            plain = key == "under" and each == "."
            if not plain and not each.startswith(("/", "~", "*")):
                yield (*path, key), f"{each!r}: a path begins with / or ~"
    if not (paths.under or paths.exactly or paths.like):
        yield path, f"{path[-1]} is empty: say under, exactly or like"


def _cases(spec: schema.CasesSpec) -> Iterator[Flaw]:
    for index, case in enumerate(spec.cases):
        path: Path = ("spec", "cases", index)
        if not case.command and not case.tool:
            yield path, "a case needs a command, or a tool with its arguments"
        if case.origin not in ORIGINS:
            cause = f"there is no origin {case.origin!r}; {suggest(case.origin, ORIGINS)}"
            yield (*path, "origin"), cause
        for effect in case.effects:
            if effect not in EFFECTS:
                cause = f"there is no effect {effect!r}; {suggest(effect, EFFECTS)}"
                yield (*path, "effects"), cause
