"""The way in: verified, put aside, read, compared, tried among canaries, proven, then placed."""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import Bundle, read_bundle
from hermes.skills.exchange.capabilities import Difference, capabilities_of, difference
from hermes.skills.exchange.claims import claimed
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.placing import Placed, find_place
from hermes.skills.exchange.sealing import Check
from hermes.skills.format.digest import hidden
from hermes.skills.format.skill_text import read_skill
from hermes.skills.history import History
from hermes.skills.lint import lint
from hermes.skills.scanner.finding import Entry, Finding, Ruling, entries_of, ruling_of
from hermes.skills.scanner.scan import scan
from hermes.skills.scanner.shell_text import Effects
from hermes.skills.scanner.trial import Places, try_scripts

QUARANTINE = ".quarantine"
UNSEEN = "a hidden file: it is not in a skill's digest, so nobody would see it change"
Outcome = Literal["passed", "failed", "not-run"]


class Proven(Value, frozen=True):
    """What the publisher's evidence is worth here. Without a pass it stays a draft."""

    outcome: Outcome
    detail: str = ""
    cases: tuple[str, ...] = ()
    """What its publisher claims: the gate plays what did not hold, or was not played."""
    harm: tuple[str, ...] = ()
    """What it damaged while they were played."""


Rerun = Callable[[Path, Sequence[Entry]], Awaitable[Proven]]
"""Plays the evidence of a skill's folder again."""
SecondReader = Callable[[Sequence[Entry]], Awaitable[list[Finding]]]
"""A model that reads what the rules let through."""
Told = Callable[[str], None]


class Examined(Value, kw_only=True, frozen=True):
    """Everything that is known of a bundle before it may be used."""

    bundle: Bundle
    folder: Path
    """Where it lies in quarantine."""
    new_publisher: bool
    findings: tuple[Finding, ...] = ()
    difference: Difference = Difference()
    proven: Proven = Proven("not-run")
    tried: bool = False
    """Its scripts ran in the sandbox, or it has none."""

    @property
    def blocked(self) -> bool:
        """Evidence that does not hold makes it a draft that says so; harm keeps it out."""
        return self.ruling == "stopped"

    @property
    def ruling(self) -> Ruling:
        return "stopped" if self.proven.harm else ruling_of(self.findings)


@dataclass(frozen=True)
class Gatehouse:
    """Where foreign skills are examined; everything from other rooms comes as a callable."""

    root: Path
    """The folder of a person's skills."""
    keyring: Keyring
    check: Check
    places: Places | None = None
    effects: Effects | None = None
    rerun: Rerun | None = None
    second: SecondReader | None = None
    say: Told = lambda _: None

    async def examine(self, data: bytes, existing: Path | None = None) -> Examined:
        """Raises `Refused` when it is not even what its publisher signed."""
        bundle = read_bundle(data, self.check)
        known = self.keyring.admit(bundle)
        self.say(f"verified: {bundle.manifest.name} {bundle.manifest.version}")
        folder = self._put_aside(bundle)
        findings = list(self._read(bundle, folder))
        before = capabilities_of(entries_of(existing)) if existing is not None else ()
        found = capabilities_of(bundle.skill)
        tried, proven = False, Proven("not-run", "it did not get that far")
        if self.second is not None and not any(finding.blocks for finding in findings):
            self.say("a model reads it")
            findings += await self.second(bundle.skill)
        if not any(finding.blocks for finding in findings):
            findings += await self._try(bundle)
            tried = self.places is not None
            if not any(finding.blocks for finding in findings):
                proven = await self._prove(bundle, folder)
        return Examined(
            bundle=bundle,
            folder=folder,
            new_publisher=known is None,
            findings=tuple(findings),
            difference=difference(before, found, bundle.manifest.capabilities),
            proven=proven,
            tried=tried,
        )

    def admit(self, examined: Examined, existing: Path | None = None, *, by: str = "") -> Placed:
        """As a draft, whatever its publisher thinks of it. Raises `Refused` for a blocked one."""
        if examined.blocked:
            raise Refused(f"{examined.bundle.manifest.name} stays in quarantine: {examined.folder}")
        placed = find_place(self.root, examined.bundle, existing)
        if placed.how != "same":
            history = History(self.root)
            target = self.root / placed.folder
            if target.is_dir():
                history.record(target, reason="before an import", by=by)
            replace_folder(target, placed.entries)
            source = f"{examined.bundle.manifest.publisher} {examined.bundle.manifest.version}"
            history.record(target, reason=f"{placed.how} from {source}", by=by)
        self.keyring.accept(examined.bundle, "" if placed.how == "same" else placed.folder)
        shutil.rmtree(examined.folder, ignore_errors=True)
        return placed

    def _put_aside(self, bundle: Bundle) -> Path:
        manifest = bundle.manifest
        folder = self.root / QUARANTINE / f"{manifest.digest[:12]}" / manifest.name
        replace_folder(folder, bundle.skill)
        return folder

    def _read(self, bundle: Bundle, folder: Path) -> list[Finding]:
        self.say("reading it")
        name = bundle.manifest.name
        found = list(scan(bundle.skill, name, self.effects).findings)
        found += [_structure(each.path, 1, UNSEEN) for each in bundle.skill if hidden(each.path)]
        own = next((each.text for each in bundle.skill if each.path == "SKILL.md"), "")
        problems = [each for each in lint(folder) if each.fatal] if own else []
        found += [_structure(Path(each.file).name, each.line, each.cause) for each in problems]
        if not problems and own and read_skill(own, folder=name).name != name:
            found.append(_structure("SKILL.md", 2, f"it is signed as {name!r} and named otherwise"))
        return found

    async def _try(self, bundle: Bundle) -> list[Finding]:
        if self.places is None:
            return []
        self.say("trying its scripts in a sandbox, among canary secrets")
        return await try_scripts(bundle.skill, self.places)

    async def _prove(self, bundle: Bundle, folder: Path) -> Proven:
        if not bundle.evidence:
            return Proven("not-run", "no evidence came with it")
        if self.rerun is None:
            told = tuple(map(str, claimed(bundle.evidence)))
            return Proven("not-run", "nobody asked for its evidence to be played", told)
        self.say("playing its evidence again")
        return await self.rerun(folder, bundle.evidence)


def replace_folder(folder: Path, entries: Sequence[Entry]) -> None:
    """Written beside it and then put in its place. Names were checked when it was unpacked."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for entry in entries:
        if entry.link:
            continue
        path = fresh / entry.path
        if not path.resolve().is_relative_to(fresh.resolve()):
            raise Refused(f"{entry.path!r} leads out of the skill")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.data)
        path.chmod(0o755 if entry.executable else 0o644)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _structure(file: str, line: int, cause: str) -> Finding:
    return Finding(kind="structure", file=file, line=line, cause=cause)
