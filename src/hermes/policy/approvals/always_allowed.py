"""Exceptions for actions that a person always allows: `command_allowlist` and answers "always".

Each exception is for one exact command or action. It is readable and revocable, and does not lift
what is always denied.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically
from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import dump_yaml
from hermes.policy.actions.action_effects import fingerprint
from hermes.policy.rules import schema
from hermes.policy.rules.documents import LoadedDocuments, LocatedDocument, load_text
from hermes.policy.rules.rule import RuleException, compile_exception

ALWAYS_FILE_NAME = "always.yaml"
_FILE_HEADER = """\
# Actions that somebody answered with "always": each is one exact action, until it expires.
# `hermes policy always` lists them and takes one back; removing its document here does the same.
"""
_NO_EXPIRY = datetime(9999, 12, 31, tzinfo=UTC)
_MAX_SHOWN_CHARS = 500


class AlwaysAllowed(Value, kw_only=True, frozen=True):
    """A command or action that needs no approval any more."""

    name: str
    shown: str
    owner: str
    expires: datetime
    source: str


def exceptions_from_allowlist(commands: Iterable[str]) -> LoadedDocuments:
    """`command_allowlist` as exceptions. Patterns are taken literally."""
    documents: list[LocatedDocument] = []
    problems: list[Problem] = []
    for index, command in enumerate(dict.fromkeys(each.strip() for each in commands), start=1):
        source = "command_allowlist"
        if not command:
            problems.append(Problem(source, index, "an empty command"))
            continue
        if "*" in command and " " not in command:
            cause = f"{command!r} is taken as that exact command, not as a pattern"
            problems.append(Problem(source, index, cause, fatal=False))
        documents.append(LocatedDocument(_exception_for_command(command), source, index))
    return LoadedDocuments(documents=tuple(documents), problems=tuple(problems))


def allow_always(
    file: Path, *, action: str, shown: str, owner: str, days: int, now: datetime | None = None
) -> AlwaysAllowed:
    """Saves that this exact action needs no approval. `shown` must contain no secret."""
    now = now or datetime.now(UTC)
    expires = (now + timedelta(days=days)).replace(microsecond=0)
    name = f"always-{action[:16]}"
    entry = {
        "apiVersion": schema.API_VERSION,
        "kind": "PolicyException",
        "metadata": {"name": name, "description": shown[:_MAX_SHOWN_CHARS]},
        "spec": {
            "owner": owner or "somebody",
            "reason": f"answered always on {now:%Y-%m-%d}",
            "expires": expires,
            "policies": ["*"],
            "match": {"any": [{"action": action}]},
        },
    }
    kept = [piece for piece in _read_document_texts(file) if _document_name(piece) != name]
    kept.append(dump_yaml(entry))
    _write_document_texts(file, kept)
    return AlwaysAllowed(
        name=name, shown=shown[:_MAX_SHOWN_CHARS], owner=owner, expires=expires, source=str(file)
    )


def list_always(file: Path) -> list[AlwaysAllowed]:
    """Raises `SettingsError` when the file is invalid."""
    return list(_always_allowed(_load_always_file(file).documents))


def load_always_exceptions(file: Path, home: str) -> tuple[RuleException, ...]:
    """The current exceptions. Raises `SettingsError` when the file is invalid."""
    return tuple(
        compile_exception(placed.document, placed.source, home=home)
        for placed in _load_always_file(file).documents
        if isinstance(placed.document, schema.PolicyException)
    )


def list_allowlisted_commands(commands: Iterable[str]) -> list[AlwaysAllowed]:
    return list(_always_allowed(exceptions_from_allowlist(commands).documents))


def revoke_always(file: Path, name: str) -> bool:
    """Removes one; false when there is none of that name."""
    _load_always_file(file)
    pieces = _read_document_texts(file)
    kept = [piece for piece in pieces if _document_name(piece) != name]
    if len(kept) == len(pieces):
        return False
    _write_document_texts(file, kept)
    return True


def _exception_for_command(command: str) -> schema.PolicyException:
    name = f"allowlist-{fingerprint(command)[:16]}"
    return schema.PolicyException(
        api_version=schema.API_VERSION,
        kind="PolicyException",
        metadata=schema.DocumentMetadata(name=name, description=command),
        spec=schema.ExceptionSpec(
            owner="command_allowlist",
            reason="listed in command_allowlist",
            expires=_NO_EXPIRY,
            policies=("*",),
            match=schema.PolicyMatch(any=(schema.MatchClause(command=command),)),
        ),
    )


def _always_allowed(documents: Iterable[LocatedDocument]) -> Iterator[AlwaysAllowed]:
    for placed in documents:
        document = placed.document
        if isinstance(document, schema.PolicyException):
            yield AlwaysAllowed(
                name=document.metadata.name,
                shown=document.metadata.description,
                owner=document.spec.owner,
                expires=document.spec.expires,
                source=placed.source,
            )


def _load_always_file(file: Path) -> LoadedDocuments:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return LoadedDocuments()
    loaded = load_text(text, str(file))
    if loaded.problems:
        raise SettingsError("\n".join(str(problem) for problem in loaded.problems))
    return loaded


def _read_document_texts(file: Path) -> list[str]:
    """The documents of the file as text: comments and other documents are kept."""
    _load_always_file(file)
    try:
        lines = file.read_text("utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    pieces = [""]
    for line in lines:
        if line.rstrip() == "---":
            pieces.append("")
        else:
            pieces[-1] += line
    return [piece for piece in pieces if _document_name(piece)]


def _document_name(piece: str) -> str:
    loaded = load_text(piece, ALWAYS_FILE_NAME)
    return loaded.documents[0].document.metadata.name if loaded.documents else ""


def _write_document_texts(file: Path, pieces: list[str]) -> None:
    """Replaces the file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = _FILE_HEADER + "".join(f"---\n{piece.removeprefix(_FILE_HEADER)}" for piece in pieces)
    write_atomically(file, text)
