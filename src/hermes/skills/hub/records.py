"""What was installed from hubs at which commit, accepted findings, and known catalogs."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, write_atomically
from hermes.skills.exchange.signed_statements import ExchangeError
from hermes.skills.hub.source import SkillSource
from hermes.skills.scanner.finding import ScanFinding

HUB_FILE = "hub.json"
HUB_LOCK = "hub.lock"
CATALOG_FOLDER = "catalogs"
EXAMINATION_FILE = "examination.json"
CATALOG_AGE = timedelta(hours=24)
T = TypeVar("T")


class HubPin(Value, kw_only=True, frozen=True):
    """Where an installed skill came from."""

    source: SkillSource
    publisher: str
    commit: str = ""
    digest: str
    """Of the files as they came."""
    earlier: tuple[str, ...] = ()
    """Digests of what came from there before."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class AcceptedFinding(Value, kw_only=True, frozen=True):
    """A finding that a person accepted, for one digest and no other."""

    kind: str
    file: str
    line: int
    cause: str
    reason: str
    by: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def covers(self, finding: ScanFinding) -> bool:
        return (self.kind, self.file, self.line, self.cause) == (
            finding.kind,
            finding.file,
            finding.line,
            finding.cause,
        )


class HubState(Value, kw_only=True, frozen=True):
    installed: dict[str, HubPin] = {}
    """By the folder of the skill."""
    accepted: dict[str, tuple[AcceptedFinding, ...]] = {}
    """By the digest of the skill."""


class QuarantinedSkill(Value, kw_only=True, frozen=True):
    """What stopped a skill, kept beside it in quarantine."""

    name: str
    digest: str
    source: str
    findings: tuple[ScanFinding, ...]


class CatalogEntry(Value, kw_only=True, frozen=True):
    name: str
    description: str
    path: str = ""


class HubCatalog(Value, kw_only=True, frozen=True):
    """The skills that a hub offered when it was last asked."""

    hub: str
    commit: str = ""
    at: datetime
    skills: tuple[CatalogEntry, ...] = ()

    def is_fresh(self, now: datetime) -> bool:
        return timedelta(0) <= now - self.at < CATALOG_AGE


class HubRecords:
    """Stored in files of the home; each change reads the file again under a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def state(self) -> HubState:
        return _read_file(self._folder / HUB_FILE, HubState) or HubState()

    def lock(self) -> FileLock:
        return FileLock(self._folder / HUB_LOCK)

    def record_install(self, folder: str, pin: HubPin) -> None:
        known = self.state()
        self._save(replace(known, installed={**known.installed, folder: pin}))

    def accept(self, skill: QuarantinedSkill, numbers: Iterable[int], reason: str, by: str) -> None:
        """Raises `ExchangeError` for a number that no finding has, or without a reason."""
        if not reason.strip():
            raise ExchangeError("why is it acceptable? Say it with --reason")
        with self.lock():
            known = self.state()
            new = list(known.accepted.get(skill.digest, ()))
            for number in numbers:
                if not 1 <= number <= len(skill.findings):
                    count = len(skill.findings)
                    raise ExchangeError(f"{skill.name} has findings 1 to {count}, and no {number}")
                one = skill.findings[number - 1]
                new = [each for each in new if not each.covers(one)]
                new.append(
                    AcceptedFinding(
                        kind=one.kind,
                        file=one.file,
                        line=one.line,
                        cause=one.cause,
                        reason=" ".join(reason.split())[:500],
                        by=by,
                    )
                )
            self._save(replace(known, accepted={**known.accepted, skill.digest: tuple(new)}))

    def apply_accepted(self, digest: str, findings: Iterable[ScanFinding]) -> list[ScanFinding]:
        """The same findings; those that a person accepted for this digest no longer block."""
        accepted = self.state().accepted.get(digest, ())
        found = list(findings)
        for number, each in enumerate(found):
            if each.blocks and any(one.covers(each) for one in accepted):
                found[number] = replace(each, blocks=False)
        return found

    def _save(self, known: HubState) -> None:
        data = msgspec.json.format(msgspec.json.encode(known), indent=1)
        _write_file(self._folder / HUB_FILE, data)

    def read_catalog(self, hub: str) -> HubCatalog | None:
        try:
            return _read_file(self._catalog_file(hub), HubCatalog)
        except ExchangeError:
            return None  # it is fetched again

    def write_catalog(self, catalog: HubCatalog) -> None:
        _write_file(self._catalog_file(catalog.hub), msgspec.json.encode(catalog))

    def _catalog_file(self, hub: str) -> Path:
        return self._folder / CATALOG_FOLDER / f"{re.sub(r'[^A-Za-z0-9.-]', '+', hub)[:150]}.json"


def write_examination(folder: Path, skill: QuarantinedSkill) -> None:
    """Beside the folder of a skill in quarantine."""
    _write_file(folder.parent / EXAMINATION_FILE, msgspec.json.encode(skill))


def list_quarantine(quarantine: Path) -> list[QuarantinedSkill]:
    """The newest last."""
    files = sorted(quarantine.glob(f"*/{EXAMINATION_FILE}"), key=lambda each: each.stat().st_mtime)
    read = (_read_file(each, QuarantinedSkill) for each in files)
    return [each for each in read if each is not None]


def _read_file(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExchangeError(f"{path} is damaged ({error}); repair or remove it") from error


def _write_file(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise ExchangeError(f"{path} cannot be written: {error.strerror}") from error
