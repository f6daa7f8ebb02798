"""Opens the gate: built-in set, own files, project files, allow-list; or says all that is wrong."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.policy import schema
from hermes.policy.allowlist import translate
from hermes.policy.documents import Loaded, Placed, Problem, check_together, load_file, load_folder
from hermes.policy.judgement import RuleBook
from hermes.policy.rules import Lift, Rule, compile_lift, compile_rule
from hermes.policy.settings import PolicySettings
from hermes.policy.verdict import Ask
from hermes.policy.written_files import FILE_NAME as WRITTEN_FILES

SETS = Path(__file__).parent / "sets"


_OWN = (
    *("policies", "config.yaml", ".env", "audit.key", "audit.pub", "audit"),
    *(WRITTEN_FILES, f"{WRITTEN_FILES}-journal", "journal.db"),
)


def own_paths(
    home: Path, project: Path | None = None, also: Iterable[Path] = ()
) -> tuple[str, ...]:
    """Files that decide what we may do, or that prove what we did: no tool changes them.

    `also` are a journal or a policy folder that the settings put elsewhere.
    """
    own = [*(home / name for name in _OWN), *also]
    own += [Path(f"{file}{end}") for file in (home / _OWN[-1], *also) for end in ("-wal", "-shm")]
    if project is not None:
        own.append(project / ".hermes" / "policies")
    return tuple(dict.fromkeys(map(str, own)))


def load_set(name: str) -> Loaded:
    return load_file(SETS / f"{name}.yaml")


def gather(settings: PolicySettings, home: Path, project: Path | None = None) -> Loaded:
    """Every document that counts, and every problem there is."""
    folder = Path(settings.folder).expanduser() if settings.folder else home / "policies"
    found = load_set(settings.set) + load_folder(folder)
    own = project / ".hermes" / "policies" if project is not None else None
    if own is not None and settings.project != "off" and own.resolve() != folder.resolve():
        found += load_folder(own, tighten_only=settings.project == "tighten")
    found += translate(settings.command_allowlist)
    return found + Loaded(problems=tuple(check_together(found.documents)))


def compile_book(documents: Iterable[Placed], settings: PolicySettings, user_home: str) -> RuleBook:
    """`user_home` is what `~` means in a policy."""
    timeout = settings.approval_timeout
    rules: list[Rule] = []
    audits: list[Rule] = []
    lifts: list[Lift] = []
    for placed in documents:
        document = placed.document
        if isinstance(document, schema.ActionPolicy):
            if placed.file.startswith(str(SETS)):
                document = _announcing(document, settings.announce)
            rule = compile_rule(document, placed.source, home=user_home, timeout=timeout)
            (audits if rule.audit else rules).append(rule)
        elif isinstance(document, schema.PolicyException):
            lifts.append(compile_lift(document, placed.source, home=user_home))
    return RuleBook(tuple(rules), tuple(audits), tuple(lifts), Ask(timeout=timeout))


def _announcing(document: schema.ActionPolicy, wait: float) -> schema.ActionPolicy:
    """The built-in sets announce for as long as the operator wants; 0 waits for an answer."""
    if not document.spec.decide.announce:
        return document
    decide = replace(document.spec.decide, announce=f"{wait:g}s" if wait > 0 else "")
    return replace(document, spec=replace(document.spec, decide=decide))


def open_book(
    settings: PolicySettings, home: Path, project: Path | None, user_home: str
) -> tuple[RuleBook, tuple[Problem, ...]]:
    """The rules, and what is worth knowing about them. Raises `SettingsError` naming every
    mistake with file and line: a broken policy is never replaced by a laxer one."""
    found = gather(settings, home, project)
    fatal = [problem for problem in found.problems if problem.fatal]
    if fatal:
        raise SettingsError(tell(fatal))
    minor = tuple(problem for problem in found.problems if not problem.fatal)
    return compile_book(found.documents, settings, user_home), minor


def tell(problems: Sequence[Problem]) -> str:
    count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    listed = "\n".join(f"  {problem}" for problem in problems)
    return f"the policy files have {count}; nothing runs until they are mended:\n{listed}"


def clock_in(timezone: str) -> Callable[[], datetime]:
    """Raises `SettingsError` for a zone nobody knows."""
    if not timezone:
        return lambda: datetime.now().astimezone()
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise SettingsError(f"policy.timezone: there is no time zone {timezone!r}") from error
    return lambda: datetime.now(UTC).astimezone(zone)
