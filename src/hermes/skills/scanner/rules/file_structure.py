"""Checks names, sizes and types of files, disguised files, and text that expands when loaded."""

import codecs
import io
import lzma
import posixpath
import re
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from hermes.skills.format import MAX_SKILL_BYTES, MAX_SKILL_FILES
from hermes.skills.scanner.deobfuscation import normalize_text
from hermes.skills.scanner.finding import ScanFinding, SkillFile, is_large_data, line_number
from hermes.skills.scanner.shell_text import ShellPassage, check_shell, extract_shell_passages

MAX_TEXT_BYTES = 1 << 20
MAX_PATH_DEPTH = 8
_OFFICE_SUFFIXES = {
    ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".dotx", ".xltx", ".potx", ".epub",
}  # fmt: skip
_ARCHIVE_SUFFIXES = {
    ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".whl", ".egg",
}  # fmt: skip
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_AUTORUN_FILES = {
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
_AGENT_INSTRUCTION_FILES = {
    "claude.md", "agents.md", "gemini.md", ".cursorrules", ".windsurfrules", "hermes.md",
    "memory.md", "user.md", "soul.md", "copilot-instructions.md", ".mcp.json", "mcp.json",
}  # fmt: skip
_NOTES_FILES = {"memory.md", "user.md", "soul.md"}
"""Agents read them only in their home, under names in capitals; others are chapters of a manual."""
_BINARY_SUFFIXES = {
    ".so", ".pyd", ".dll", ".dylib", ".exe", ".pyc", ".pyo", ".jar", ".class", ".msi", ".scr",
    ".vbs", ".hta", ".lnk", ".o", ".a", ".ko", ".node", ".wasm", ".deb", ".rpm",
    ".apk", ".dmg", ".app", ".com",
}  # fmt: skip
_BATCH_SUFFIXES = {".bat", ".cmd"}
_PICKLE_SUFFIXES = {".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth.tar", ".marshal"}
_EXECUTABLE_MAGIC = (
    b"\x7fELF",
    b"MZ",
    b"\xfe\xed\xfa",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe",
)
_UNSAFE_NAME = re.compile(r"[\x00-\x1f\x7f$`;|&<>\"'*?\\(){}]|^-|/-|^\s|\s$|\.$")
_HARMLESS_DOTFILE = re.compile(
    r"\.(?:(?:git|docker|npm|helm|prettier|eslint)ignore|gitattributes|editorconfig|env\.(?:example|sample)|"
    r"(?:prettier|stylelint|markdownlint|shellcheck|pylint|yamllint|hadolint|tflint|sops|ansible-lint|golangci|"
    r"rubocop|spectral|vale|flake8|ruff|clang-format|clang-tidy|coverage|nv|commitlint|swiftlint|typos|taplo)"
    r"(?:rc)?(?:\.(?:ya?ml|json|toml|ini|hcl))?|python-version|node-version|ruby-version|tool-versions)"
)
"""Settings of formatters and similar tools: nothing runs them."""
_INCLUDE_DIRECTIVE = re.compile(
    r"(?:\{\{\s*include:?|@include|!include|<!--\s*include:?|\{%\s*include)\s*[\"']?([\w./-]+)"
)


def check_structure(entries: Sequence[SkillFile], name: str = "") -> Iterator[ScanFinding]:
    yield from _check_size(entries)
    yield from _check_name_collisions(entries)
    for entry in entries:
        yield from _check_path(entry.path)
        if entry.link:
            yield _structure_finding(
                entry.path, f"a link to {entry.link!r} is not copied with a skill"
            )
            continue
        yield from _check_file_type(entry)
    if not any(entry.path == "SKILL.md" for entry in entries):
        yield _structure_finding(
            "SKILL.md", "a skill needs a SKILL.md in its folder, and there is none"
        )
    yield from _check_nested_skills(entries)
    yield from _check_include_cycles(entries, name)


def _check_nested_skills(entries: Sequence[SkillFile]) -> Iterator[ScanFinding]:
    """Nothing loads them by themselves."""
    for entry in entries:
        if entry.path.endswith("/SKILL.md"):
            yield _structure_finding(entry.path, "a skill inside this one", blocks=False)


def _structure_finding(file: str, cause: str, *, line: int = 1, blocks: bool = True) -> ScanFinding:
    return ScanFinding("structure", file, line, cause, blocks)


def _check_size(entries: Sequence[SkillFile]) -> Iterator[ScanFinding]:
    size = sum(len(entry.data) for entry in entries)
    if len(entries) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        limit = f"at most {MAX_SKILL_FILES} files of {MAX_SKILL_BYTES >> 20} MiB in all"
        yield _structure_finding(".", f"too much: {len(entries)} files of {size:,} bytes; {limit}")


def _check_name_collisions(entries: Sequence[SkillFile]) -> Iterator[ScanFinding]:
    folded = Counter(unicodedata.normalize("NFKC", entry.path).casefold() for entry in entries)
    for path, count in folded.items():
        if count > 1:
            yield _structure_finding(
                path, "two files whose names differ only in case or Unicode form"
            )


def _check_path(path: str) -> Iterator[ScanFinding]:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        yield _structure_finding(path, "the name leads out of the skill")
    if len(parts) > MAX_PATH_DEPTH or len(path) > 240:
        yield _structure_finding(path, "nested too deeply, or too long a name")
    if any(_UNSAFE_NAME.search(part) for part in parts):
        yield _structure_finding(path, "a file name that a shell or a person could misread")
    if any(unicodedata.category(letter) in ("Cf", "Cc", "Co") for letter in path):
        yield _structure_finding(path, "a file name with invisible characters")


def _check_file_type(entry: SkillFile) -> Iterator[ScanFinding]:
    path = PurePosixPath(entry.path)
    name, suffix = path.name.casefold(), path.suffix.casefold()
    hidden = [part for part in path.parts if part.startswith(".") and part != ".gitkeep"]
    if suffix == ".pth":
        yield _structure_finding(entry.path, "Python runs a .pth file at every start")
    elif name in _AUTORUN_FILES:
        yield _structure_finding(entry.path, _AUTORUN_FILES[name])
    elif name in _AGENT_INSTRUCTION_FILES and not _is_chapter(path):
        # An agent reads it only while it works in this folder; it is scanned as text.
        read_here = name in ("agents.md", "claude.md", "gemini.md")
        cause = "it would affect agents beyond this skill"
        yield _structure_finding(entry.path, cause, blocks=not read_here)
    elif hidden:
        harmless = len(hidden) == 1 and bool(_HARMLESS_DOTFILE.fullmatch(name))
        cause = "a hidden file of settings" if harmless else "a hidden file is not copied"
        yield _structure_finding(entry.path, cause, blocks=not harmless)
    if suffix in _BINARY_SUFFIXES or entry.data.startswith(_EXECUTABLE_MAGIC):
        yield _structure_finding(
            entry.path, "a binary program that cannot be checked; include its source instead"
        )
    elif suffix in _BATCH_SUFFIXES:
        binary = b"\0" in entry.data
        cause = "a batch file for Windows: it is read, and not tried"
        yield _structure_finding(entry.path, cause, blocks=binary)
    elif suffix in _PICKLE_SUFFIXES or entry.data[:2] in (b"\x80\x04", b"\x80\x03", b"\x80\x05"):
        yield _structure_finding(entry.path, "pickled data runs code when it is loaded")
    elif suffix in _ARCHIVE_SUFFIXES or entry.data.startswith(
        (b"PK\x03\x04", b"\x1f\x8b", b"Rar!")
    ):
        yield from _check_archive(entry, suffix)
    elif (
        len(entry.data) > MAX_TEXT_BYTES
        and b"\0" not in entry.data[:4096]
        and not is_large_data(entry.path, len(entry.data))
    ):
        yield _structure_finding(
            entry.path, f"{len(entry.data):,} bytes of text are too much to read"
        )


def _is_chapter(path: PurePosixPath) -> bool:
    return path.name in _NOTES_FILES and len(path.parts) > 1


def unpack_nested_archives(entries: Sequence[SkillFile]) -> list[SkillFile]:
    """The files in nested tar archives, which are checked like all others.

    An archive with links, odd names, other archives or too much in it is left to the structure
    check, which blocks it.
    """
    found: list[SkillFile] = []
    for entry in entries:
        if entry.path.casefold().endswith(_TAR_SUFFIXES) and not entry.link:
            found += _unpack_tar(entry)
    return found


def _unpack_tar(entry: SkillFile) -> list[SkillFile]:
    found: list[SkillFile] = []
    left = MAX_SKILL_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(entry.data), mode="r:*") as archive:
            for member in archive:
                if member.isdir():
                    continue
                left -= member.size
                data = archive.extractfile(member) if member.isreg() else None
                nested = PurePosixPath(member.name).suffix.casefold() in _ARCHIVE_SUFFIXES
                if data is None or nested or left < 0 or len(found) >= MAX_SKILL_FILES:
                    return []
                path = f"{entry.path}/{member.name.removeprefix('./')}"
                executable = bool(member.mode & 0o100)
                found.append(
                    SkillFile(path=path, data=data.read(member.size), executable=executable)
                )
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError):
        return []
    return found


def _check_archive(entry: SkillFile, suffix: str) -> Iterator[ScanFinding]:
    if entry.path.casefold().endswith(_TAR_SUFFIXES) and (packed := _unpack_tar(entry)):
        cause = f"a nested archive: its {len(packed)} files were checked"
        yield _structure_finding(entry.path, cause, blocks=False)
        return
    if suffix not in _OFFICE_SUFFIXES and suffix != ".zip":
        yield _structure_finding(entry.path, "a nested archive: its content was not checked")
        return
    try:
        with zipfile.ZipFile(io.BytesIO(entry.data)) as archive:
            inside = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        yield _structure_finding(entry.path, "an archive that cannot be read")
        return
    if sum(each.file_size for each in inside) > max(50 << 20, 100 * len(entry.data)):
        yield _structure_finding(entry.path, "an archive that unpacks to a hundred times its size")
    programs = (
        _BINARY_SUFFIXES
        | _ARCHIVE_SUFFIXES
        | {".py", ".sh", ".js", ".pth", ".ps1", *_BATCH_SUFFIXES}
    )
    unsafe = [
        name
        for name in (each.filename for each in inside)
        if name.startswith("/")
        or ".." in name
        or "vbaProject" in name
        or PurePosixPath(name).suffix.casefold() in programs
    ]
    if unsafe:
        yield _structure_finding(
            entry.path, f"an archive with programs or odd names in it: {unsafe[0]!r}"
        )


def _check_include_cycles(entries: Sequence[SkillFile], name: str) -> Iterator[ScanFinding]:
    """Files that include each other, and a skill that refers to itself."""
    includes: dict[str, list[str]] = {}
    for entry in entries:
        if entry.path.endswith((".md", ".txt", ".yaml", ".yml")):
            around = posixpath.dirname(entry.path)
            includes[entry.path] = [
                posixpath.normpath(posixpath.join(around, found))
                for found in _INCLUDE_DIRECTIVE.findall(entry.text)
            ]
    try:
        TopologicalSorter(includes).prepare()
    except CycleError as error:
        yield _structure_finding(error.args[1][0], "files that include each other in a circle")
    own = next((entry.text for entry in entries if entry.path == "SKILL.md"), "")
    called = re.search(r"\bskill_(?:view|call)\(\s*(?:name\s*=\s*)?[\"']([\w-]+)", own)
    if name and called and called[1] == name:
        yield _structure_finding("SKILL.md", "it tells the agent to open it again, endlessly")


MAX_DISGUISE_SCAN_BYTES = 256 << 10
_BINARY_FORMATS = {
    "png": "a picture", "jpg": "a picture", "jpeg": "a picture", "gif": "a picture",
    "bmp": "a picture", "ico": "a picture", "icns": "a picture", "webp": "a picture",
    "tif": "a picture", "tiff": "a picture", "avif": "a picture", "heic": "a picture",
    "psd": "a picture", "woff": "a font", "woff2": "a font", "ttf": "a font", "otf": "a font",
    "eot": "a font", "mp3": "a sound", "wav": "a sound", "ogg": "a sound", "flac": "a sound",
    "m4a": "a sound", "mp4": "a film", "mov": "a film", "avi": "a film", "webm": "a film",
    "mkv": "a film", "pdf": "a document", "doc": "a document", "xls": "a document",
    "ppt": "a document", "sqlite": "a database", "parquet": "data", "npy": "data", "npz": "data",
    "onnx": "a model", "safetensors": "a model", "gguf": "a model",
}  # fmt: skip
_TEXT_FORMAT_HEADER = re.compile(r"%PDF-|\{\\rtf|version https://git-lfs")
"""Formats that may be plain text, and references to large files."""
_PLACEHOLDER_TEXT = re.compile(r"[\w .,:-]{0,60}\n?")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_DATA_SUFFIX_PATTERN = "|".join(
    [*_BINARY_FORMATS, "csv", "tsv", "json", "xml", "html", "css", "log", "svg", "md"]
)
_DATA_FILE_EXECUTION = re.compile(
    r"(?:^|[;&|(`]|\b(?:sudo|exec|nohup|then|do|else)\s)\s*"
    r"(?:source|\.|(?:ba|z|da|k)?sh|python3?|perl|ruby|node)\s+(?:-[a-bd-z]+\s+)*"
    rf"[\"']?([\w./~${{}}-]+\.(?:{_DATA_SUFFIX_PATTERN}))(?![\w.-])",
    re.MULTILINE,
)
_DATA_FILE_ARGUMENT = re.compile(
    r"[\[(]\s*[\"'](?:/\w+/)*(?:(?:ba|z|da|k)?sh|perl|ruby|node)[\"']\s*,[^\n]{0,160}?"
    rf"([\w./-]+\.(?:{_DATA_SUFFIX_PATTERN}))[\"']"
)


def check_disguised_files(entries: Sequence[SkillFile]) -> Iterator[ScanFinding]:
    for entry in entries:
        if entry.link or len(entry.data) > MAX_DISGUISE_SCAN_BYTES:
            continue
        yield from _check_disguised_file(entry)
        yield from _check_data_file_execution(entry)
    yield from _check_module_shadowing(entries)


def _check_disguised_file(entry: SkillFile) -> Iterator[ScanFinding]:
    """A picture that is readable text is disguised: a shell could run it."""
    format_name = _BINARY_FORMATS.get(PurePosixPath(entry.path).suffix.casefold().lstrip("."))
    text = _decode_text(entry.data) if format_name else ""
    if not text.strip() or _TEXT_FORMAT_HEADER.match(text):
        return
    cause = f"its name says {format_name}, and it is plain text"
    blocks = not _PLACEHOLDER_TEXT.fullmatch(text)
    yield _structure_finding(entry.path, cause, blocks=blocks)
    yield from check_shell(entry.path, ShellPassage(text, 1))


def _decode_text(data: bytes) -> str:
    """Empty when it is not readable text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if _CONTROL_CHARACTER.search(text) else normalize_text(text)


def _check_data_file_execution(entry: SkillFile) -> Iterator[ScanFinding]:
    text = _decode_text(entry.data)
    if not text:
        return
    found: list[tuple[int, str]] = []
    for passage in extract_shell_passages(entry.path, text):
        if not passage.only_mentioned and (ran := _DATA_FILE_EXECUTION.search(passage.text)):
            found.append((passage.line + passage.text.count("\n", 0, ran.start()), ran[1]))
    if entry.path.endswith((".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php")):
        for ran in _DATA_FILE_ARGUMENT.finditer(text):
            found.append((line_number(text, ran.start()), ran[1]))
    for line, name in found:
        cause = f"it runs {name[:60]!r}, whose name says that it is not a program"
        yield _structure_finding(entry.path, cause, line=line)


def _check_module_shadowing(entries: Sequence[SkillFile]) -> Iterator[ScanFinding]:
    """Next to a script, `json.py` is what its `import json` imports."""
    modules = [each for each in entries if each.path.endswith(".py") and not each.link]
    paths = [PurePosixPath(each.path) for each in modules]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    for module, path in zip(modules, paths, strict=True):
        if path.stem not in sys.stdlib_module_names or path.stem.startswith("__"):
            continue
        imports = re.compile(
            rf"^[ \t]*(?:import\s+(?:[\w., ]*[, ])?{path.stem}\b|from\s+{path.stem}\b)",
            re.MULTILINE,
        )
        for other, other_path in zip(modules, paths, strict=True):
            beside = other_path.parent == path.parent and other is not module
            started = path.parent not in packages or other.executable
            if beside and started and imports.search(other.text):
                cause = f"it replaces the Python module {path.stem!r} in {other.path!r}"
                yield _structure_finding(module.path, cause)
                break


MAX_EXPANDED_WORDS = 50_000
"""Words of a YAML file after its aliases are expanded."""
MAX_YAML_ANCHORS = 300
_YAML_ANCHOR = re.compile(r"(?<![\w\"'])&([A-Za-z_][\w-]*)(?=[\s\[{]|$)", re.MULTILINE)
_YAML_ALIAS = re.compile(r"(?<![\w\"'*])\*([A-Za-z_][\w-]*)(?=[\s,\]}]|$)", re.MULTILINE)
_XML_ENTITY = re.compile(r"<!ENTITY\b", re.IGNORECASE)
_ENCODING_COOKIE = re.compile(r"\A(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_ENCODING = re.compile(
    r"utf-?8(?:-sig)?|ascii|iso-?8859-?\d+|latin-?1|cp125\d|koi8-[ru]", re.I
)
_DEEP_NESTING = re.compile(r"[\[{(](?:[\[{(\s]){400}")


def check_expansion(path: str, text: str) -> Iterator[ScanFinding]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in (".yaml", ".yml") and count_expanded_words(text) > MAX_EXPANDED_WORDS:
        yield _structure_finding(path, "a few lines that expand without limit when loaded")
    if suffix in (".xml", ".svg", ".html", ".xhtml", ".plist", ".xsl") and _XML_ENTITY.search(text):
        yield _structure_finding(
            path, "it defines entities, which expand or include other files when loaded"
        )
    if _DEEP_NESTING.search(text):
        yield _structure_finding(path, "nested so deeply that loading it fails")
    declared = _ENCODING_COOKIE.match(text)
    if declared and not _is_plain_encoding(declared[1]):
        cause = f"Python reads it as {declared[1]!r}: what looks like a comment may be code"
        yield _structure_finding(path, cause)


def count_expanded_words(text: str) -> int:
    """The number of words after all aliases are expanded."""
    anchors = list(_YAML_ANCHOR.finditer(text))
    if len(anchors) > MAX_YAML_ANCHORS:
        return MAX_EXPANDED_WORDS + 1
    sizes: dict[str, int] = {}
    for anchor in anchors:
        inside = text[anchor.end() : _find_block_end(text, anchor.start())]
        sizes[anchor[1]] = len(inside.split()) + sum(
            sizes.get(each[1], 0) for each in _YAML_ALIAS.finditer(inside)
        )
    return sum(sizes.get(each[1], 0) for each in _YAML_ALIAS.finditer(text))


def _find_block_end(text: str, start: int) -> int:
    """The end of the block that begins on this line: the next line that is not indented deeper."""
    begin = text.rfind("\n", 0, start) + 1
    depth = len(text[begin:]) - len(text[begin:].lstrip(" "))
    rest = re.compile(rf"\n {{0,{depth}}}[^\s]").search(text, start)
    return rest.start() if rest else len(text)


def _is_plain_encoding(name: str) -> bool:
    try:
        return bool(_PLAIN_ENCODING.fullmatch(codecs.lookup(name).name))
    except LookupError:
        return False
