"""Loads policies: the built-in set, own files, project files and the allow-list.

An invalid policy is reported with all its problems, and never replaced by a laxer one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.plumbing.problems import Problem, suggest_name
from hermes.policy.actions.written_files import WRITTEN_FILES_NAME as WRITTEN_FILES
from hermes.policy.approvals.always_allowed import exceptions_from_allowlist
from hermes.policy.commands.effects import ALWAYS_DENIED_EFFECTS
from hermes.policy.rules import schema
from hermes.policy.rules.documents import (
    LoadedDocuments,
    LocatedDocument,
    check_documents_together,
    load_file,
    load_folder,
)
from hermes.policy.rules.evaluation import BUILT_IN_RULES, RuleSet
from hermes.policy.rules.matching import NamePatterns
from hermes.policy.rules.rule import (
    AskOptions,
    PolicyRule,
    RuleException,
    compile_exception,
    compile_rule,
)
from hermes.policy.rules.schema import as_words
from hermes.policy.settings import PolicySettings

BUILT_IN_SETS_FOLDER = Path(__file__).parent / "sets"


_PROTECTED_NAMES = (
    *("policies", "config.yaml", ".env", "audit.key", "audit.pub", "audit", "mcp"),
    "states",
    *("hooks", "pairing", "tokens", "tokens.json", "people", "people.yaml", "jobs", "jobs.yaml"),
    *(WRITTEN_FILES, f"{WRITTEN_FILES}-journal", "journal.db"),
)


def protected_paths(
    home: Path, project: Path | None = None, also: Iterable[Path] = ()
) -> tuple[str, ...]:
    """Policy, audit and configuration files, which no tool may change.

    `also` are a journal or a policy folder in other locations.
    """
    own = [*(home / name for name in _PROTECTED_NAMES), *also]
    own += [
        Path(f"{file}{end}")
        for file in (home / _PROTECTED_NAMES[-1], *also)
        for end in ("-wal", "-shm")
    ]
    if project is not None:
        own.append(project / ".hermes" / "policies")
    return tuple(dict.fromkeys(map(str, own)))


@cache
def load_set(name: str) -> LoadedDocuments:
    """A built-in set, read once: it belongs to the code, and reading it took three quarters of the
    time to open a policy without own files."""
    return load_file(BUILT_IN_SETS_FOLDER / f"{name}.yaml")


def load_policies(
    settings: PolicySettings, home: Path, project: Path | None = None
) -> LoadedDocuments:
    """All documents that apply, and all problems."""
    folder = Path(settings.folder).expanduser() if settings.folder else home / "policies"
    found = load_set(settings.set) + load_folder(folder)
    own = project / ".hermes" / "policies" if project is not None else None
    if own is not None and settings.project != "off" and own.resolve() != folder.resolve():
        found += load_folder(own, tighten_only=settings.project == "tighten")
    found += exceptions_from_allowlist(settings.command_allowlist)
    return found + LoadedDocuments(problems=tuple(check_documents_together(found.documents)))


def compile_rule_set(
    documents: Iterable[LocatedDocument], settings: PolicySettings, user_home: str
) -> RuleSet:
    """`user_home` is `~` in a policy."""
    timeout = settings.approval_timeout
    rules: list[PolicyRule] = []
    audits: list[PolicyRule] = []
    exceptions: list[RuleException] = []
    for placed in documents:
        document = placed.document
        if isinstance(document, schema.ActionPolicy):
            if placed.file.startswith(str(BUILT_IN_SETS_FOLDER)):
                document = _with_announce_time(document, settings.announce)
            rule = compile_rule(document, placed.source, home=user_home, timeout=timeout)
            (audits if rule.audit else rules).append(rule)
        elif isinstance(document, schema.PolicyException):
            exceptions.append(compile_exception(document, placed.source, home=user_home))
    return RuleSet(tuple(rules), tuple(audits), tuple(exceptions), AskOptions(timeout=timeout))


def _with_announce_time(document: schema.ActionPolicy, wait: float) -> schema.ActionPolicy:
    """Sets the announcement time of the built-in sets; 0 waits for an answer."""
    if not document.spec.decide.announce:
        return document
    decide = replace(document.spec.decide, announce=f"{wait:g}s" if wait > 0 else "")
    return replace(document, spec=replace(document.spec, decide=decide))


def open_rule_set(
    settings: PolicySettings, home: Path, project: Path | None, user_home: str
) -> tuple[RuleSet, tuple[Problem, ...]]:
    """The rules, and warnings about them. Raises `SettingsError` with every problem, its file and
    its line."""
    found = load_policies(settings, home, project)
    fatal = [problem for problem in found.problems if problem.fatal]
    if fatal:
        raise SettingsError(describe_problems(fatal))
    minor = tuple(problem for problem in found.problems if not problem.fatal)
    return compile_rule_set(found.documents, settings, user_home), minor


def describe_problems(problems: Sequence[Problem]) -> str:
    count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    listed = "\n".join(f"  {problem}" for problem in problems)
    return f"the policy files have {count}; nothing runs until they are fixed:\n{listed}"


def clock_in_timezone(timezone: str) -> Callable[[], datetime]:
    """Raises `SettingsError` for an unknown time zone."""
    if not timezone:
        return lambda: datetime.now().astimezone()
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise SettingsError(f"policy.timezone: there is no time zone {timezone!r}") from error
    return lambda: datetime.now(UTC).astimezone(zone)


def lint_files(paths: Iterable[Path], known: Sequence[LocatedDocument] = ()) -> list[Problem]:
    """All problems of these files; `known` are documents they may refer to, such as a set."""
    found = LoadedDocuments()
    for path in paths:
        found += load_folder(path) if path.is_dir() else load_file(path)
    together = (*known, *found.documents)
    doubts = [
        Problem(placed.file, placed.line, cause, fatal=False)
        for placed in found.documents
        for cause in _document_warnings(placed.document, together)
    ]
    return [*found.problems, *check_documents_together(together), *doubts]


def _document_warnings(
    document: schema.PolicyDocument, together: Sequence[LocatedDocument]
) -> Iterator[str]:
    if isinstance(document, schema.ActionPolicy):
        yield from _policy_warnings(document)
    elif isinstance(document, schema.PolicyException):
        yield from _exception_warnings(document, together)


def _policy_warnings(document: schema.ActionPolicy) -> Iterator[str]:
    spec = document.spec
    clauses = (*spec.match.any, *spec.match.all)
    if spec.decide.effect == "allow":
        for effect in sorted(
            ALWAYS_DENIED_EFFECTS.intersection(*[as_words(c.effects) for c in clauses if c.effects])
        ):
            yield f"it allows {effect}, which the floor denies all the same"
        if any(clause == schema.MatchClause() for clause in clauses):
            yield "it allows everything that no other rule holds: name tools, effects or paths"
        if spec.mode == "audit":
            yield "in audit mode an allow does nothing"
        if spec.decide.approvers != schema.ApproversSection():
            yield "approvers go with ask; an allow asks nobody"
    if spec.decide.effect == "deny" and any(clause == schema.MatchClause() for clause in clauses):
        yield "it denies everything, also looking"


def _exception_warnings(
    document: schema.PolicyException, together: Sequence[LocatedDocument]
) -> Iterator[str]:
    names = [
        placed.document.metadata.name
        for placed in together
        if isinstance(placed.document, schema.ActionPolicy)
    ]
    known = (*BUILT_IN_RULES, *names)
    lifted = as_words(document.spec.policies)
    for name in lifted:
        globs = NamePatterns((name,))
        if not any(globs.matches(each) for each in known):
            yield f"there is no policy {name!r} to lift; {suggest_name(name, known)}"
    if not NamePatterns(lifted).matches("default-asks"):
        yield "it does not lift default-asks: where no other rule allows, it is still asked"
