"""Finds the skills in an archive of a repository or in a folder, without writing anything."""

import io
import lzma
import re
import tarfile
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.plumbing.yaml_document import YamlFileError
from hermes.skills.discovery import SKILL_FILE
from hermes.skills.exchange.signed_statements import ExchangeError
from hermes.skills.format import (
    MAX_NAME_CHARS,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_NAME,
    is_hidden_path,
    parse_skill_text,
)
from hermes.skills.scanner.finding import SkillFile, read_skill_files

MAX_ARCHIVE_BYTES = 128 << 20
MAX_UNPACKED_BYTES = 1 << 30
MAX_ARCHIVE_FILES = 100_000
_ENDLESS = "is too large"
_FRONT_MATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n.*?^---", re.DOTALL | re.MULTILINE)
_NAME_LINE = re.compile(rb"^name[ \t]*:[^\r\n]*", re.MULTILINE)


class FoundSkill(Value, kw_only=True, frozen=True):
    """A skill as it lies in a repository or folder."""

    name: str
    description: str
    path: str
    """Its folder in the repository; empty for the root."""
    files: tuple[SkillFile, ...]


def read_repository_archive(data: bytes, path: str = "") -> list[SkillFile]:
    """The files below a path, without the one folder that all of an archive are in.

    Raises `ExchangeError`. Files elsewhere are counted, and not read.
    """
    found: list[SkillFile] = []
    total = count = 0
    prefix = f"{path}/" if path else ""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
            for member in archive:
                total, count = total + member.size, count + 1
                if total > MAX_UNPACKED_BYTES or count > MAX_ARCHIVE_FILES:
                    raise ExchangeError(
                        f"the archive {_ENDLESS}: more than {MAX_ARCHIVE_FILES:,} files or "
                        f"{MAX_UNPACKED_BYTES >> 20} MiB"
                    )
                inside = _check_name(member.name)
                if inside.startswith(prefix) and not member.isdir():
                    found.append(_read_member(archive, member, inside.removeprefix(prefix)))
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise ExchangeError(f"this is not an archive of a repository: {error}") from error
    return found


def _check_name(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ExchangeError(f"the archive names {name!r}, which leads out of it: refused")
    return "/".join(path.parts[1:])


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> SkillFile:
    if member.issym() or member.islnk():
        return SkillFile(path=path, data=b"", link=member.linkname or "?")
    stream = archive.extractfile(member) if member.isreg() else None
    if stream is None:
        return SkillFile(path=path, data=b"", link="no plain file")
    data = stream.read(min(member.size, MAX_SKILL_BYTES + 1))
    return SkillFile(path=path, data=data, executable=bool(member.mode & 0o100))


def read_folder(folder: Path) -> list[SkillFile]:
    """Raises `ExchangeError`. Without what git keeps for itself."""
    try:
        found = read_skill_files(folder)
    except OSError as error:
        raise ExchangeError(f"{folder} cannot be read: {error.strerror}") from error
    return [each for each in found if not each.path.startswith(".git/")]


def find_skills(files: Iterable[SkillFile], path: str = "", name: str = "") -> list[FoundSkill]:
    """Skills in these files; below a skill no other one is looked for.

    `name`: of a skill that lies in the root and does not say how it is called.
    """
    files = list(_follow_links(list(files)))
    heads = sorted(
        (each for each in files if PurePosixPath(each.path).name == SKILL_FILE and not each.link),
        key=lambda each: each.path.count("/"),
    )
    roots: list[str] = []
    found: list[FoundSkill] = []
    for head in heads:
        root = head.path.removesuffix(SKILL_FILE)
        if any(root.startswith(above) for above in roots):
            continue
        roots.append(root)
        own = [each for each in files if each.path.startswith(root)]
        place = "/".join(part for part in (path, root.rstrip("/")) if part)
        found.append(_read_skill(head, root, own, place, PurePosixPath(place).name or name))
    return sorted(found, key=lambda each: each.name)


def _follow_links(files: list[SkillFile]) -> Iterator[SkillFile]:
    """Put the content of a file in the place of a link to it: skills of one repository share files.

    A link out of these files, to a folder or to another link stays one.
    """
    plain = {each.path: each for each in files if not each.link}
    for each in files:
        target = normpath(f"{PurePosixPath(each.path).parent}/{each.link}") if each.link else ""
        if not each.link.startswith("/") and (found := plain.get(target)):
            each = replace(found, path=each.path)
        yield each


def _read_skill(
    head: SkillFile, root: str, own: list[SkillFile], path: str, name: str
) -> FoundSkill:
    description = ""
    try:
        text = parse_skill_text(head.data.decode(), folder=name)
        description = text.description
        valid = make_skill_name(text.name)
        if valid and valid != text.name:
            own = [_rename(each, valid) if each is head else each for each in own]
        name = valid or name
    except (YamlFileError, UnicodeDecodeError):
        pass  # the checks say what is wrong
    size = sum(len(each.data) for each in own)
    if len(own) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        own = own[: MAX_SKILL_FILES + 1]
    return FoundSkill(
        name=name, description=description, path=path, files=tuple(_strip_root(own, root))
    )


def make_skill_name(title: str) -> str:
    """A valid name from a title such as `Spring Boot Testing`; empty when nothing is left of it."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().casefold()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_NAME_CHARS].strip("-")


def _rename(head: SkillFile, name: str) -> SkillFile:
    """With a valid name in the front matter: many repositories write a title there.

    It is done whenever the skill is read, so that its digest stays the same between updates.
    """
    front = _FRONT_MATTER.match(head.data)
    line = _NAME_LINE.search(head.data, 0, front.end()) if front else None
    if line is None:
        return head
    data = head.data[: line.start()] + f"name: {name}".encode() + head.data[line.end() :]
    return replace(head, data=data)


def _strip_root(own: Iterable[SkillFile], root: str) -> Iterator[SkillFile]:
    """Without what editors, git and Python leave: it is in no digest."""
    for each in own:
        path = each.path.removeprefix(root)
        if not is_hidden_path(path):
            yield SkillFile(path=path, data=each.data, executable=each.executable, link=each.link)


def check_installable(skill: FoundSkill) -> None:
    """Raises `ExchangeError` when it cannot even be kept in quarantine."""
    size = sum(len(each.data) for each in skill.files)
    if len(skill.files) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        raise ExchangeError(
            f"{skill.path or skill.name} {_ENDLESS} for a skill: more than {MAX_SKILL_FILES} files "
            f"or {MAX_SKILL_BYTES >> 20} MiB; name the folder of one skill: OWNER/REPO/PATH"
        )
    if not SKILL_NAME.fullmatch(skill.name) or len(skill.name) > MAX_NAME_CHARS:
        raise ExchangeError(f"{skill.name!r} is not a valid name of a skill")
    head = next((each for each in skill.files if each.path == SKILL_FILE), None)
    try:
        (head.data if head else b"").decode()
    except UnicodeDecodeError:
        raise ExchangeError(
            f"{SKILL_FILE} of {skill.name} is not UTF-8 text: its author has to save it as UTF-8"
        ) from None
