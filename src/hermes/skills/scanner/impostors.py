"""Files that are not what their names say: text as a picture, a module under Python's own name."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import Entry, Finding
from hermes.skills.scanner.hidden_text import plain
from hermes.skills.scanner.shell_text import Passage, look_at_shell, passages

LARGEST = 256 << 10
_OPAQUE = {
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
_HONEST = re.compile(r"%PDF-|\{\\rtf|version https://git-lfs")
"""Formats that may be plain text, and what stands in for a large file."""
_STAND_IN = re.compile(r"[\w .,:-]{0,60}\n?")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_DATA = "|".join([*_OPAQUE, "csv", "tsv", "json", "xml", "html", "css", "log", "svg", "md"])
_RUN = re.compile(
    r"(?:^|[;&|(`]|\b(?:sudo|exec|nohup|then|do|else)\s)\s*"
    r"(?:source|\.|(?:ba|z|da|k)?sh|python3?|perl|ruby|node)\s+(?:-[a-bd-z]+\s+)*"
    rf"[\"']?([\w./~${{}}-]+\.(?:{_DATA}))(?![\w.-])",
    re.MULTILINE,
)
_STARTED = re.compile(
    r"[\[(]\s*[\"'](?:/\w+/)*(?:(?:ba|z|da|k)?sh|perl|ruby|node)[\"']\s*,[^\n]{0,160}?"
    rf"([\w./-]+\.(?:{_DATA}))[\"']"
)


def look_for_impostors(entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.link or len(entry.data) > LARGEST:
            continue
        yield from _disguised(entry)
        yield from _run_as_program(entry)
    yield from _own_names(entries)


def _disguised(entry: Entry) -> Iterator[Finding]:
    """A picture that can be read is none; a shell reads it very well."""
    says = _OPAQUE.get(PurePosixPath(entry.path).suffix.casefold().lstrip("."))
    text = _text(entry.data) if says else ""
    if not text.strip() or _HONEST.match(text):
        return
    cause = f"its name says {says}, and it is plain text"
    blocks = not _STAND_IN.fullmatch(text)
    yield Finding(kind="structure", file=entry.path, line=1, cause=cause, blocks=blocks)
    yield from look_at_shell(entry.path, Passage(text, 1))


def _text(data: bytes) -> str:
    """Empty for anything but readable text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if _CONTROL.search(text) else plain(text)


def _run_as_program(entry: Entry) -> Iterator[Finding]:
    text = _text(entry.data)
    if not text:
        return
    for passage in passages(entry.path, text):
        if not passage.spoken and (found := _RUN.search(passage.text)):
            line = passage.line + passage.text.count("\n", 0, found.start())
            yield _runs(entry.path, line, found[1])
    if entry.path.endswith((".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php")):
        for found in _STARTED.finditer(text):
            yield _runs(entry.path, text.count("\n", 0, found.start()) + 1, found[1])


def _runs(path: str, line: int, what: str) -> Finding:
    cause = f"it runs {what[:60]!r}, whose name says that it is no program"
    return Finding(kind="structure", file=path, line=line, cause=cause)


def _own_names(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Beside a script, `json.py` is what its `import json` brings in."""
    modules = [each for each in entries if each.path.endswith(".py") and not each.link]
    packages = {
        PurePosixPath(each.path).parent
        for each in modules
        if each.path.rpartition("/")[2] == "__init__.py"
    }
    for module in modules:
        path = PurePosixPath(module.path)
        if path.stem not in sys.stdlib_module_names or path.stem.startswith("__"):
            continue
        imports = re.compile(
            rf"^[ \t]*(?:import\s+(?:[\w., ]*[, ])?{path.stem}\b|from\s+{path.stem}\b)",
            re.MULTILINE,
        )
        for other in modules:
            beside = PurePosixPath(other.path).parent == path.parent and other is not module
            started = path.parent not in packages or other.executable
            if beside and started and imports.search(other.text):
                cause = f"it takes the place of Python's own {path.stem!r} in {other.path!r}"
                yield Finding(kind="structure", file=module.path, line=1, cause=cause)
                break
