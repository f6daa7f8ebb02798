"""Builds and reads a signed bundle: a skill with its capabilities, evidence and history.

It is packed into deterministic bytes, and only plain files inside the bundle are unpacked.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    SignedStatement,
    StatementSigner,
    VerifySignature,
    open_statement,
    sign_statement,
)
from hermes.skills.format import MAX_NAME_CHARS, SKILL_NAME
from hermes.skills.scanner.finding import SkillFile

BUNDLE_FORMAT = 1
MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES = 24 << 20, 1_200
MANIFEST_FILE, SIGNATURE_FILE, HISTORY_FILE = "manifest.json", "signature.json", "history.json"
SKILL_FOLDER, EVIDENCE_FOLDER = "skill", "evidence"
BUNDLE_SUFFIX = ".skill"
BUNDLE_LIFETIME = timedelta(days=365)


class EarlierVersion(Value, kw_only=True, frozen=True):
    """One earlier version, as its publisher describes it."""

    digest: str
    reason: str = ""
    at: datetime | None = None


class BundleManifest(Value, kw_only=True, frozen=True):
    format: int = BUNDLE_FORMAT
    name: str
    version: int
    publisher: str
    digest: str
    """Of the files of the skill."""
    parents: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    evidence: str
    """Digest of the evidence files."""
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
    """Input of `build_bundle`."""

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
    statement = sign_statement("manifest", manifest, signer)
    signature = msgspec.json.encode({"key": statement.key, "signature": statement.signature})
    return pack_files(
        [
            *_add_folder(SKILL_FOLDER, contents.skill),
            *_add_folder(EVIDENCE_FOLDER, contents.evidence),
            history,
            SkillFile(path=MANIFEST_FILE, data=statement.body.encode()),
            SkillFile(path=SIGNATURE_FILE, data=signature),
        ]
    )


def read_bundle(data: bytes, check: VerifySignature, *, now: datetime | None = None) -> SkillBundle:
    """Checks everything that does not depend on the publisher. Raises `ExchangeError`."""
    entries = {entry.path: entry for entry in unpack_files(data)}
    for required in (MANIFEST_FILE, SIGNATURE_FILE, HISTORY_FILE):
        if required not in entries:
            raise ExchangeError(f"the bundle has no {required}")
    extra = [
        path
        for path in entries
        if path not in (MANIFEST_FILE, SIGNATURE_FILE, HISTORY_FILE)
        and not path.startswith((f"{SKILL_FOLDER}/", f"{EVIDENCE_FOLDER}/"))
    ]
    if extra:
        raise ExchangeError(f"the bundle contains the unexpected file {extra[0]!r}")
    statement = _parse_signature(entries[SIGNATURE_FILE], entries[MANIFEST_FILE])
    manifest = open_statement(statement, "manifest", BundleManifest, check)
    skill = _take_folder(SKILL_FOLDER, entries.values())
    evidence = _take_folder(EVIDENCE_FOLDER, entries.values())
    _check_manifest(manifest, skill, evidence, entries[HISTORY_FILE], now or datetime.now(UTC))
    try:
        past = msgspec.json.decode(entries[HISTORY_FILE].data, type=tuple[EarlierVersion, ...])
    except msgspec.DecodeError as error:
        raise ExchangeError(f"the bundle's history cannot be read: {error}") from error
    return SkillBundle(
        manifest=manifest,
        key=statement.key,
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
        raise ExchangeError(f"bundle format {manifest.format} needs a later version of Hermes")
    if not SKILL_NAME.fullmatch(manifest.name) or len(manifest.name) > MAX_NAME_CHARS:
        raise ExchangeError(f"{manifest.name!r} is not a valid name of a skill")
    if manifest.digest != compute_files_digest(skill):
        raise ExchangeError("the skill's files are not those that were signed")
    if manifest.evidence != compute_files_digest(evidence):
        raise ExchangeError("the evidence is not the one that was signed")
    if manifest.history != compute_files_digest([history]):
        raise ExchangeError("the history is not the one that was signed")
    if now >= manifest.expires:
        raise ExchangeError(
            f"the bundle expired on {manifest.expires:%Y-%m-%d}; ask for a newer one"
        )
    if manifest.made > now + timedelta(days=1):
        raise ExchangeError(f"the bundle is dated {manifest.made:%Y-%m-%d}, which is in the future")
    if manifest.version < 1:
        raise ExchangeError("versions begin with 1")


def _add_folder(folder: str, entries: Iterable[SkillFile]) -> list[SkillFile]:
    return [replace(each, path=f"{folder}/{each.path}") for each in entries]


def _take_folder(folder: str, entries: Iterable[SkillFile]) -> list[SkillFile]:
    """The files of one folder of the bundle, with paths relative to it."""
    prefix = f"{folder}/"
    inside = [each for each in entries if each.path.startswith(prefix)]
    return [replace(each, path=each.path.removeprefix(prefix)) for each in inside]


def compute_files_digest(entries: Iterable[SkillFile]) -> str:
    """SHA-256 over sorted `mode path sha256(content)` lines."""
    lines = [
        f"{'755' if entry.executable else '644'} {entry.path} "
        f"{hashlib.sha256(entry.data).hexdigest()}\n"
        for entry in entries
    ]
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()


def pack_files(entries: Iterable[SkillFile]) -> bytes:
    """The same entries always give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in sorted(entries, key=lambda each: each.path):
            member = tarfile.TarInfo(entry.path)
            member.size = len(entry.data)
            member.mode = 0o755 if entry.executable else 0o644
            archive.addfile(member, io.BytesIO(entry.data))
    return buffer.getvalue()


def unpack_files(data: bytes) -> list[SkillFile]:
    """Raises `ExchangeError` for data that `pack_files` would not have written."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise ExchangeError(
            f"a bundle of {len(data):,} bytes is refused; at most {MAX_BUNDLE_BYTES:,}"
        )
    try:
        entries = _read_archive(data)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ExchangeError(f"this is not a bundle: {error}") from error
    if pack_files(entries) != data:
        raise ExchangeError("the bundle is not in the standard form: something may be hidden in it")
    return entries


def _read_archive(data: bytes) -> list[SkillFile]:
    entries: list[SkillFile] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if len(entries) >= MAX_BUNDLE_FILES:
                raise ExchangeError(f"a bundle has at most {MAX_BUNDLE_FILES} files")
            entries.append(_read_member(archive, member))
    names = {entry.path.casefold() for entry in entries}
    if len(names) != len(entries):
        raise ExchangeError("two files of the bundle have the same name")
    return entries


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> SkillFile:
    path = PurePosixPath(member.name)
    if not member.isreg():
        raise ExchangeError(f"{member.name!r} is not a plain file: links and devices are refused")
    odd = path.is_absolute() or ".." in path.parts or "\\" in member.name
    if odd or path.as_posix() != member.name:
        raise ExchangeError(f"{member.name!r} leads out of the bundle")
    stream = archive.extractfile(member)
    content = stream.read() if stream is not None else b""
    return SkillFile(path=member.name, data=content, executable=bool(member.mode & 0o100))
