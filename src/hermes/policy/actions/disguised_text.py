"""Marks commands that print secrets in a form in which they are not recognised.

What a command prints is cleaned of secrets by their form. A program that is not known to keep lines
as they are may change it, so the source of the text decides: files are looked into, also compressed
ones. What cannot be looked into counts as a source of secrets. A program that prints parts of lines
leaves out the names by which values are recognised: small files that it reads are looked into. So
does one that may print words which other commands have read from files.
"""

import bz2
import fnmatch
import glob
import gzip
import lzma
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionStep
from hermes.policy.actions.confinement_profile import git_verb
from hermes.policy.commands.effects import word_set
from hermes.policy.programs.changed_form import changes_form
from hermes.policy.programs.printed_parts import (
    prints_names,
    prints_parts,
    prints_words,
    selected_lines,
)

CleanText = Callable[[str], str]
"""Returns a text without its secrets, and the text itself when it has none."""

MAX_SOURCE_BYTES = 8 << 20
"""A larger file is not looked into, and counts as one with secrets."""
MAX_SETTINGS_BYTES = 64 << 10
MAX_SEARCHED_LINE_CHARS = 400
_VALUE = re.compile(r"[^\s=:;,\"'{}\[\]<>]{4,}")
_MAX_FILES = 50
_MAX_FOLDERS = 100
_MAX_NAME_CHARS = 200
_OWN_FOLDER = re.compile(r"/proc/(?:self|thread-self|…)/(?:task/[^/]+/)?cwd/+")
_ITEM_WRAPPERS = word_set("xargs parallel")
_NAME_PRINTERS = word_set(
    "ls stat du df wc file readlink realpath basename dirname find fd tree md5sum sha1sum sha256sum"
    " sha512sum b2sum cksum sum date echo printf"
)
"""Programs that print about files, not what is in them."""
_TREE_READERS = word_set("grep egrep fgrep zgrep rg ag ack tar zip cpio 7z xargs")
_PRINTING_GIT_VERBS = word_set(
    "show log diff cat-file blame annotate grep stash archive whatchanged"
)
_SERVICE_CLIENTS = word_set(
    "kubectl oc docker podman nerdctl crictl helm psql mysql mariadb mongosh redis-cli"
    " valkey-cli nomad consul etcdctl vault aws gcloud az"
)
_LOG_READERS = word_set("journalctl coredumpctl dmesg last lastb")
_STATE_VERBS = word_set("ps images stats version info top events list history api-resources")
_WHOLE_OBJECTS = re.compile(r"(?:json|yaml|jsonpath|go-template|custom-columns)")
"""Formats that print whole objects, with their variables."""


def mark_disguised_text(
    steps: Sequence[ActionStep], clean: CleanText | None, folders: Sequence[str] = ()
) -> tuple[ActionStep, ...]:
    """`clean` is None for files that are not on this machine. `folders`: where it may run."""
    names = [posixpath.basename(step.program) for step in steps]
    restored = "rev" if names.count("rev") % 2 == 0 else ""
    disguising = [
        step
        for name, step in zip(names, steps, strict=True)
        if name != restored and changes_form(name, step.argv[1:])
    ]
    source = _find_source(steps, clean) if disguising else ""
    if not source and clean is not None:
        disguising = [
            step
            for name, step in zip(names, steps, strict=True)
            if name != restored and prints_parts(name, step.argv[1:])
        ]
        sources = steps if disguising else []
        if not disguising:
            disguising = [step for step in steps if _prints_read_words(step)]
            handed = any(_ITEM_WRAPPERS.intersection(step.via) for step in disguising)
            sources = [step for step in steps if step.captured or handed] if disguising else []
        source = _find_small_source(sources, clean, folders)
    if not source:
        return tuple(steps)
    return tuple(_mark(step, source) if step in disguising else step for step in steps)


def _prints_read_words(step: ActionStep) -> bool:
    words = step.argv[1:]
    unknown = "$" if step.program == "[" else "…"  # a test is kept as its text
    name = posixpath.basename(step.program)
    return any(unknown in word for word in words) and prints_words(name, words)


def _mark(step: ActionStep, source: str) -> ActionStep:
    name = posixpath.basename(step.program)
    why = f"{name} prints {source} in a form in which they are not recognised; print it as it is"
    return replace(
        step, effects=step.effects | {"secret-read"}, why=(*step.why, f"secret-read: {why}")
    )


def _find_source(steps: Sequence[ActionStep], clean: CleanText | None) -> str:
    """The first source of secrets in words, or empty."""
    for step in steps:
        name = posixpath.basename(step.program)
        if name in _SERVICE_CLIENTS and not _prints_state(step):
            return f"what {name} returns, possibly with secrets,"
        if name in _LOG_READERS:
            return f"what {name} prints, possibly with secrets,"
        if name == "git" and git_verb(step) in _PRINTING_GIT_VERBS:
            return "files and commits, possibly with secrets,"
        if name in _NAME_PRINTERS:
            continue
        for path in step.paths:
            if name not in _TREE_READERS and os.path.isdir(path):  # noqa: PTH112
                continue
            if path not in step.changes and (why := _why_secret(path, clean)):
                return why
    return ""


def _find_small_source(
    steps: Sequence[ActionStep], clean: CleanText, folders: Sequence[str]
) -> str:
    """The first small file with a value that only its name shows to be a secret.

    Logs and data are larger, and read all the time."""
    for step in steps:
        name = posixpath.basename(step.program)
        if prints_names(name, step.argv[1:]):
            continue
        if name in _NAME_PRINTERS and name not in ("echo", "printf"):
            continue
        selected = selected_lines(name, step.argv[1:])
        for path in (*step.paths, *_paths_in_words(step, folders)):
            for number, file in enumerate(filter(_is_small_file, _files_at(path, step.via))):
                if number >= _MAX_FILES:
                    return f"{path}, possibly with secrets,"
                if _names_secrets(file, selected, clean):
                    return f"secrets of {file}"
    return ""


def _paths_in_words(step: ActionStep, folders: Sequence[str]) -> Iterator[str]:
    """Files that its table does not take for such, and those by a link of a process."""
    reads = prints_parts(posixpath.basename(step.program), step.argv[1:])
    for word in step.argv[1:]:
        if link := _OWN_FOLDER.match(word):
            yield from (posixpath.join(each, word[link.end() :]) for each in folders)
        elif reads and not word.startswith("-") and len(word) < _MAX_NAME_CHARS:
            yield from (posixpath.join(each, word) for each in folders)


def _files_at(path: str, via: Sequence[str]) -> Iterable[str]:
    if path.startswith(("/dev/", "/proc/", "/sys/")):
        return ()
    folder, deep, name = path.partition("/…/")
    if not deep and "find" in via:
        folder, deep, name = path.rpartition("/")
    if deep and not re.search(r"[…*?\[]|^$", folder) and "…" not in name and "/" not in name:
        tree = islice(os.walk(folder), _MAX_FOLDERS)
        found = (f"{each}/{one}" for each, _, files in tree for one in fnmatch.filter(files, name))
        return found if name == "*" else islice(found, _MAX_FILES)
    if "…" in path:
        return ()
    return glob.glob(path) if re.search(r"[*?\[]", path) else [path]  # noqa: PTH207


def _names_secrets(path: str, selected: re.Pattern[str] | None, clean: CleanText) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read(MAX_SETTINGS_BYTES)
    except OSError:
        return True
    return any(
        _has_nameless_value(line, clean(line), clean)
        for line in text.splitlines()
        if selected is None or len(line) > MAX_SEARCHED_LINE_CHARS or selected.search(line)
    )


def _has_nameless_value(line: str, cleaned: str, clean: CleanText) -> bool:
    if line == cleaned:
        return False
    words = _VALUE.findall(line)
    return any(word not in cleaned and clean(word) == word for word in words)


def _is_small_file(path: str) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SETTINGS_BYTES


def _prints_state(step: ActionStep) -> bool:
    """Return whether a client prints a table of what runs: `docker ps`, `kubectl get pods`."""
    verb = next((word for word in step.argv[1:] if not word.startswith("-")), "")
    if posixpath.basename(step.program) not in ("kubectl", "oc"):
        return verb in _STATE_VERBS
    listing = verb == "get" or verb in _STATE_VERBS
    return listing and not any(map(_WHOLE_OBJECTS.search, step.argv))


def _why_secret(path: str, clean: CleanText | None) -> str:
    if path.startswith(("/dev/", "/proc/", "/sys/")):
        return ""
    if "…" in path or clean is None:
        return f"{path}, possibly with secrets,"
    found = glob.glob(path) if re.search(r"[*?\[]", path) else [path]  # noqa: PTH207
    if len(found) > _MAX_FILES:
        return f"{path}, possibly with secrets,"
    return next((f"secrets of {file}" for file in found if _may_hold_secrets(file, clean)), "")


def _may_hold_secrets(path: str, clean: CleanText) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            return stat.S_ISDIR(status.st_mode)
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_SOURCE_BYTES + 1)
        text = _unpack(data)
    except FileNotFoundError:
        return False
    except (OSError, EOFError, lzma.LZMAError, ValueError):
        return True
    if len(data) > MAX_SOURCE_BYTES or len(text) > MAX_SOURCE_BYTES:
        return True
    if text.startswith(b"\x7fELF"):
        return False
    words = text.decode("utf-8", "replace")
    return clean(words) != words


def _unpack(data: bytes) -> bytes:
    """The text of a compressed file. Raises `ValueError` for an archive with an index."""
    if data.startswith(b"PK\x03\x04"):
        raise ValueError("an archive")
    for start, unpacker in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma)):
        if data.startswith(start):
            with unpacker.open(BytesIO(data)) as file:
                unpacked: bytes = file.read(MAX_SOURCE_BYTES + 1)
                return unpacked
    return data
