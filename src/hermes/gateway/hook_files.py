"""Hooks as files: `hooks/NAME/HOOK.yaml` with a handler, and whether a person trusts exactly these.

A hook is code of the operator that runs without a question, so no other user may be able to change
it, and every change of a file takes the trust away.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from hermes.core.events.operations import HOOKS_FOLDER, HookTrusted, HookUntrusted
from hermes.core.messages import Value
from hermes.gateway.hook_events import event_name_problem, matches_event
from hermes.plumbing.units import parse_duration
from hermes.plumbing.yaml_document import YamlFileError, load_yaml

MANIFEST_NAME = "HOOK.yaml"
PYTHON_HANDLER, PROGRAM_HANDLER = "handler.py", "handler"
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 10.0, 60.0
MAX_HOOK_FILES, MAX_HOOK_BYTES = 200, 4 * 2**20
TRUST_KINDS = ("hook.trusted", "hook.untrusted")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class HookManifest(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The file HOOK.yaml."""

    events: tuple[str, ...]
    """Names such as `incident:opened`; `incident:*` is all of a subject."""
    name: str = ""
    """That of the folder; may be left out."""
    description: str = ""
    timeout: str | float = DEFAULT_TIMEOUT_S
    """Seconds, or a text such as 5s."""
    order: int = 0
    """Hooks of one event run by this number, then by name."""


class Hook(Value, kw_only=True, frozen=True):
    """A hook: one folder of `hooks/`."""

    name: str
    folder: str
    description: str = ""
    events: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    order: int = 0
    handler: str = ""
    """Path of the file that is run."""
    digest: str = ""
    """Of all its files, with their names and modes."""
    problem: str = ""
    """Why it cannot be run, even if it is trusted."""

    def wants(self, event: str) -> bool:
        return any(matches_event(pattern, event) for pattern in self.events)


class TrustRecord(Value, kw_only=True, frozen=True):
    """The last decision of a person about a hook."""

    digest: str = ""
    """Empty: it is not trusted any more."""
    since: int = 0
    """The number of the event."""
    by: str = ""
    reason: str = ""
    """Why it is not trusted any more."""


class HookTrust:
    """The trust in each hook, folded from the events of `TRUST_KINDS`."""

    def __init__(self) -> None:
        self._records: dict[str, TrustRecord] = {}

    def apply(self, seq: int, event: object) -> None:
        match event:
            case HookTrusted():
                record = TrustRecord(digest=event.digest, since=seq, by=event.by)
                self._records[event.hook] = record
            case HookUntrusted():
                reason = event.reason or (f"by {event.by}" if event.by else "")
                self._records[event.hook] = TrustRecord(since=seq, by=event.by, reason=reason)
            case _:
                pass

    def record(self, hook: str) -> TrustRecord:
        return self._records.get(hook, TrustRecord())

    def objection(self, hook: Hook) -> str:
        """Return why the hook does not run; empty when it does."""
        record = self.record(hook.name)
        if hook.problem:
            return hook.problem
        if not record.digest:
            return f"not trusted: {record.reason}" if record.reason else "not trusted yet"
        return "" if record.digest == hook.digest else "its files changed since it was trusted"


def list_hooks(home: Path) -> list[Hook]:
    """All folders of `hooks/`, by name; a broken one has a `problem`."""
    folder = home / HOOKS_FOLDER
    try:
        names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    except OSError:
        return []
    return [read_hook(home, name) for name in names if not name.startswith(".")]


def read_hook(home: Path, name: str) -> Hook:
    folder = home / HOOKS_FOLDER / name
    hook = Hook(name=name, folder=str(folder))
    if not _NAME.fullmatch(name):
        return replace(hook, problem="its name may have lower-case letters, digits, . _ - only")
    try:
        manifest = _read_manifest(folder / MANIFEST_NAME)
        timeout_s = _timeout_s(manifest.timeout)
    except (OSError, ValueError) as error:
        return replace(hook, problem=str(error))
    hook = replace(
        hook,
        description=manifest.description,
        events=manifest.events,
        order=manifest.order,
        timeout_s=timeout_s,
    )
    if manifest.name not in ("", name):
        return replace(hook, problem=f"{MANIFEST_NAME} names it {manifest.name!r}: use its folder")
    for event in manifest.events:
        if problem := event_name_problem(event):
            return replace(hook, problem=f"{MANIFEST_NAME}: {problem}")
    try:
        return replace(hook, handler=_find_handler(folder), digest=digest_hook(folder))
    except (OSError, ValueError) as error:
        return replace(hook, problem=str(error))


def _read_manifest(file: Path) -> HookManifest:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{MANIFEST_NAME} is missing") from None
    try:
        document = load_yaml(text, MANIFEST_NAME)
        manifest = document.convert(document.data, HookManifest)
    except YamlFileError as error:
        raise ValueError(str(error.problem)) from error
    if not manifest.events:
        raise ValueError(f"{MANIFEST_NAME}: events is empty")
    return manifest


def _timeout_s(value: str | float) -> float:
    seconds = parse_duration(value) if isinstance(value, str) else float(value)
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(f"{MANIFEST_NAME}: timeout is above 0 and at most {MAX_TIMEOUT_S:g} s")
    return seconds


def _find_handler(folder: Path) -> str:
    if (folder / PYTHON_HANDLER).is_file():
        return str(folder / PYTHON_HANDLER)
    program = folder / PROGRAM_HANDLER
    if not program.is_file():
        raise ValueError(f"there is neither {PYTHON_HANDLER} nor an executable {PROGRAM_HANDLER}")
    if not os.access(program, os.X_OK):
        raise ValueError(f"{PROGRAM_HANDLER} is not executable: chmod +x {program}")
    return str(program)


def digest_hook(folder: Path) -> str:
    """SHA-256 of its files with their names and modes.

    Raises `ValueError` for a file that another user could change, or that is no plain file.
    """
    _check_owner(folder.parent)
    _check_owner(folder)
    whole, size = hashlib.sha256(), 0
    for number, file in enumerate(_files(folder)):
        found = _check_owner(file)
        size += found.st_size
        if number >= MAX_HOOK_FILES or size > MAX_HOOK_BYTES:
            raise ValueError(f"it has over {MAX_HOOK_FILES} files or {MAX_HOOK_BYTES} bytes")
        name = str(file.relative_to(folder))
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{name!r} {stat.S_IMODE(found.st_mode):o} {content}\n".encode())
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for each in sorted(folder.iterdir()):
        mode = each.lstat().st_mode
        if stat.S_ISDIR(mode):
            _check_owner(each)
            yield from _files(each)
        elif stat.S_ISREG(mode):
            yield each
        else:
            raise ValueError(f"{each.name} is a link or no file: copy what it stands for")


def _check_owner(path: Path) -> os.stat_result:
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise ValueError(f"{path} belongs to another user (uid {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{path} can be changed by others: chmod go-w {path}")
    return found
