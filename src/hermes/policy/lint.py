"""Looks over policy files for what is valid and still not what somebody meant."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hermes.policy import schema
from hermes.policy.commands.values import FLOOR
from hermes.policy.documents import Loaded, Placed, Problem, check_together, load_file, load_folder
from hermes.policy.judgement import OWN_RULES
from hermes.policy.patterns import Globs
from hermes.policy.schema import words
from hermes.policy.shape import suggest


def lint(paths: Iterable[Path], known: Sequence[Placed] = ()) -> list[Problem]:
    """Everything about these files; `known` are documents they may refer to, such as a set."""
    found = Loaded()
    for path in paths:
        found += load_folder(path) if path.is_dir() else load_file(path)
    together = (*known, *found.documents)
    doubts = [
        Problem(file=placed.file, line=placed.line, cause=cause, fatal=False)
        for placed in found.documents
        for cause in _doubts(placed.document, together)
    ]
    return [*found.problems, *check_together(together), *doubts]


def _doubts(document: schema.Document, together: Sequence[Placed]) -> Iterator[str]:
    if isinstance(document, schema.ActionPolicy):
        yield from _policy(document)
    elif isinstance(document, schema.PolicyException):
        yield from _exception(document, together)


def _policy(document: schema.ActionPolicy) -> Iterator[str]:
    spec = document.spec
    clauses = (*spec.match.any, *spec.match.all)
    if spec.decide.effect == "allow":
        for effect in sorted(FLOOR.intersection(*[words(c.effects) for c in clauses if c.effects])):
            yield f"it allows {effect}, which the floor denies all the same"
        if any(clause == schema.Clause() for clause in clauses):
            yield "it allows everything that no other rule holds: name tools, effects or paths"
        if spec.mode == "audit":
            yield "in audit mode an allow does nothing"
        if spec.decide.approvers != schema.Approvers():
            yield "approvers go with ask; an allow asks nobody"
    if spec.decide.effect == "deny" and any(clause == schema.Clause() for clause in clauses):
        yield "it denies everything, also looking"


def _exception(document: schema.PolicyException, together: Sequence[Placed]) -> Iterator[str]:
    names = [
        placed.document.metadata.name
        for placed in together
        if isinstance(placed.document, schema.ActionPolicy)
    ]
    known = (*OWN_RULES, *names)
    lifted = words(document.spec.policies)
    for name in lifted:
        globs = Globs((name,))
        if not any(globs.fits(each) for each in known):
            yield f"there is no policy {name!r} to lift; {suggest(name, known)}"
    if not Globs(lifted).fits("default-asks"):
        yield "it does not lift default-asks: where no other rule allows, it is still asked"
