"""Loads policy documents from YAML, and finds their problems with file and line."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec

from hermes.core.events.base import RunOrigin
from hermes.core.messages import Value
from hermes.plumbing.problems import Problem, suggest_name
from hermes.plumbing.units import parse_duration
from hermes.plumbing.yaml_document import YamlDocument, read_yaml_documents
from hermes.policy.commands.effects import CommandEffect
from hermes.policy.rules import schema
from hermes.policy.rules.conditions import CelCondition
from hermes.policy.rules.rule import expiry_time
from hermes.policy.rules.schema import (
    API_VERSION,
    DOCUMENT_KINDS,
    KeyPath,
    PolicyDocument,
    SchemaProblem,
    as_words,
    schema_problems,
)

COMMAND_EFFECTS = tuple(get_args(CommandEffect))
RUN_ORIGINS = tuple(get_args(RunOrigin))
_VALID_NAME = re.compile(r"[a-z0-9][a-z0-9._:-]{0,99}")


def semantic_problems(
    document: schema.PolicyDocument, *, tighten_only: bool = False
) -> Iterator[SchemaProblem]:
    name = document.metadata.name
    if not _VALID_NAME.fullmatch(name):
        yield ("metadata", "name"), f"the name {name!r} is not made of a-z, 0-9, '-', '.', '_', ':'"
    if name in ("floor", "default-asks", "default-reads", "tainted-asks"):
        yield ("metadata", "name"), f"{name} is what holds without any file; take another name"
    if isinstance(document, schema.ActionPolicy):
        yield from _policy_problems(document.spec, tighten_only=tighten_only)
    elif isinstance(document, schema.PolicyException):
        yield from _exception_problems(document.spec, tighten_only=tighten_only)
    else:
        yield from _case_problems(document.spec)


def _policy_problems(spec: schema.PolicySpec, *, tighten_only: bool) -> Iterator[SchemaProblem]:
    yield from _match_problems(spec.match, ("spec", "match"))
    if spec.exclude:
        yield from _match_problems(spec.exclude, ("spec", "exclude"))
    yield from _decide_problems(spec.decide)
    strict = spec.decide.effect in ("ask", "deny") and not spec.decide.announce
    if tighten_only and not strict and spec.mode == "enforce":
        cause = "a project may only tighten, by ask or deny; the rest belongs into your own home"
        yield ("spec", "decide", "effect"), f"{cause}, or set policy.project to trust"


def _decide_problems(decide: schema.DecideSection) -> Iterator[SchemaProblem]:
    where: KeyPath = ("spec", "decide")
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
            yield from _duration_problems(path, text)
    if decide.announce and decide.effect != "ask":
        yield (*where, "announce"), f"announce goes with ask, not with {decide.effect}"
    if decide.approvers.count < 1:
        yield (*where, "approvers", "count"), "count must be at least 1; to need nobody, use allow"
    if decide.grant.uses < 1:
        yield (*where, "grant", "uses"), "uses must be at least 1"


def _duration_problems(path: KeyPath, text: str) -> Iterator[SchemaProblem]:
    try:
        if parse_duration(text) <= 0:
            yield path, f"{path[-1]}: {text} is no time at all"
    except ValueError as error:
        yield path, f"{path[-1]}: {error}"


def _exception_problems(
    spec: schema.ExceptionSpec, *, tighten_only: bool
) -> Iterator[SchemaProblem]:
    if tighten_only:
        cause = "a project may only tighten; exceptions belong in the policies of your own home"
        yield ("kind",), f"{cause}, or set policy.project to trust"
    for field in ("owner", "reason"):
        if not getattr(spec, field).strip():
            yield ("spec", field), f"{field} is empty: somebody must answer for an exception"
    if not as_words(spec.policies):
        yield ("spec", "policies"), "policies is empty: name those it lifts"
    for name in as_words(spec.policies):
        if name.startswith("floor"):
            yield ("spec", "policies"), f"{name}: the floor cannot be lifted"
    yield from _match_problems(spec.match, ("spec", "match"))


def _match_problems(match: schema.PolicyMatch, path: KeyPath) -> Iterator[SchemaProblem]:
    if not match.any and not match.all:
        yield path, f"{path[-1]} is empty; `any: [{{}}]` would be everything"
    for key, clauses in (("any", match.any), ("all", match.all)):
        for index, clause in enumerate(clauses):
            yield from _clause_problems(clause, (*path, key, index))


def _clause_problems(clause: schema.MatchClause, path: KeyPath) -> Iterator[SchemaProblem]:
    for effect in as_words(clause.effects):
        if effect not in COMMAND_EFFECTS:
            yield (
                (*path, "effects"),
                f"there is no effect {effect!r}; {suggest_name(effect, COMMAND_EFFECTS)}",
            )
    for origin in as_words(clause.actor.origin) if clause.actor else ():
        if origin not in RUN_ORIGINS:
            cause = f"there is no origin {origin!r}; {suggest_name(origin, RUN_ORIGINS)}"
            yield (*path, "actor", "origin"), cause
    for key in ("paths", "changes"):
        yield from _path_problems(getattr(clause, key), (*path, key))
    if clause.when and isinstance(clause.when, str):
        try:
            CelCondition(clause.when)
        except ValueError as error:
            yield (*path, "when"), f"when: {error}"


def _path_problems(paths: schema.PathMatch | None, path: KeyPath) -> Iterator[SchemaProblem]:
    if paths is None:
        return
    for key in ("under", "exactly", "like"):
        for each in as_words(getattr(paths, key)):
            plain = key == "under" and each == "."
            if not plain and not each.startswith(("/", "~", "*")):
                yield (*path, key), f"{each!r}: a path begins with / or ~"
    if not (paths.under or paths.exactly or paths.like):
        yield path, f"{path[-1]} is empty: say under, exactly or like"


def _case_problems(spec: schema.PolicyTestSpec) -> Iterator[SchemaProblem]:
    for index, case in enumerate(spec.cases):
        path: KeyPath = ("spec", "cases", index)
        if not case.command and not case.tool:
            yield path, "a case needs a command, or a tool with its arguments"
        if case.origin not in RUN_ORIGINS:
            cause = f"there is no origin {case.origin!r}; {suggest_name(case.origin, RUN_ORIGINS)}"
            yield (*path, "origin"), cause
        for effect in case.effects:
            if effect not in COMMAND_EFFECTS:
                cause = f"there is no effect {effect!r}; {suggest_name(effect, COMMAND_EFFECTS)}"
                yield (*path, "effects"), cause


_MAX_FILE_BYTES = 2 * 1024 * 1024


class LocatedDocument(Value, frozen=True):
    """A document with its file and line."""

    document: PolicyDocument
    file: str
    line: int

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}"


class LoadedDocuments(Value, kw_only=True, frozen=True):
    documents: tuple[LocatedDocument, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: "LoadedDocuments") -> "LoadedDocuments":
        return LoadedDocuments(
            documents=self.documents + other.documents, problems=self.problems + other.problems
        )


def load_folder(folder: Path, *, tighten_only: bool = False) -> LoadedDocuments:
    """All `*.yaml` and `*.yml` files below a folder; none if it does not exist."""
    found = LoadedDocuments()
    if folder.is_dir():
        for file in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
            found += load_file(file, tighten_only=tighten_only)
    return found


def load_file(file: Path, *, tighten_only: bool = False) -> LoadedDocuments:
    try:
        data = file.read_bytes()
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError("larger than any policy a person wrote")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        return LoadedDocuments(problems=(Problem(str(file), 1, f"cannot be read: {error}"),))
    return load_text(text, str(file), tighten_only=tighten_only)


def load_text(text: str, file: str, *, tighten_only: bool = False) -> LoadedDocuments:
    raws, problems = read_yaml_documents(text, file)
    documents: list[LocatedDocument] = []
    for raw in raws:
        found = list(_document_problems(raw, tighten_only=tighten_only))
        problems += found
        if not found:
            kind = DOCUMENT_KINDS[raw.data["kind"]]
            documents.append(LocatedDocument(msgspec.convert(raw.data, kind), file, raw.line))
    return LoadedDocuments(documents=tuple(documents), problems=tuple(problems))


def check_documents_together(
    documents: Sequence[LocatedDocument], now: datetime | None = None
) -> Iterator[Problem]:
    """Problems that depend on other documents or on the date."""
    now = now or datetime.now(UTC)
    first: dict[tuple[str, str], LocatedDocument] = {}
    for located in documents:
        document = located.document
        name = (document.kind, document.metadata.name)
        if name in first:
            cause = f"{name[0]} {name[1]!r} is there already: {first[name].source}"
            yield Problem(located.file, located.line, cause)
        first.setdefault(name, located)
        if (
            isinstance(document, schema.PolicyException)
            and expiry_time(document.spec.expires) <= now
        ):
            cause = f"the exception {name[1]!r} has expired and counts no more: renew or remove it"
            yield Problem(located.file, located.line, cause, fatal=False)


def _document_problems(raw: YamlDocument, *, tighten_only: bool) -> Iterator[Problem]:
    data = raw.data
    if not isinstance(data, dict):
        yield raw.problem((), "expected a document with apiVersion, kind, metadata and spec")
        return
    kind = DOCUMENT_KINDS.get(str(data.get("kind", "")))
    if kind is None:
        given = str(data.get("kind", "nothing"))
        cause = f"kind: {given} is not one we know; {suggest_name(given, list(DOCUMENT_KINDS))}"
        yield raw.problem(("kind",), cause)
        return
    if data.get("apiVersion") != API_VERSION:
        yield raw.problem(("apiVersion",), f"apiVersion: must be {API_VERSION}")
    _apply_defaults(data.get("spec"))
    shape = list(schema_problems(kind, data))
    for path, cause in shape:
        yield raw.problem(path, cause)
    if shape:
        return
    document = msgspec.convert(data, kind)
    for path, cause in semantic_problems(document, tighten_only=tighten_only):
        yield raw.problem(path, cause)


def _apply_defaults(spec: Any) -> None:
    """Sets expiry days to their end, and adds the defaults of a PolicyTest to its cases."""
    if not isinstance(spec, dict):
        return
    expires = spec.get("expires")
    if isinstance(expires, date):
        spec["expires"] = expiry_time(expires)
    defaults, cases = spec.get("defaults"), spec.get("cases")
    if isinstance(defaults, dict) and isinstance(cases, list):
        spec["cases"] = [{**defaults, **case} if isinstance(case, dict) else case for case in cases]
