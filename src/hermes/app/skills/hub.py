"""Skills of hubs: searched, fetched, installed at a commit, and compared with what is there now."""

import dataclasses
import shlex
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hermes.app.skills.exchange import SkillExchange
from hermes.core.events.skills import SkillChanged
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings
from hermes.skills.discovery import BUNDLED_SKILLS, read_descriptions
from hermes.skills.exchange.bundle import (
    BUNDLE_LIFETIME,
    BundleManifest,
    SkillBundle,
    compute_files_digest,
)
from hermes.skills.exchange.importer import (
    ImportExamination,
    ReportImportProgress,
    SkillImporter,
    find_capabilities,
)
from hermes.skills.exchange.index import INDEX_FILE, INDEX_FOLDER, is_http_url
from hermes.skills.exchange.placement import SkillPlacement
from hermes.skills.exchange.signed_statements import ExchangeError
from hermes.skills.hub.archive import (
    FoundSkill,
    check_installable,
    find_skills,
    read_folder,
    read_repository_archive,
)
from hermes.skills.hub.client import HubClient
from hermes.skills.hub.records import (
    CatalogEntry,
    HubCatalog,
    HubPin,
    HubRecords,
    QuarantinedSkill,
    write_examination,
)
from hermes.skills.hub.source import SkillSource, parse_source

OWN_HUB = "hermes"
GIT_TIMEOUT_S = 300.0
_GIT_OPTIONS = (
    "-c core.hooksPath=/dev/null -c protocol.ext.allow=never -c core.fsmonitor=false "
    "-c credential.helper="
)


class SignedSource(ExchangeError):
    """It holds signed bundles, which are imported by their index."""


class HubSkill(Value, kw_only=True, frozen=True):
    """A skill as a hub offers it now."""

    found: FoundSkill
    source: SkillSource
    commit: str = ""

    @property
    def digest(self) -> str:
        return compute_files_digest(self.found.files)


class SearchResult(Value, kw_only=True, frozen=True):
    name: str
    description: str
    hub: str
    source: str
    """What `hermes skills install` takes."""


class UpdateStatus(Value, kw_only=True, frozen=True):
    name: str
    source: str
    commit: str
    newest: str = ""
    status: Literal["current", "outdated", "pinned", "unknown"]
    why: str = ""


class SkillHub:
    """The hubs of a home. What cannot be reached is named in `warnings`, and the rest works."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._settings = loaded.settings.skills
        self.exchange = SkillExchange(loaded)
        self.records = HubRecords(self.exchange.folder)
        sites = tuple(each for each in self._settings.hubs if is_http_url(each))
        token = loaded.secrets.get("GITHUB_TOKEN") or ""
        self._client = HubClient(self._settings.github_api, token=token, local=sites)
        self.warnings: list[str] = []

    async def search(self, words: Sequence[str], *, refresh: bool = False) -> list[SearchResult]:
        """Skills whose name or description contains all words, from all hubs."""
        wanted = [word.casefold() for word in words]
        found: list[SearchResult] = []
        for catalog in await self._read_catalogs(refresh=refresh):
            for each in catalog.skills:
                text = f"{each.name} {each.description}".casefold()
                if all(word in text for word in wanted):
                    found.append(_search_result(catalog, each))
        return sorted(found, key=lambda each: (wanted != [each.name], each.name, each.hub))

    async def find_by_name(self, name: str) -> list[SearchResult]:
        return [each for each in await self.search([name]) if each.name == name]

    async def _read_catalogs(self, *, refresh: bool) -> list[HubCatalog]:
        now = datetime.now(UTC)
        own = tuple(
            CatalogEntry(name=name, description=text)
            for name, text in read_descriptions([BUNDLED_SKILLS])
        )
        found = [HubCatalog(hub=OWN_HUB, at=now, skills=own)]
        for hub in self._settings.hubs:
            known = self.records.read_catalog(hub)
            if known is None or refresh or not known.is_fresh(now):
                try:
                    known = await self._fetch_catalog(hub)
                    self.records.write_catalog(known)
                except ExchangeError as error:
                    age = f"; shown as of {known.at:%Y-%m-%d}" if known else ""
                    self.warnings.append(f"{hub}: {error}{age}")
            found += [known] if known else []
        return found

    async def _fetch_catalog(self, hub: str) -> HubCatalog:
        offered = await self.fetch(parse_hub(hub), contents=False)
        commit = next((each.commit for each in offered), "")
        entries = tuple(
            CatalogEntry(
                name=each.found.name,
                description=each.found.description[:1024],
                path=each.found.path,
            )
            for each in offered
        )
        return HubCatalog(hub=hub, commit=commit, at=datetime.now(UTC), skills=entries)

    async def fetch(self, source: SkillSource, *, contents: bool = True) -> list[HubSkill]:
        """Skills of a source. Raises `ExchangeError`, also when there are none.

        `contents`: False when only names and descriptions are needed.
        """
        commit, found = "", list[FoundSkill]()
        if source.kind == "github":
            commit = source.ref if source.fixed else await self._client.resolve_commit(source)
            found = _find_in_archive(await self._client.fetch_archive(source.place, commit), source)
        elif source.kind == "git":
            commit, data = await self._read_git(source)
            if any(each.path == INDEX_FILE for each in read_repository_archive(data, INDEX_FOLDER)):
                raise SignedSource(f"{source.place} has signed skills")
            found = _find_in_archive(data, source)
        elif source.kind == "folder":
            found = find_skills(read_folder(Path(source.place)), name=Path(source.place).name)
        else:
            found = await self._fetch_site(source, contents=contents)
        if not found:
            raise ExchangeError(f"{source}: no folder with a SKILL.md was found there")
        return [
            HubSkill(found=each, source=source.at_path(each.path), commit=commit) for each in found
        ]

    async def _fetch_site(self, source: SkillSource, *, contents: bool) -> list[FoundSkill]:
        index = await self._client.fetch_site_index(source.place)
        if index is None:
            raise SignedSource(f"{source.place} has signed skills")
        if not contents:
            return [
                FoundSkill(name=each.name, description=each.description, path=each.name, files=())
                for each in index.skills
            ]
        wanted = [each for each in index.skills if source.path in ("", each.name)]
        return [await self._client.fetch_site_skill(source.place, each) for each in wanted]

    async def _read_git(self, source: SkillSource) -> tuple[str, bytes]:
        """The commit, and its files as an archive; nothing of the repository is checked out."""
        with tempfile.TemporaryDirectory(prefix="hermes-skills-") as temporary:
            folder = Path(temporary)
            address = shlex.quote(source.place)
            ref = shlex.quote(f"{source.ref or 'HEAD'}^{{commit}}")
            commit = await self._run_git(
                folder,
                source,
                f"clone -q --bare --no-local -- {address} copy 2>&1 && "
                f"git {_GIT_OPTIONS} -C copy rev-parse --verify --end-of-options {ref}",
            )
            pack = "-C copy archive --format=tar --prefix=copy/ -o ../copy.tar"
            await self._run_git(folder, source, f"{pack} {commit}")
            return commit, (folder / "copy.tar").read_bytes()

    async def _run_git(self, folder: Path, source: SkillSource, command: str) -> str:
        from hermes.app.tools.tooling import environment_options
        from hermes.environments.local import LocalEnvironment

        variables = environment_options(self._loaded, folder).variables
        async with LocalEnvironment(folder, variables) as environment:
            ran = await environment.run(
                f"GIT_TERMINAL_PROMPT=0 git {_GIT_OPTIONS} {command}", timeout=GIT_TIMEOUT_S
            )
        if ran.exit_code != 0:
            raise ExchangeError(f"{source} could not be read: {ran.output.strip()[-400:]}")
        return ran.output.strip()

    async def check_updates(self, names: Sequence[str] = ()) -> list[UpdateStatus]:
        installed = self.records.state().installed
        unknown = [name for name in names if name not in installed]
        if unknown:
            known = ", ".join(sorted(installed)) or "none"
            raise ExchangeError(f"{unknown[0]} was not installed from a hub; those are: {known}")
        return [
            await self._check_update(name, pin)
            for name, pin in sorted(installed.items())
            if not names or name in names
        ]

    async def fetch_installed(self, name: str) -> HubSkill:
        """Return what the source of an installed skill has now. Raises `ExchangeError`."""
        source = self.records.state().installed[name].source
        if source.kind == "folder":
            source = replace(source, place=str(Path(source.place, source.path)), path="")
        return next(iter(await self.fetch(source)))

    async def _check_update(self, name: str, pin: HubPin) -> UpdateStatus:
        pinned = UpdateStatus(
            name=name, source=str(pin.source), commit=pin.commit or pin.digest, status="current"
        )
        if pin.source.fixed:
            return _with_status(pinned, "pinned", pin.commit, "one commit was asked for")
        try:
            if pin.source.kind == "github":
                newest = await self._client.resolve_commit(pin.source)
                if newest == pin.commit:
                    return _with_status(pinned, "current", newest)
            now = await self.fetch_installed(name)
        except ExchangeError as error:
            return _with_status(pinned, "unknown", "", str(error))
        status: Literal["current", "outdated"] = "current"
        if now.digest != pin.digest:
            status = "outdated"
        return _with_status(pinned, status, now.commit or now.digest)

    def open_importer(self, say: ReportImportProgress, *, sandbox: bool = True) -> SkillImporter:
        importer = self.exchange.open_importer(say, sandbox=sandbox, prove=False)
        return dataclasses.replace(importer, adjust_findings=self.records.apply_accepted)

    async def examine(
        self, importer: SkillImporter, offered: HubSkill, existing: Path | None
    ) -> ImportExamination:
        """Raises `ExchangeError`. What stops it is kept for `hermes skills accept`."""
        check_installable(offered.found)
        bundle = self._build_bundle(offered)
        if bundle.manifest.digest in self.exchange.keyring.state.revoked_digests:
            raise ExchangeError(f"{offered.found.name} {bundle.manifest.digest[:12]} was revoked")
        pins = self.records.state().installed.values()
        known = any(each.publisher == bundle.manifest.publisher for each in pins)
        with self.records.lock():
            examined = await importer.examine_bundle(
                bundle,
                existing,
                new_publisher=not known,
                found_before=offered.found.findings,
            )
            if examined.blocked:
                kept = QuarantinedSkill(
                    name=offered.found.name,
                    digest=bundle.manifest.digest,
                    source=offered.source.install_words(offered.found.name),
                    findings=examined.findings,
                )
                write_examination(examined.folder, kept)
        return examined

    def _build_bundle(self, offered: HubSkill) -> SkillBundle:
        pin = self.records.state().installed.get(offered.found.name)
        same = pin is not None and pin.publisher == offered.source.publisher
        now = datetime.now(UTC)
        return SkillBundle(
            manifest=BundleManifest(
                name=offered.found.name,
                version=1,
                publisher=offered.source.publisher,
                digest=offered.digest,
                parents=(pin.digest, *pin.earlier) if pin is not None and same else (),
                capabilities=find_capabilities(offered.found.files),
                evidence=compute_files_digest(()),
                history=compute_files_digest(()),
                made=now,
                expires=now + BUNDLE_LIFETIME,
            ),
            key="",
            skill=offered.found.files,
        )

    def admit(
        self,
        importer: SkillImporter,
        examined: ImportExamination,
        offered: HubSkill,
        existing: Path | None,
        by: str,
    ) -> SkillPlacement:
        """Installs it as a draft, pinned to its commit and digest. Raises `ExchangeError`."""
        with self.records.lock():
            placed = importer.admit(examined, existing, by=by)
            before = self.records.state().installed.get(placed.folder)
            earlier = (before.digest, *before.earlier) if before else ()
            pin = HubPin(
                source=offered.source,
                publisher=offered.source.publisher,
                commit=offered.commit,
                digest=offered.digest,
                earlier=tuple(each for each in earlier if each != offered.digest)[:20],
            )
            self.records.record_install(placed.folder, pin)
        return placed

    async def record(
        self, journal: Journal, run: str, offered: HubSkill, placed: SkillPlacement, by: str
    ) -> None:
        accepted = self.records.state().accepted.get(offered.digest, ())
        at = f" at {offered.commit[:12]}" if offered.commit else ""
        lines = [f"accepted by {each.by}: {each.cause} ({each.reason})" for each in accepted]
        await journal.append(
            SkillChanged(
                run=run,
                skill=placed.folder,
                digest=placed.digest,
                state="draft",
                parents=placed.parents,
                reason="; ".join(
                    [f"{placed.how}: {offered.source.publisher}, {offered.source}{at}", *lines]
                ),
                by=by,
            )
        )


def parse_hub(hub: str) -> SkillSource:
    """A hub of the settings. Raises `ExchangeError`."""
    source = parse_source(hub)
    if source is None and is_http_url(hub):
        source = SkillSource(kind="site", place=hub)
    if source is None:
        raise ExchangeError(f"skills.hubs: {hub!r} is no OWNER/REPO, folder, git repository or URL")
    return source


def _find_in_archive(data: bytes, source: SkillSource) -> list[FoundSkill]:
    """Below the path; else the skill that is called like its last part."""
    found = find_skills(read_repository_archive(data, source.path), source.path)
    if found or not source.path or "/" in source.path:
        return found
    every = find_skills(read_repository_archive(data))
    return [each for each in every if each.name == source.path]


def _search_result(catalog: HubCatalog, entry: CatalogEntry) -> SearchResult:
    source = entry.name
    if catalog.hub != OWN_HUB:
        source = parse_hub(catalog.hub).at_path(entry.path).install_words(entry.name)
    return SearchResult(
        name=entry.name, description=entry.description, hub=catalog.hub, source=source
    )


def _with_status(
    before: UpdateStatus,
    status: Literal["current", "outdated", "pinned", "unknown"],
    newest: str,
    why: str = "",
) -> UpdateStatus:
    return replace(before, status=status, newest=newest, why=why)
