"""Joins the exchange of skills to the house: keys, sandbox, shell reader, gym, journal."""

import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.app.exchange_checks import check_signature, rerun_in_gym, seal_of, shell_effects
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillMeasured
from hermes.core.messages import Value
from hermes.core.protocols import Environment, Journal
from hermes.settings.load import Loaded
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import SUFFIX, Goods, Past, make_bundle
from hermes.skills.exchange.capabilities import capabilities_of
from hermes.skills.exchange.importing import Examined, Gatehouse, Told
from hermes.skills.exchange.index import (
    PLACE,
    Index,
    Offer,
    open_index,
    read_listing,
    write_listing,
)
from hermes.skills.exchange.keyring import Keyring, Revocations, Rotation
from hermes.skills.exchange.placing import Placed
from hermes.skills.exchange.sealing import Seal, Sealed, seal, short
from hermes.skills.exchange.transport import beside, fetch, fetch_index, is_address, is_git
from hermes.skills.history import History
from hermes.skills.library import Skill
from hermes.skills.scanner.finding import Entry, entries_of

FOLDER, OWN = "exchange", "own.json"
MEASURED = "measured.jsonl"


class Own(Value, kw_only=True, frozen=True):
    """What this home has said as a publisher."""

    publisher: str = ""
    versions: dict[str, tuple[int, str]] = {}
    rotations: tuple[Sealed, ...] = ()
    number: int = 0
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    index_number: int = 0


class Exchange:
    """One home as a publisher and as a subscriber."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.folder = loaded.home / FOLDER
        self.root = loaded.home / "skills"
        self.keyring = Keyring(self.folder)

    # As a publisher

    def own(self) -> Own:
        try:
            return msgspec.json.decode((self.folder / OWN).read_bytes(), type=Own)
        except FileNotFoundError:
            return Own()
        except msgspec.DecodeError as error:
            raise SettingsError(f"{self.folder / OWN} is damaged: {error}") from error

    def name(self, wanted: str = "") -> str:
        """Of this publisher: chosen once, kept for ever."""
        own = self.own()
        if wanted and own.publisher and wanted != own.publisher:
            raise SettingsError(f"this home publishes as {own.publisher!r} already")
        if not own.publisher:
            own = replace(own, publisher=wanted or platform.node() or "hermes")
            self._keep(own)
        return own.publisher

    def seal(self) -> Seal:
        from hermes.policy.audit_key import open_signer

        self.folder.mkdir(parents=True, exist_ok=True)
        return seal_of(open_signer(self.folder))

    def rotate(self) -> tuple[str, str]:
        """A new key, introduced by the old one; both in short form."""
        from hermes.policy.audit_key import KEY_FILE, PUBLIC_FILE

        old, name = self.seal(), self.name()
        count = len(self.own().rotations) + 1
        (self.folder / KEY_FILE).rename(self.folder / f"{KEY_FILE}.{count}")
        (self.folder / PUBLIC_FILE).unlink(missing_ok=True)
        new = self.seal()
        statement = Rotation(publisher=name, new=new.key, at=datetime.now(UTC))
        own = self.own()
        self._keep(replace(own, rotations=(*own.rotations, seal("rotation", statement, old))))
        return short(old.key), short(new.key)

    def export(self, skill: Skill, evidence: Sequence[SkillMeasured] = (), name: str = "") -> bytes:
        """A bundle of a skill as it stands; other content is another version."""
        publisher, own = self.name(name), self.own()
        number, digest = own.versions.get(skill.name, (0, ""))
        if digest != skill.digest:
            number += 1
            own = replace(own, versions={**own.versions, skill.name: (number, skill.digest)})
            self._keep(own)
        entries = tuple(each for each in entries_of(skill.folder) if not each.link)
        kept = tuple(each for each in entries if not _hidden(each.path))
        goods = Goods(
            name=skill.name,
            version=number,
            publisher=publisher,
            skill=kept,
            evidence=_evidence(evidence, skill.digest),
            past=self._past(skill),
            capabilities=capabilities_of(kept),
        )
        return make_bundle(goods, self.seal())

    def _past(self, skill: Skill) -> tuple[Past, ...]:
        versions = History(skill.folder.parent).versions(skill.name)
        if skill.folder.is_relative_to(self.root):
            versions = History(self.root).versions(skill.name)
        earlier = [each for each in versions if each.digest != skill.digest]
        return tuple(Past(digest=v.digest, reason=v.reason, at=v.at) for v in earlier)

    def publish(
        self, folder: Path, skills: Sequence[tuple[Skill, bytes]], facts: Sequence[Sealed] = ()
    ) -> Path:
        """Bundles, index and statements as a folder that any web server can hand out."""
        place = folder / PLACE
        place.mkdir(parents=True, exist_ok=True)
        offers = []
        for skill, data in skills:
            version = self.own().versions[skill.name][0]
            file = f"{skill.name}-{version}{SUFFIX}"
            (place / file).write_bytes(data)
            offers.append(
                Offer(
                    name=skill.name,
                    version=version,
                    digest=skill.digest,
                    file=file,
                    size=len(data),
                    description=skill.description[:300],
                )
            )
        own = replace(self.own(), index_number=self.own().index_number + 1)
        self._keep(own)
        index = Index(publisher=own.publisher, number=own.index_number, skills=tuple(offers))
        by = self.seal()
        statements = [*own.rotations, *self._revocations(by), *facts]
        return write_listing(folder, index, statements, by)

    def revoke(self, *, digests: Sequence[str] = (), keys: Sequence[str] = ()) -> None:
        """Here at once; for others with the next index, when it is ours to take back."""
        self.keyring.revoke(keys=tuple(keys), digests=tuple(digests))
        own = self.own()
        mine = {digest for _, digest in own.versions.values()}
        ours = [each for each in digests if each in mine]
        if ours:
            listed = tuple(sorted({*own.digests, *ours}))
            self._keep(replace(own, digests=listed, number=own.number + 1))

    def _revocations(self, by: Seal) -> list[Sealed]:
        own = self.own()
        if not own.number:
            return []
        listed = Revocations(
            publisher=own.publisher, number=own.number, digests=own.digests, keys=own.keys
        )
        return [seal("revocations", listed, by)]

    def _keep(self, own: Own) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f".{OWN}.new"
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(own), indent=1))
        unfinished.replace(self.folder / OWN)

    # As a subscriber

    def gatehouse(self, say: Told, *, sandbox: bool = True, prove: bool = True) -> Gatehouse:
        return Gatehouse(
            self.root,
            self.keyring,
            check_signature,
            places=self._place if sandbox else None,
            effects=shell_effects,
            rerun=rerun_in_gym if prove else None,
            say=say,
        )

    async def offers(self, base: str) -> tuple[Index, str]:
        """The index of an address or folder, its statements heeded first."""
        listing = read_listing(await fetch_index(base))
        index = open_index(listing, check_signature)
        publisher = self.keyring.known.publishers.get(index.publisher)
        if publisher is None:
            self.keyring.check_key(listing.index.key)
        else:
            for each in listing.statements:
                if each.kind == "rotation":
                    self.keyring.rotate(each, check_signature)
            open_index(listing, check_signature, self.keyring.find(index.publisher).key)
            for each in listing.statements:
                if each.kind == "revocations":
                    self.keyring.take_back(each, check_signature)
        return index, listing.index.key

    async def statements(self, base: str, kind: str) -> list[Sealed]:
        listing = read_listing(await fetch_index(base))
        return [each for each in listing.statements if each.kind == kind]

    async def gather(self, source: str, names: Sequence[str] = ()) -> AsyncIterator[bytes]:
        """Bundles of a file, a folder, a git repository or an address; of an index, those named."""
        if is_git(source):
            async with self._cloned(source) as folder:
                async for data in self.gather(str(folder), names):
                    yield data
        elif _is_file(source):
            yield await fetch(source)
        else:
            index, _ = await self.offers(source)
            wanted = [each for each in index.skills if not names or each.name in names]
            if not wanted:
                there = ", ".join(each.name for each in index.skills) or "nothing"
                raise Refused(f"{source} offers {there}, and none of {', '.join(names)}")
            for offer in wanted:
                yield await fetch(beside(source, offer.file))

    @asynccontextmanager
    async def _cloned(self, source: str) -> AsyncIterator[Path]:
        import shlex
        import tempfile

        from hermes.app.house import opening
        from hermes.environments.local import LocalEnvironment

        with tempfile.TemporaryDirectory(prefix="hermes-skills-") as made:
            folder = Path(made)
            address = shlex.quote(source.removeprefix("git+"))
            command = (
                "GIT_TERMINAL_PROMPT=0 git -c core.hooksPath=/dev/null -c protocol.ext.allow=never "
                f"-c core.symlinks=false clone -q --depth 1 -- {address} repository"
            )
            async with LocalEnvironment(folder, opening(self._loaded, folder).variables) as place:
                ran = await place.run(command, timeout=120.0)
            if ran.exit_code != 0:
                raise Refused(f"{source} could not be cloned: {ran.output.strip()[-400:]}")
            yield folder / "repository"

    def _place(self, variables: Mapping[str, str]) -> AbstractAsyncContextManager[Environment]:
        from hermes.environments.sandbox import SandboxEnvironment

        settings = replace(
            self._loaded.settings.terminal, cwd="", network=False, memory_mb=512, processes=64
        )
        return SandboxEnvironment(None, variables, settings=settings)


async def record_import(
    journal: Journal, run: str, examined: Examined, placed: Placed, by: str
) -> None:
    """A draft, whatever it was elsewhere."""
    manifest = examined.bundle.manifest
    await journal.append(
        SkillChanged(
            run=run,
            skill=placed.folder,
            digest=placed.digest,
            state="draft",
            parents=placed.parents,
            evidence=(f"{examined.proven.outcome}: {examined.proven.detail}"[:300],),
            reason=f"{placed.how}: {manifest.publisher} version {manifest.version}, "
            f"key {short(examined.bundle.key)}",
            by=by,
        )
    )


async def measured_in(journal: Journal, skill: str) -> list[SkillMeasured]:
    found = [r.event async for r in journal.read(kinds=("skill.measured",))]
    return [each for each in found if isinstance(each, SkillMeasured) and each.skill == skill]


def _evidence(measured: Sequence[SkillMeasured], digest: str) -> tuple[Entry, ...]:
    lines = [msgspec.json.encode(each) for each in measured if each.digest == digest]
    return (Entry(path=MEASURED, data=b"\n".join(lines)),) if lines else ()


def _hidden(path: str) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))


def _is_file(source: str) -> bool:
    return source.endswith(SUFFIX) if is_address(source) else Path(source).is_file()
