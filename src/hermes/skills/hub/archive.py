"""Finds the skills in an archive of a repository or in a folder, and completes their front matter.

Nothing is written."""

import io
import json
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
    split_front_matter,
)
from hermes.skills.scanner.finding import ScanFinding, SkillFile, read_skill_files

MAX_ARCHIVE_BYTES = 128 << 20
MAX_UNPACKED_BYTES = 1 << 30
MAX_ARCHIVE_FILES = 100_000
_ENDLESS = "is too large"
_FRONT_MATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n.*?^---", re.DOTALL | re.MULTILINE)
_FRONT_LINES = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?P<lines>.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)
_VALUE = r"^{key}[ \t]*:[ \t]*(?P<value>[^\r\n]*(?:\r?\n(?:[ \t]+[^\r\n]*|[ \t]*(?=\r?\n)))*)"
_BLOCK_MARK = re.compile(r"[|>][-+\d]*(?=\s|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_KEYS = ("name", "description")
_NAME_LINE = re.compile(rb"^name[ \t]*:[^\r\n]*", re.MULTILINE)


class FoundSkill(Value, kw_only=True, frozen=True):
    """A skill as it lies in a repository or folder."""

    name: str
    description: str
    path: str
    """Its folder in the repository; empty for the root."""
    files: tuple[SkillFile, ...]
    findings: tuple[ScanFinding, ...] = ()
    """What was completed in its front matter."""


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
    findings: list[ScanFinding] = []
    try:
        completed, findings = complete_front_matter(head.data.decode(), name)
        text = parse_skill_text(completed, folder=name)
        description = text.description
        valid = make_skill_name(text.name)
        changed = replace(head, data=completed.encode()) if findings else head
        if valid and valid != text.name:
            changed = _rename(changed, valid)
        own = [changed if each is head else each for each in own]
        name = valid or name
    except (YamlFileError, UnicodeDecodeError):
        pass  # the checks say what is wrong
    size = sum(len(each.data) for each in own)
    if len(own) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        own = own[: MAX_SKILL_FILES + 1]
    return FoundSkill(
        name=name,
        description=description,
        path=path,
        files=tuple(_strip_root(own, root)),
        findings=tuple(findings),
    )


def complete_front_matter(text: str, folder: str) -> tuple[str, list[ScanFinding]]:
    """The text with a name and a description in valid front matter, and what was changed.

    Other agents read both leniently. It is done whenever a skill is read, so that its digest stays
    the same between updates.

    Front matter that is not valid is replaced: nothing else of it is installed.
    """
    try:
        document = split_front_matter(text)[0]
    except YamlFileError as error:
        return _replace_front_matter(text, folder, error)
    if not isinstance(document.data, dict | None):
        return text, []  # the checks say what is wrong
    skill = parse_skill_text(text, folder=folder)
    read = {"name": skill.name, "description": skill.description}
    missing = [key for key in _KEYS if key not in (document.data or {}) and read[key]]
    if not missing:
        return text, []
    lines = "".join(f"{key}: {_quote(read[key])}\n" for key in missing)
    begin = text.index("\n") + 1
    cause = f"the front matter has no {' and no '.join(missing)}: taken from folder and text"
    return text[:begin] + lines + text[begin:], [_finding(cause)]


def _replace_front_matter(
    text: str, folder: str, error: YamlFileError
) -> tuple[str, list[ScanFinding]]:
    found = _FRONT_LINES.match(text)
    body = text[found.end() :] if found else text
    lines = found["lines"] if found else ""
    plain = f"---\n---\n{body}"
    name = _read_value(lines, "name") or folder
    description = _read_value(lines, "description") or parse_skill_text(plain).description
    if not name or not description:
        return text, []
    front = f"name: {_quote(name)}\ndescription: {_quote(description)}\n"
    cause = f"{error.problem.cause}: only name and description of the front matter are kept"
    return f"---\n{front}---\n{body}", [_finding(cause)]


def _read_value(lines: str, key: str) -> str:
    """A value over one line or several indented ones, whatever characters it contains."""
    found = re.search(_VALUE.format(key=key), lines, re.MULTILINE)
    if found is None:
        return ""
    value = " ".join(_BLOCK_MARK.sub("", found["value"].strip(), count=1).split())
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _quote(value: str) -> str:
    """On a single line: what follows it is no longer the description."""
    return json.dumps(_CONTROL.sub(" ", value), ensure_ascii=False)


def _finding(cause: str) -> ScanFinding:
    return ScanFinding("structure", "SKILL.md", 1, cause, blocks=False)


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
