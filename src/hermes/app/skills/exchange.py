"""The skill exchange of a home: publishing, importing, revocations, and the second reader."""

import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.app.models import ApplicationModels
from hermes.app.skills.claimed_evidence import evidence_lines, replay_evidence
from hermes.app.skills.library import open_library, read_skill_states
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.core.bus import Bus
from hermes.core.events.skills import SkillChanged, SkillMeasured, SkillState
from hermes.core.messages import Value
from hermes.core.protocols import Environment, Journal, PublishEvents
from hermes.learning.exchange_publisher import (
    HomePublisher,
    check_signature,
    shell_effects,
)
from hermes.memory.store import open_journal
from hermes.models.open import ModelConnections
from hermes.settings.load import LoadedSettings
from hermes.skills.compiler.registry import unregister_skill
from hermes.skills.exchange.bundle import (
    BUNDLE_SUFFIX,
    BundleContents,
    EarlierVersion,
    build_bundle,
)
from hermes.skills.exchange.importer import (
    ImportExamination,
    ReportImportProgress,
    ReviewWithModel,
    SkillImporter,
    find_capabilities,
)
from hermes.skills.exchange.index import (
    INDEX_FOLDER,
    PublisherIndex,
    SkillOffer,
    build_published_address,
    check_index_age,
    fetch_bytes,
    fetch_index,
    is_git_source,
    is_http_url,
    parse_index_file,
    summarize_index,
    verify_index,
    write_index_file,
)
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.placement import SkillPlacement, read_visible_files
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    SignedStatement,
    shorten_key,
)
from hermes.skills.format import referenced_snippets
from hermes.skills.history import SkillHistory
from hermes.skills.library import Skill
from hermes.skills.lifecycle.status import change_state
from hermes.skills.scanner.finding import ScanFinding, SkillFile
from hermes.skills.scanner.model_review import review_with_model


def open_second_reader(loaded: LoadedSettings) -> ReviewWithModel | None:
    reference = loaded.settings.skills.second_reader
    if not reference:
        return None

    async def read(entries: Sequence[SkillFile]) -> list[ScanFinding]:
        timeout_s = loaded.settings.store.patience
        async with (
            open_journal(loaded.store, timeout_s=timeout_s) as journal,
            ModelConnections() as connections,
        ):
            return await review_with_model(
                entries, ApplicationModels(loaded, connections, Bus(journal)).open(reference)
            )

    return read


class SubscribedIndex(Value, kw_only=True, frozen=True):
    index: PublisherIndex
    key: str
    statements: tuple[SignedStatement, ...] = ()
    warning: str = ""

    def statements_of_kind(self, kind: str) -> list[SignedStatement]:
        return [each for each in self.statements if each.kind == kind]


def open_subscribed_index(
    data: bytes, keyring: Keyring, *, warn_days: int, most_days: int
) -> SubscribedIndex:
    """Raises `Refused`. Revocations are applied even when the index itself is not trusted."""
    listing = parse_index_file(data)
    index = verify_index(listing, check_signature)
    apply_statements(listing.statements, keyring)
    publisher = keyring.state.publishers.get(index.publisher)
    keyring.check_key(listing.index.key)
    if publisher is not None:
        verify_index(listing, check_signature, publisher.key)
    warning = check_index_age(index, warn_days=warn_days, max_days=most_days)
    keyring.check_index(index.publisher, listing.index.key, summarize_index(listing, index))
    return SubscribedIndex(
        index=index, key=listing.index.key, statements=listing.statements, warning=warning
    )


def apply_statements(statements: Sequence[SignedStatement], keyring: Keyring) -> list[str]:
    """Apply key changes first, as lists of revocations may be signed by the new key.

    Returns why statements were ignored: the server of an index can put anything into it.
    """
    refused: list[str] = []
    for kind, take in (("rotation", keyring.rotate), ("revocations", keyring.apply_revocations)):
        for each in statements:
            if each.kind != kind:
                continue
            try:
                take(each, check_signature)
            except ExchangeError as why:
                refused.append(str(why))
    return refused


@asynccontextmanager
async def cloned_repository(loaded: LoadedSettings, source: str) -> AsyncIterator[Path]:
    """A git repository that contains an index, for as long as the block lasts."""
    from hermes.app.tools.tooling import environment_options
    from hermes.environments.local import LocalEnvironment

    with tempfile.TemporaryDirectory(prefix="hermes-skills-") as temporary:
        folder = Path(temporary)
        address = shlex.quote(source.removeprefix("git+"))
        command = (
            "GIT_TERMINAL_PROMPT=0 git -c core.hooksPath=/dev/null -c protocol.ext.allow=never "
            f"-c core.symlinks=false clone -q --depth 1 -- {address} repository"
        )
        async with LocalEnvironment(
            folder, environment_options(loaded, folder).variables
        ) as environment:
            ran = await environment.run(command, timeout=120.0)
        if ran.exit_code != 0:
            raise ExchangeError(f"{source} could not be cloned: {ran.output.strip()[-400:]}")
        yield folder / "repository"


EXCHANGE_FOLDER = "exchange"
MEASUREMENTS_FILE = "measured.jsonl"


class SkillExchange(HomePublisher):
    """One home as a publisher and as a subscriber."""

    def __init__(self, loaded: LoadedSettings) -> None:
        super().__init__(loaded.home / EXCHANGE_FOLDER)
        self._loaded = loaded
        self.root = loaded.home / "skills"
        self.keyring = Keyring(self.folder)
        self.warnings: list[str] = []

    def record_shared_facts(self, facts: tuple[str, ...]) -> None:
        """Others may import these facts: those that no longer hold are retracted from now on."""
        self.save(replace(self.publisher_state(), facts=facts))

    def export(self, skill: Skill, evidence: Sequence[SkillMeasured] = (), name: str = "") -> bytes:
        """A bundle of a skill as it is now; other content is another version."""
        publisher, own = self.name(name), self.publisher_state()
        number, digest = own.versions.get(skill.name, (0, ""))
        if digest != skill.digest:
            number += 1
            versions = {**own.versions, skill.name: (number, skill.digest)}
            given = tuple(sorted({*own.given, skill.digest}))
            self.save(replace(own, versions=versions, given=given))
        kept = _bundle_entries(skill)
        lines = [msgspec.json.encode(each) for each in evidence if each.digest == skill.digest]
        proof = SkillFile(path=MEASUREMENTS_FILE, data=b"\n".join(lines))
        goods = BundleContents(
            name=skill.name,
            version=number,
            publisher=publisher,
            skill=kept,
            evidence=(proof,) if lines else (),
            past=self._earlier_versions(skill),
            capabilities=find_capabilities(kept),
        )
        return build_bundle(goods, self.signer())

    def _earlier_versions(self, skill: Skill) -> tuple[EarlierVersion, ...]:
        versions = SkillHistory(skill.folder.parent).versions(skill.name)
        if skill.folder.is_relative_to(self.root):
            versions = SkillHistory(self.root).versions(skill.name)
        earlier = [each for each in versions if each.digest != skill.digest]
        return tuple(EarlierVersion(digest=v.digest, reason=v.reason, at=v.at) for v in earlier)

    def publish(
        self,
        folder: Path,
        skills: Sequence[tuple[Skill, bytes]],
        facts: Sequence[SignedStatement] = (),
    ) -> Path:
        """Bundles, index and statements as a folder that any web server can serve."""
        index_folder = folder / INDEX_FOLDER
        index_folder.mkdir(parents=True, exist_ok=True)
        offers = []
        for skill, data in skills:
            version = self.publisher_state().versions[skill.name][0]
            file = f"{skill.name}-{version}{BUNDLE_SUFFIX}"
            (index_folder / file).write_bytes(data)
            offers.append(
                SkillOffer(
                    name=skill.name,
                    version=version,
                    digest=skill.digest,
                    file=file,
                    size=len(data),
                    description=skill.description[:300],
                )
            )
        own = replace(self.publisher_state(), index_number=self.publisher_state().index_number + 1)
        self.save(own)
        index = PublisherIndex(
            publisher=own.publisher,
            number=own.index_number,
            made=datetime.now(UTC),
            skills=tuple(offers),
        )
        received = [each for one in self.keyring.state.publishers.values() for each in one.said]
        statements = [*self.statements(), *received, *facts]
        return write_index_file(folder, index, statements, self.signer())

    def revoke(
        self, *, digests: Sequence[str] = (), keys: Sequence[str] = (), announce: bool = False
    ) -> bool:
        """Revoke here at once; True when the next index also contains it.

        Our own skills always, those of others with `announce`, for homes that made us an issuer.
        """
        self.keyring.revoke(keys=tuple(keys), digests=tuple(digests))
        return self.list_revoked(digests, keys, every=announce)

    def open_importer(
        self, say: ReportImportProgress, *, sandbox: bool = True, prove: bool = True
    ) -> SkillImporter:
        return SkillImporter(
            self.root,
            self.keyring,
            check_signature,
            open_sandbox=self._open_sandbox if sandbox else None,
            read_effects=shell_effects,
            rerun_evidence=replay_evidence if prove else None,
            review_with_model=open_second_reader(self._loaded),
            report_progress=say,
        )

    async def read_index(self, base: str) -> SubscribedIndex:
        """The index of an address or folder; its statements are applied first. Raises `Refused`."""
        settings = self._loaded.settings.skills
        looked = open_subscribed_index(
            await fetch_index(base),
            self.keyring,
            warn_days=settings.index_warn_days,
            most_days=settings.index_most_days,
        )
        if looked.warning and looked.warning not in self.warnings:
            self.warnings.append(looked.warning)
        return looked

    async def fetch_bundles(self, source: str, names: Sequence[str] = ()) -> AsyncIterator[bytes]:
        """Bundles of a file, a folder, a git repository or an address; of an index, those named."""
        if is_git_source(source):
            async with cloned_repository(self._loaded, source) as folder:
                async for data in self.fetch_bundles(str(folder), names):
                    yield data
        elif _is_file(source):
            yield await fetch_bytes(source)
        else:
            index = (await self.read_index(source)).index
            wanted = [each for each in index.skills if not names or each.name in names]
            if not wanted:
                offered = ", ".join(each.name for each in index.skills) or "nothing"
                raise ExchangeError(f"{source} offers {offered}, and none of {', '.join(names)}")
            for offer in wanted:
                yield await fetch_bytes(build_published_address(source, offer.file))

    def _open_sandbox(
        self, variables: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Environment]:
        from hermes.environments.sandbox import SandboxEnvironment

        settings = replace(
            self._loaded.settings.terminal, cwd="", network=False, memory_mb=512, processes=64
        )
        return SandboxEnvironment(None, variables, settings=settings)


async def record_import(
    journal: Journal, run: str, examined: ImportExamination, placed: SkillPlacement, by: str
) -> None:
    """A draft, whatever its state elsewhere."""
    manifest = examined.bundle.manifest
    await journal.append(
        SkillChanged(
            run=run,
            skill=placed.folder,
            digest=placed.digest,
            state="draft",
            parents=placed.parents,
            evidence=evidence_lines(examined.proven),
            reason=f"{placed.how}: {manifest.publisher} version {manifest.version}, "
            f"key {shorten_key(examined.bundle.key)}",
            by=by,
        )
    )


async def read_measurements(journal: Journal, skill: str) -> list[SkillMeasured]:
    found = [r.event async for r in journal.read(kinds=("skill.measured",))]
    return [each for each in found if isinstance(each, SkillMeasured) and each.skill == skill]


def _bundle_entries(skill: Skill) -> tuple[SkillFile, ...]:
    """Its own files, and those its playbook uses: another home has other skills, or none."""
    own = read_visible_files(skill.folder)
    lent = [
        SkillFile(path=name, data=file.read_bytes(), executable=bool(file.stat().st_mode & 0o100))
        for name, file in referenced_snippets(skill.folder)
    ]
    return (*own, *lent)


def _is_file(source: str) -> bool:
    return source.endswith(BUNDLE_SUFFIX) if is_http_url(source) else Path(source).is_file()


UNAFFECTED_STATES: tuple[SkillState, ...] = ("draft", "retired")
"""States that no responder uses, so there is nothing to demote."""


class DemotedSkill(Value, kw_only=True, frozen=True):
    skill: str
    why: str
    before: SkillState


async def demote_revoked_skills(
    exchange: SkillExchange,
    loaded: LoadedSettings,
    journal: Journal,
    publish: PublishEvents,
    *,
    run: str,
    by: str,
) -> list[DemotedSkill]:
    """Demote to drafts, which no responder runs and no agent calls; each once, also after a
    crash."""
    affected = exchange.keyring.state.find_revoked_skills()
    if not affected:
        return []
    library = open_library(loaded, None, await read_skill_states(journal))
    lifecycle = SkillLifecycle(loaded, journal, publish, lambda: library)
    demoted: list[DemotedSkill] = []
    for skill, why in affected.items():
        status = await lifecycle.status(skill)
        if status.state not in UNAFFECTED_STATES:
            await publish(change_state(status, "draft", run=run, by=by, reason=why))
        unregister_skill(exchange.root, skill)
        exchange.keyring.mark_revoked(skill, why)
        demoted.append(DemotedSkill(skill=skill, why=why, before=status.state))
    return demoted
