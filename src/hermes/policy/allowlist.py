"""What a person allowed for good: the seed's `command_allowlist`, and the answers "always".

Both become exceptions for one exact thing, never for a class of things: readable, revocable, and
unable to lift the floor.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.policy import schema
from hermes.policy.deed import fingerprint
from hermes.policy.documents import Loaded, Placed, Problem, load_text
from hermes.policy.rules import Lift, compile_lift

NAME = "always.yaml"
_HEAD = """\
# Actions that somebody answered with "always": each is one exact action, until it expires.
# `hermes policy always` lists them and takes one back; removing its document here does the same.
"""
_FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
_SHOWN = 500


class Allowed(Value, kw_only=True, frozen=True):
    """One thing that needs no approval any more."""

    name: str
    shown: str
    owner: str
    expires: datetime
    source: str


def translate(commands: Iterable[str]) -> Loaded:
    """`command_allowlist` as exceptions. What looks like a pattern is taken word for word."""
    documents: list[Placed] = []
    problems: list[Problem] = []
    for index, command in enumerate(dict.fromkeys(each.strip() for each in commands), start=1):
        place = "command_allowlist"
        if not command:
            problems.append(Problem(file=place, line=index, cause="an empty command"))
            continue
        if "*" in command and " " not in command:
            cause = f"{command!r} is taken as that exact command, not as a pattern"
            problems.append(Problem(file=place, line=index, cause=cause, fatal=False))
        documents.append(Placed(_listed(command), place, index))
    return Loaded(documents=tuple(documents), problems=tuple(problems))


def allow_always(
    file: Path, *, action: str, shown: str, owner: str, days: int, now: datetime | None = None
) -> Allowed:
    """Write down that this exact action needs no approval. `shown` must hold no secret."""
    now = now or datetime.now(UTC)
    expires = (now + timedelta(days=days)).replace(microsecond=0)
    name = f"always-{action[:16]}"
    entry = {
        "apiVersion": schema.VERSION,
        "kind": "PolicyException",
        "metadata": {"name": name, "description": shown[:_SHOWN]},
        "spec": {
            "owner": owner or "somebody",
            "reason": f"answered always on {now:%Y-%m-%d}",
            "expires": expires,
            "policies": ["*"],
            "match": {"any": [{"action": action}]},
        },
    }
    kept = [piece for piece in _pieces(file) if _name_in(piece) != name]
    kept.append(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True))
    _write(file, kept)
    return Allowed(name=name, shown=shown[:_SHOWN], owner=owner, expires=expires, source=str(file))


def list_always(file: Path) -> list[Allowed]:
    """Raises `SettingsError` when the file was broken by hand."""
    return list(_allowed(_load(file).documents))


def lifts_in(file: Path, home: str) -> tuple[Lift, ...]:
    """What the file lifts now. Raises `SettingsError` when it was broken by hand."""
    return tuple(
        compile_lift(placed.document, placed.source, home=home)
        for placed in _load(file).documents
        if isinstance(placed.document, schema.PolicyException)
    )


def list_commands(commands: Iterable[str]) -> list[Allowed]:
    return list(_allowed(translate(commands).documents))


def revoke(file: Path, name: str) -> bool:
    """Take one back; false when there is none of that name."""
    _load(file)
    pieces = _pieces(file)
    kept = [piece for piece in pieces if _name_in(piece) != name]
    if len(kept) == len(pieces):
        return False
    _write(file, kept)
    return True


def _listed(command: str) -> schema.PolicyException:
    name = f"allowlist-{fingerprint(command)[:16]}"
    return schema.PolicyException(
        api_version=schema.VERSION,
        kind="PolicyException",
        metadata=schema.Metadata(name=name, description=command),
        spec=schema.ExceptionSpec(
            owner="command_allowlist",
            reason="listed in command_allowlist",
            expires=_FOREVER,
            policies=("*",),
            match=schema.Match(any=(schema.Clause(command=command),)),
        ),
    )


def _allowed(documents: Iterable[Placed]) -> Iterator[Allowed]:
    for placed in documents:
        document = placed.document
        if isinstance(document, schema.PolicyException):
            yield Allowed(
                name=document.metadata.name,
                shown=document.metadata.description,
                owner=document.spec.owner,
                expires=document.spec.expires,
                source=placed.source,
            )


def _load(file: Path) -> Loaded:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Loaded()
    loaded = load_text(text, str(file))
    if loaded.problems:
        raise SettingsError("\n".join(str(problem) for problem in loaded.problems))
    return loaded


def _pieces(file: Path) -> list[str]:
    """The documents of the file as text: what people wrote around ours stays as it is."""
    _load(file)
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
    return [piece for piece in pieces if _name_in(piece)]


def _name_in(piece: str) -> str:
    loaded = load_text(piece, NAME)
    return loaded.documents[0].document.metadata.name if loaded.documents else ""


def _write(file: Path, pieces: list[str]) -> None:
    """In one step: a reader sees the old file or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = _HEAD + "".join(f"---\n{piece.removeprefix(_HEAD)}" for piece in pieces)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{NAME}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
