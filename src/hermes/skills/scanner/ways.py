"""How the parts of a foreign skill would be run: its scripts, build files and install hooks."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Entry
from hermes.skills.scanner.run_by_others import commands_in

MOST = 24
_COUNTS = re.compile(r"\+\s*=?\s*1\b|\+\+|\bwc\b|st_size|getsize|\bstat\b|>>|\blen\(|\bsum\(")
_WANTED = re.compile(r"\$\{([A-Z][A-Z0-9_]{2,40}):?\?")
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
    given: tuple[str, ...] = ()
    """What its own text hands to it, one call each."""
    counts: bool = False
    """It can tell how often it was used."""
    wants: tuple[str, ...] = ()
    """Variables without which it does not begin."""
    script: str = ""
    """Commands that stand among settings, to be run as one."""


class _Manifest(Value, frozen=True):
    scripts: dict[str, str] = {}


def ways_of(entries: Sequence[Entry]) -> list[Way]:
    texts = "\n".join(each.text for each in entries if each.path.endswith((".md", ".txt")))
    found = [(way, entry) for entry in entries if not entry.link for way in _ways(entry)][:MOST]
    return [
        replace(
            way,
            given=tuple(_calls(texts, way.file)),
            wants=tuple(dict.fromkeys(_WANTED.findall(entry.text)))[:8],
            counts=bool(_COUNTS.search(entry.text)) and not way.script,
        )
        for way, entry in found
    ]


def _calls(texts: str, file: str) -> Iterator[str]:
    """The arguments with which the text calls a script, made so that they lead somewhere."""
    name = re.escape(PurePosixPath(file).name)
    for found in list(re.finditer(rf"{name}(?![\w.])[\"']?((?:[ \t]+[^\n`|;&>]*)?)", texts))[:4]:
        words = [_thing(word) for word in re.sub(r"\s#.*", "", found[1]).split()]
        if words and len(words) <= 12:
            yield " ".join(shlex.quote(word) for word in words)


def _thing(word: str) -> str:
    """A stand-in for a placeholder, a pattern, or a place outside."""
    word = word.strip("\"'[](),…").replace("...", "")
    if word.startswith("-") or re.fullmatch(r"[\d:.,x-]+", word):
        return word
    if "://" in word:
        return "http://127.0.0.1:9/"
    plain = re.sub(r"[^\w.-]", "x", word.rpartition("/")[2]).strip("-") or "notes.txt"
    return f"sample/{plain}" if re.search(r"[/.*<>$~]", word) or word.isupper() else plain


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
        yield Way(entry.path, f"bash -x {inner}")
    elif program:
        yield Way(entry.path, f"{program} {inner}")
    elif path.suffix == ".awk":
        yield Way(entry.path, f"awk -f {inner}")
    elif path.name in ("Makefile", "makefile", "GNUmakefile"):
        folder = shlex.quote(str(PurePosixPath("skill") / path.parent))
        targets = " ".join(re.findall(r"^([\w-]+):(?!=)", entry.text, re.MULTILINE)[:6])
        yield Way(entry.path, f"make -k -C {folder} {targets} SHELL='/bin/bash -x'")
    elif path.name == "package.json":
        yield from _hooks(entry)
    elif path.name == "playbook.yaml":
        script = re.sub(r"\{\{[^{}]*\}\}", "sample", commands_in(entry.path, entry.text))
        yield Way(entry.path, "bash -x watch/steps.sh", script=script)


def _hooks(entry: Entry) -> Iterator[Way]:
    try:
        scripts = msgspec.json.decode(entry.data, type=_Manifest).scripts
    except msgspec.DecodeError:
        return
    folder = shlex.quote(str(PurePosixPath("skill") / PurePosixPath(entry.path).parent))
    for name in _HOOKS:
        if name in scripts:
            yield Way(entry.path, f"bash -xc {shlex.quote(f'cd {folder}; {scripts[name]}')}")
