"""A skill as it travels: its files, what it may do, what proves it, and who says so."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from hermes.core.messages import Value
from hermes.skills.exchange.archive import (
    ExchangeError,
    compute_files_digest,
    pack_files,
    select_folder_files,
    unpack_files,
)
from hermes.skills.exchange.signed_statements import (
    SignedStatement,
    StatementSigner,
    VerifySignature,
    open_statement,
    sign_statement,
)
from hermes.skills.format.skill_text import MAX_NAME_CHARS, SKILL_NAME
from hermes.skills.scanner.finding import SkillFile

BUNDLE_FORMAT = 1
SIGNATURE_FILE, HISTORY_FILE, SKILL_FOLDER, EVIDENCE_FOLDER = (
    "signature.json",
    "history.json",
    "skill",
    "evidence",
)
MANIFEST_FILE = "manifest.json"
BUNDLE_SUFFIX = ".skill"
BUNDLE_LIFETIME = timedelta(days=365)


class EarlierVersion(Value, kw_only=True, frozen=True):
    """One earlier version, as its publisher tells it."""

    digest: str
    reason: str = ""
    at: datetime | None = None


class BundleManifest(Value, kw_only=True, frozen=True):
    format: int = BUNDLE_FORMAT
    name: str
    version: int
    publisher: str
    digest: str
    """Of the skill's own files."""
    parents: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    evidence: str
    """The root of what proves it: a digest of the same kind."""
    history: str
    made: datetime
    expires: datetime


class SkillBundle(Value, kw_only=True, frozen=True):
    manifest: BundleManifest
    key: str
    skill: tuple[SkillFile, ...]
    evidence: tuple[SkillFile, ...] = ()
    past: tuple[EarlierVersion, ...] = ()


class BundleContents(Value, kw_only=True, frozen=True):
    """What a publisher hands over to be packed."""

    name: str
    version: int
    publisher: str
    skill: tuple[SkillFile, ...]
    evidence: tuple[SkillFile, ...] = ()
    past: tuple[EarlierVersion, ...] = ()
    capabilities: tuple[str, ...] = ()
    lifetime: timedelta = BUNDLE_LIFETIME


def build_bundle(
    contents: BundleContents, signer: StatementSigner, *, now: datetime | None = None
) -> bytes:
    made = (now or datetime.now(UTC)).replace(microsecond=0)
    history = SkillFile(path=HISTORY_FILE, data=msgspec.json.encode(contents.past))
    manifest = BundleManifest(
        name=contents.name,
        version=contents.version,
        publisher=contents.publisher,
        digest=compute_files_digest(contents.skill),
        parents=tuple(past.digest for past in contents.past),
        capabilities=contents.capabilities,
        evidence=compute_files_digest(contents.evidence),
        history=compute_files_digest([history]),
        made=made,
        expires=made + contents.lifetime,
    )
    sealed = sign_statement("manifest", manifest, signer)
    vouched = msgspec.json.encode({"key": sealed.key, "signature": sealed.signature})
    return pack_files(
        [
            *_add_folder(SKILL_FOLDER, contents.skill),
            *_add_folder(EVIDENCE_FOLDER, contents.evidence),
            history,
            SkillFile(path=MANIFEST_FILE, data=sealed.body.encode()),
            SkillFile(path=SIGNATURE_FILE, data=vouched),
        ]
    )


def read_bundle(data: bytes, check: VerifySignature, *, now: datetime | None = None) -> SkillBundle:
    """Everything that can be checked without knowing the publisher. Raises `Refused`."""
    entries = {entry.path: entry for entry in unpack_files(data)}
    for wanted in (MANIFEST_FILE, SIGNATURE_FILE, HISTORY_FILE):
        if wanted not in entries:
            raise ExchangeError(f"the bundle has no {wanted}")
    extra = [
        path
        for path in entries
        if path not in (MANIFEST_FILE, SIGNATURE_FILE, HISTORY_FILE)
        and not path.startswith((f"{SKILL_FOLDER}/", f"{EVIDENCE_FOLDER}/"))
    ]
    if extra:
        raise ExchangeError(f"the bundle holds {extra[0]!r}, which belongs to no part of it")
    sealed = _parse_signature(entries[SIGNATURE_FILE], entries[MANIFEST_FILE])
    manifest = open_statement(sealed, "manifest", BundleManifest, check)
    skill, evidence = (
        select_folder_files(list(entries.values()), SKILL_FOLDER),
        select_folder_files(list(entries.values()), EVIDENCE_FOLDER),
    )
    _check_manifest(manifest, skill, evidence, entries[HISTORY_FILE], now or datetime.now(UTC))
    try:
        past = msgspec.json.decode(entries[HISTORY_FILE].data, type=tuple[EarlierVersion, ...])
    except msgspec.DecodeError as error:
        raise ExchangeError(f"the bundle's history cannot be read: {error}") from error
    return SkillBundle(
        manifest=manifest,
        key=sealed.key,
        skill=tuple(skill),
        evidence=tuple(evidence),
        past=past,
    )


def _parse_signature(signature: SkillFile, manifest: SkillFile) -> SignedStatement:
    try:
        found = msgspec.json.decode(signature.data, type=dict[str, str])
        return SignedStatement(
            kind="manifest",
            body=manifest.data.decode(),
            key=found["key"],
            signature=found["signature"],
        )
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
        raise ExchangeError(f"the bundle's signature cannot be read: {error}") from error


def _check_manifest(
    manifest: BundleManifest,
    skill: Sequence[SkillFile],
    evidence: Sequence[SkillFile],
    history: SkillFile,
    now: datetime,
) -> None:
    if manifest.format != BUNDLE_FORMAT:
        raise ExchangeError(f"a bundle of format {manifest.format}: a later Hermes can read it")
    if not SKILL_NAME.fullmatch(manifest.name) or len(manifest.name) > MAX_NAME_CHARS:
        raise ExchangeError(f"{manifest.name!r} is no name of a skill")
    if manifest.digest != compute_files_digest(skill):
        raise ExchangeError("the skill's files are not those that were signed")
    if manifest.evidence != compute_files_digest(evidence):
        raise ExchangeError("the evidence is not that which was signed")
    if manifest.history != compute_files_digest([history]):
        raise ExchangeError("the history is not that which was signed")
    if now >= manifest.expires:
        raise ExchangeError(
            f"the bundle expired on {manifest.expires:%Y-%m-%d}; ask for a newer one"
        )
    if manifest.made > now + timedelta(days=1):
        raise ExchangeError(
            f"the bundle says that it was made on {manifest.made:%Y-%m-%d}, still to come"
        )
    if manifest.version < 1:
        raise ExchangeError("versions begin with 1")


def _add_folder(folder: str, entries: Sequence[SkillFile]) -> list[SkillFile]:
    return [
        SkillFile(path=f"{folder}/{each.path}", data=each.data, executable=each.executable)
        for each in entries
    ]
