"""How the parts of a foreign skill would be run: its scripts, build files and install hooks."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Entry

MOST = 24
_PROGRAMS = {".js": "node", ".mjs": "node", ".cjs": "node", ".pl": "perl", ".rb": "ruby",
             ".php": "php", ".lua": "lua"}  # fmt: skip
_HOOKS = (
    "preinstall",
    "install",
    "postinstall",
    "prepare",
    "prepublish",
    "pretest",
    "test",
    "start",
)


class Way(Value, frozen=True):
    file: str
    command: str


class _Manifest(Value, frozen=True):
    scripts: dict[str, str] = {}


def ways_of(entries: Sequence[Entry]) -> list[Way]:
    return [way for entry in entries if not entry.link for way in _ways(entry)][:MOST]


def _ways(entry: Entry) -> Iterator[Way]:
    path = PurePosixPath(entry.path)
    inner = shlex.quote(f"skill/{entry.path}")
    first = entry.data[:80].split(b"\n")[0]
    program = _PROGRAMS.get(path.suffix)
    if path.suffix in (".py", ".pyw") or (first.startswith(b"#!") and b"python" in first):
        yield Way(entry.path, f"python3 watch/driver.py {inner}")
    elif path.suffix in (".sh", ".bash") or (
        first.startswith(b"#!") and re.search(rb"sh\b", first)
    ):
        yield Way(entry.path, f"bash -x {inner} $GIVEN")
    elif program:
        yield Way(entry.path, f"{program} {inner} sample/notes.txt")
    elif path.name in ("Makefile", "makefile", "GNUmakefile"):
        folder = shlex.quote(str(PurePosixPath("skill") / path.parent))
        targets = " ".join(re.findall(r"^([\w-]+):(?!=)", entry.text, re.MULTILINE)[:6])
        yield Way(entry.path, f"make -k -C {folder} {targets} SHELL='/bin/bash -x'")
    elif path.name == "package.json":
        yield from _hooks(entry)
    elif path.suffix == ".ipynb":
        return


def _hooks(entry: Entry) -> Iterator[Way]:
    try:
        scripts = msgspec.json.decode(entry.data, type=_Manifest).scripts
    except msgspec.DecodeError:
        return
    folder = shlex.quote(str(PurePosixPath("skill") / PurePosixPath(entry.path).parent))
    for name in _HOOKS:
        if name in scripts:
            yield Way(entry.path, f"bash -xc {shlex.quote(f'cd {folder}; {scripts[name]}')}")
