"""Joins the exchange of skills to the house: keys, sandbox, shell reader, gym, journal."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.app.exchange_checks import check_signature, shell_effects
from hermes.app.exchange_evidence import claims, rerun_in_gym
from hermes.app.exchange_index import Looked, cloned, look_at
from hermes.app.exchange_own import Own, OwnWords
from hermes.app.second_reader import second_reader
from hermes.core.events.skills import SkillChanged, SkillMeasured
from hermes.core.protocols import Environment, Journal
from hermes.settings.load import Loaded
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import SUFFIX, Goods, Past, make_bundle
from hermes.skills.exchange.capabilities import capabilities_of
from hermes.skills.exchange.importing import Examined, Gatehouse, Told
from hermes.skills.exchange.index import PLACE, Index, Offer, write_listing
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.placing import Placed
from hermes.skills.exchange.sealing import Seal, Sealed, short
from hermes.skills.exchange.transport import beside, fetch, fetch_index, is_address, is_git
from hermes.skills.format.digest import hidden
from hermes.skills.format.shared import borrowed
from hermes.skills.history import History
from hermes.skills.library import Skill
from hermes.skills.scanner.finding import Entry, entries_of

FOLDER = "exchange"
MEASURED = "measured.jsonl"


class Exchange:
    """One home as a publisher and as a subscriber."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.folder = loaded.home / FOLDER
        self.root = loaded.home / "skills"
        self.keyring = Keyring(self.folder)
        self.warnings: list[str] = []
        self._said = OwnWords(self.folder)

    def own(self) -> Own:
        return self._said.read()

    def name(self, wanted: str = "") -> str:
        return self._said.name(wanted)

    def seal(self) -> Seal:
        return self._said.seal()

    def rotate(self) -> tuple[str, str]:
        return self._said.rotate()

    def tell_facts(self, facts: tuple[str, ...]) -> None:
        """Others may have these from here: what holds no longer is retracted from now on."""
        self._said.keep(replace(self.own(), facts=facts))

    def export(self, skill: Skill, evidence: Sequence[SkillMeasured] = (), name: str = "") -> bytes:
        """A bundle of a skill as it stands; other content is another version."""
        publisher, own = self.name(name), self.own()
        number, digest = own.versions.get(skill.name, (0, ""))
        if digest != skill.digest:
            number += 1
            versions = {**own.versions, skill.name: (number, skill.digest)}
            given = tuple(sorted({*own.given, skill.digest}))
            self._said.keep(replace(own, versions=versions, given=given))
        kept = _parts(skill)
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
        self._said.keep(own)
        index = Index(
            publisher=own.publisher,
            number=own.index_number,
            made=datetime.now(UTC),
            skills=tuple(offers),
        )
        heard = [each for one in self.keyring.known.publishers.values() for each in one.said]
        statements = [*self._said.statements(), *heard, *facts]
        return write_listing(folder, index, statements, self.seal())

    def revoke(
        self, *, digests: Sequence[str] = (), keys: Sequence[str] = (), announce: bool = False
    ) -> bool:
        """Here at once; True when it is also said in the next index.

        Of what is ours it always is, of what is not only to `announce` it, for those who made us
        an issuer.
        """
        self.keyring.revoke(keys=tuple(keys), digests=tuple(digests))
        return self._said.take_back(digests=digests, keys=keys, every=announce)

    def gatehouse(self, say: Told, *, sandbox: bool = True, prove: bool = True) -> Gatehouse:
        return Gatehouse(
            self.root,
            self.keyring,
            check_signature,
            places=self._place if sandbox else None,
            effects=shell_effects,
            rerun=rerun_in_gym if prove else None,
            second=second_reader(self._loaded),
            say=say,
        )

    async def look(self, base: str) -> Looked:
        """The index of an address or folder, its statements heeded first. Raises `Refused`."""
        settings = self._loaded.settings.skills
        looked = look_at(
            await fetch_index(base),
            self.keyring,
            warn_days=settings.index_warn_days,
            most_days=settings.index_most_days,
        )
        if looked.warning and looked.warning not in self.warnings:
            self.warnings.append(looked.warning)
        return looked

    async def gather(self, source: str, names: Sequence[str] = ()) -> AsyncIterator[bytes]:
        """Bundles of a file, a folder, a git repository or an address; of an index, those named."""
        if is_git(source):
            async with cloned(self._loaded, source) as folder:
                async for data in self.gather(str(folder), names):
                    yield data
        elif _is_file(source):
            yield await fetch(source)
        else:
            index = (await self.look(source)).index
            wanted = [each for each in index.skills if not names or each.name in names]
            if not wanted:
                there = ", ".join(each.name for each in index.skills) or "nothing"
                raise Refused(f"{source} offers {there}, and none of {', '.join(names)}")
            for offer in wanted:
                yield await fetch(beside(source, offer.file))

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
            evidence=claims(examined.proven),
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


def _parts(skill: Skill) -> tuple[Entry, ...]:
    """Its own files, and what its playbook borrows: elsewhere it has other neighbours, or none."""
    own = [each for each in entries_of(skill.folder) if not each.link and not hidden(each.path)]
    lent = [
        Entry(path=name, data=file.read_bytes(), executable=bool(file.stat().st_mode & 0o100))
        for name, file in borrowed(skill.folder)
    ]
    return (*own, *lent)


def _is_file(source: str) -> bool:
    return source.endswith(SUFFIX) if is_address(source) else Path(source).is_file()
