"""What lies in a foreign skill: names, links, sizes, and files that something runs by itself."""

import io
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes.skills.format.digest import MOST_BYTES, MOST_FILES
from hermes.skills.scanner.finding import Entry, Finding

LARGEST_TEXT = 1 << 20
DEEPEST = 8
_OFFICE = {".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".dotx", ".xltx", ".potx", ".epub"}
_PACKED = {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".whl", ".egg"}
_RUNS_ITSELF = {
    "sitecustomize.py": "Python runs it at every start",
    "usercustomize.py": "Python runs it at every start",
    ".bashrc": "a shell runs it at every start",
    ".profile": "a shell runs it at every login",
    ".zshrc": "a shell runs it at every start",
    ".envrc": "direnv runs it on entering the folder",
    ".npmrc": "it says where packages come from",
    ".pypirc": "it says where packages come from",
    "pip.conf": "it says where packages come from",
}
_STEERS = {
    "claude.md", "agents.md", "gemini.md", ".cursorrules", ".windsurfrules", "hermes.md",
    "memory.md", "user.md", "soul.md", "copilot-instructions.md", ".mcp.json", "mcp.json",
}  # fmt: skip
_BINARY = {".so", ".pyd", ".dll", ".dylib", ".exe", ".pyc", ".pyo", ".jar", ".class", ".msi",
           ".scr", ".bat", ".cmd", ".vbs", ".hta", ".lnk", ".o", ".a", ".ko", ".node", ".wasm",
           ".deb", ".rpm", ".apk", ".dmg", ".app", ".com"}  # fmt: skip
_PICKLED = {".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth.tar", ".marshal"}
_MAGIC = (b"\x7fELF", b"MZ", b"\xfe\xed\xfa", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xca\xfe")
_ODD_NAME = re.compile(r"[\x00-\x1f\x7f$`;|&<>\"'*?\\(){}]|^-|/-|^\s|\s$|\.$")
_ORDINARY = re.compile(
    r"\.(?:(?:git|docker|npm|helm|prettier|eslint)ignore|gitattributes|editorconfig|env\.(?:example|sample)|"
    r"(?:prettier|stylelint|markdownlint|shellcheck|pylint|yamllint|hadolint|tflint|sops|ansible-lint|golangci|"
    r"rubocop|spectral|vale|flake8|ruff|clang-format|clang-tidy|coverage|nv|commitlint|swiftlint|typos|taplo)"
    r"(?:rc)?(?:\.(?:ya?ml|json|toml|ini|hcl))?|python-version|node-version|ruby-version|tool-versions)"
)
"""Settings of formatters and the like: nothing runs them."""
_INCLUDE = re.compile(
    r"(?:\{\{\s*include:?|@include|!include|<!--\s*include:?|\{%\s*include)\s*[\"']?([\w./-]+)"
)


def look_at_structure(entries: Sequence[Entry], name: str = "") -> Iterator[Finding]:
    yield from _amounts(entries)
    yield from _collisions(entries)
    for entry in entries:
        yield from _name(entry.path)
        if entry.link:
            yield _wrong(entry.path, f"a link to {entry.link!r} is not taken along with a skill")
            continue
        yield from _kind(entry)
    if not any(entry.path == "SKILL.md" for entry in entries):
        yield _wrong("SKILL.md", "a skill is a folder with a SKILL.md, and there is none")
    yield from _nested(entries)
    yield from _circles(entries, name)


def _wrong(file: str, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="structure", file=file, line=1, cause=cause, blocks=blocks)


def _amounts(entries: Sequence[Entry]) -> Iterator[Finding]:
    size = sum(len(entry.data) for entry in entries)
    if len(entries) > MOST_FILES or size > MOST_BYTES:
        limit = f"at most {MOST_FILES} files of {MOST_BYTES >> 20} MiB in all"
        yield _wrong(".", f"too much: {len(entries)} files of {size:,} bytes; {limit}")


def _collisions(entries: Sequence[Entry]) -> Iterator[Finding]:
    folded = Counter(unicodedata.normalize("NFKC", entry.path).casefold() for entry in entries)
    for path, count in folded.items():
        if count > 1:
            yield _wrong(path, "two files whose names differ only in how they are written")


def _name(path: str) -> Iterator[Finding]:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        yield _wrong(path, "the name leads out of the skill")
    if len(parts) > DEEPEST or len(path) > 240:
        yield _wrong(path, "nested too deeply, or too long a name")
    if any(_ODD_NAME.search(part) for part in parts):
        yield _wrong(path, "a file name that is made to be misread by a shell or a person")
    if any(unicodedata.category(letter) in ("Cf", "Cc", "Co") for letter in path):
        yield _wrong(path, "a file name with invisible characters")


def _kind(entry: Entry) -> Iterator[Finding]:
    path = PurePosixPath(entry.path)
    name, suffix = path.name.casefold(), path.suffix.casefold()
    hidden = [part for part in path.parts if part.startswith(".") and part != ".gitkeep"]
    if suffix == ".pth":
        yield _wrong(entry.path, "Python runs a .pth file at every start")
    elif name in _RUNS_ITSELF:
        yield _wrong(entry.path, _RUNS_ITSELF[name])
    elif name in _STEERS:
        yield _wrong(entry.path, "it would steer agents beyond this skill")
    elif hidden:
        harmless = len(hidden) == 1 and bool(_ORDINARY.fullmatch(name))
        cause = "a hidden file of settings" if harmless else "a hidden file is not taken along"
        yield _wrong(entry.path, cause, blocks=not harmless)
    if suffix in _BINARY or entry.data.startswith(_MAGIC):
        yield _wrong(entry.path, "a program that nobody can read; bring its source instead")
    elif suffix in _PICKLED or entry.data[:2] in (b"\x80\x04", b"\x80\x03", b"\x80\x05"):
        yield _wrong(entry.path, "pickled data runs code when it is loaded")
    elif suffix in _PACKED or entry.data.startswith((b"PK\x03\x04", b"\x1f\x8b", b"Rar!")):
        yield from _packed(entry, suffix)
    elif len(entry.data) > LARGEST_TEXT and suffix != ".csv" and b"\0" not in entry.data[:4096]:
        yield _wrong(entry.path, f"{len(entry.data):,} bytes of text would drown its reader")


def _packed(entry: Entry, suffix: str) -> Iterator[Finding]:
    if suffix not in _OFFICE and suffix != ".zip":
        yield _wrong(entry.path, "an archive inside: what is in it was not looked at")
        return
    try:
        with zipfile.ZipFile(io.BytesIO(entry.data)) as archive:
            inside = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        yield _wrong(entry.path, "an archive that cannot be read")
        return
    if sum(each.file_size for each in inside) > max(50 << 20, 100 * len(entry.data)):
        yield _wrong(entry.path, "an archive that unpacks to a hundred times its size")
    unsafe = [
        each.filename
        for each in inside
        if each.filename.startswith("/")
        or ".." in each.filename
        or PurePosixPath(each.filename).suffix.casefold()
        in _BINARY | _PACKED | {".py", ".sh", ".js", ".pth", ".ps1"}
        or "vbaProject" in each.filename
    ]
    if unsafe:
        yield _wrong(entry.path, f"an archive with programs or odd names in it: {unsafe[0]!r}")


def _nested(entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.path != "SKILL.md" and PurePosixPath(entry.path).name == "SKILL.md":
            yield _wrong(entry.path, "a skill inside the skill would be loaded beside it")


def _circles(entries: Sequence[Entry], name: str) -> Iterator[Finding]:
    """Files that include each other without end; a skill that needs itself."""
    includes: dict[str, list[str]] = {}
    for entry in entries:
        if entry.path.endswith((".md", ".txt", ".yaml", ".yml")):
            around = PurePosixPath(entry.path).parent
            includes[entry.path] = [
                _plain(around / found) for found in _INCLUDE.findall(entry.text)
            ]
    for start in includes:
        if _returns(start, includes):
            yield _wrong(start, "files that include each other in a circle")
            break
    own = next((entry.text for entry in entries if entry.path == "SKILL.md"), "")
    called = re.search(r"\bskill_(?:view|call)\(\s*(?:name\s*=\s*)?[\"']([\w-]+)", own)
    if name and called and called[1] == name:
        yield _wrong("SKILL.md", "it tells its reader to open itself again, without end")


def _plain(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return "/".join(parts)


def _returns(start: str, includes: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(includes.get(start, []))
    while waiting:
        path = waiting.pop()
        if path == start:
            return True
        if path not in seen:
            seen.add(path)
            waiting += includes.get(path, [])
    return False
