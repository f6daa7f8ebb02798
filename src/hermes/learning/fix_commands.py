"""Turns what people changed into commands that repeat it, each with its undo.

A change of a value becomes a command that sets this value and nothing else, so that it also fits a
file with other lines. Anything else becomes a command that writes the whole file.
"""

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.playbook.schema import UNDO_FOLDER_PARAMETER

KEPT = f"{{{{{UNDO_FOLDER_PARAMETER}}}}}"
MAX_FILE_CHARS = 8_000
SED_DELIMITER = "|"
UNIT_FOLDER, RELOAD_UNITS = "/systemd/", "systemctl daemon-reload"
_ASSIGNMENT = re.compile(r"^(\s*(?:export\s+)?[\w./-]+(?:\s*[=:]\s*|\s+))(\S.*?)?\s*$")
_ABSURD_VALUE = re.compile(r"0+(?:\.0+)?|-1|10{4,}|9{4,}")
ASSIGNED = "[[:space:]]*[=:[:space:]][[:space:]]*"
"""An extended regular expression for what stands between a name and its value."""
MIN_SHARED_FOLDERS = 2
"""Of a file that was moved: below /opt alone, a file of this name may belong to another service."""
PATH = re.compile(r"/[A-Za-z0-9_./@+-]+")
_SED_PATTERN = re.compile(r"([\\^$.*\[\]|])")
_SED_REPLACEMENT = re.compile(r"([\\&|])")


class FixedFile(Value, frozen=True, kw_only=True):
    """One file, link or folder before and after the fix; None: it did not exist."""

    path: str
    failing: str | None = None
    fixed: str | None = None
    owner: str = ""
    """`uid:gid` that people set; empty where it did not change."""
    failing_owner: str = ""
    mode: str = ""
    failing_mode: str = ""
    new_mode: str = "644"
    """For a file that the fix creates."""
    link: str = ""
    """What it names, for a link that people set."""
    failing_link: str = ""


class FixCommand(Value, frozen=True, kw_only=True):
    command: str
    undo: str = ""
    restarts: bool = False


class CannotRepeatError(Exception):
    """The change has no command that repeats it."""


class ValueEdit(Value, frozen=True, kw_only=True):
    """One line of a file in which a value was set."""

    path: str
    key: str
    """All before the value, with the sign of assignment."""
    value: str
    failing_value: str | None
    """None: the line was missing."""

    @property
    def has_absurd_value(self) -> bool:
        """Whether the wrong value is wrong on any host and under any name: none, all or an absurd
        amount of something."""
        before = self.failing_value or ""
        plain = re.fullmatch(r"[\w.-]+", self.value) and re.fullmatch(r"\w+", self.name)
        return plain is not None and _ABSURD_VALUE.fullmatch(before) is not None

    @property
    def moved_path(self) -> tuple[str, str] | None:
        """The wrong path and the right one, where the value differs in one path: in one part of
        it, or in where the file of this name lies below a folder."""
        old, new = (self.failing_value or "").split(), self.value.split()
        words = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
        if len(old) != len(new) or len(words) != 1 or not all(map(PATH.fullmatch, words[0])):
            return None
        before, after = (each.split("/") for each in words[0])
        parts = [one != other for one, other in zip(before, after, strict=False)]
        same_depth = len(before) == len(after) and sum(parts) == 1
        shared = [*parts, True].index(True) - 1
        deeper = before[-1] == after[-1] and shared >= MIN_SHARED_FOLDERS
        return words[0] if same_depth or deeper else None

    @property
    def pattern(self) -> str:
        """An extended regular expression for its line up to the value, however it is spaced."""
        return f"[[:space:]]*{self.name}{ASSIGNED}"

    @property
    def name(self) -> str:
        """The key alone."""
        return re.sub(r"^\s*(?:export\s+)?|\s*[=:]\s*$|\s+$", "", self.key)


def fix_commands(files: Sequence[FixedFile]) -> list[FixCommand]:
    """Raises `CannotRepeatError`."""
    found: list[FixCommand] = []
    for number, each in enumerate(files, 1):
        made = list(_commands_of(each, f"{KEPT}/{number}"))
        found += map(_with_reload, made) if UNIT_FOLDER in each.path else made
    return found


def _with_reload(made: FixCommand) -> FixCommand:
    """The manager of units reads a changed definition only on request."""
    undo = f"{made.undo}; {RELOAD_UNITS}" if made.undo else ""
    return replace(made, command=f"{made.command} && {RELOAD_UNITS}", undo=undo)


def value_edits(file: FixedFile) -> list[ValueEdit] | None:
    """Return None where the change is more than values of single lines."""
    if file.failing is None or file.fixed is None:
        return None
    old, new = file.failing.splitlines(), file.fixed.splitlines()
    found = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            continue
        pairs = _pair_lines(old[start:end], new[new_start:new_end])
        if pairs is None or (tag == "insert" and not _has_assignments_only(old)):
            return None
        found += [
            ValueEdit(path=file.path, key=key, value=value, failing_value=before)
            for key, value, before in pairs
        ]
    return found


def _pair_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str, str | None]] | None:
    """Key, value and earlier value of each new line; None unless each old line has a new one."""
    before: dict[str, str] = {}
    for line in old:
        matched = _ASSIGNMENT.match(line)
        if matched is None or not line.strip():
            return None
        before[matched[1]] = matched[2] or ""
    found: list[tuple[str, str, str | None]] = []
    for line in new:
        matched = _ASSIGNMENT.match(line)
        if matched is None or not matched[2]:
            return None
        found.append((matched[1], matched[2], before.pop(matched[1], None)))
    return None if before else found


def _has_assignments_only(lines: Sequence[str]) -> bool:
    """A line can be added at the end: the file has no sections."""
    plain = [line for line in lines if line.strip() and not line.lstrip().startswith(("#", ";"))]
    return all(re.match(r"\s*(?:export\s+)?[\w.-]+\s*=", line) for line in plain)


def _commands_of(file: FixedFile, kept: str) -> Iterator[FixCommand]:
    path = shlex.quote(file.path)
    keep = f"mkdir -p {KEPT} && cp -a {path} {kept}"
    if file.link:
        before = file.failing_link
        yield FixCommand(
            command=f"ln -sfn {shlex.quote(file.link)} {path}",
            undo=f"ln -sfn {shlex.quote(before)} {path}" if before else f"rm -f {path}",
        )
        return
    if file.fixed is None and file.failing is not None:
        yield FixCommand(
            command=f"mkdir -p {KEPT} && mv {path} {kept}",
            undo=f"[ ! -e {kept} ] || mv {kept} {path}",
        )
        return
    if file.failing is None and file.fixed is not None:
        yield _new_file(file, path, kept)
    elif file.failing != file.fixed:
        edits = value_edits(file)
        changes = [_set_value(each, path) for each in edits] if edits else [_whole_file(file, path)]
        yield FixCommand(
            command=" && ".join([keep, *changes]), undo=f"[ ! -e {kept} ] || cp -a {kept} {path}"
        )
    attributes = _attribute_commands(path, file.owner, file.mode)
    if attributes:
        undo = _attribute_commands(path, file.failing_owner, file.failing_mode)
        yield FixCommand(command=" && ".join(attributes), undo=" && ".join(undo))


def _set_value(edit: ValueEdit, path: str) -> str:
    if edit.failing_value is None:
        return f"echo {shlex.quote(edit.key + edit.value)} >> {path}"
    if edit.has_absurd_value:
        script = f"s{SED_DELIMITER}^({edit.pattern}).*{SED_DELIMITER}\\1{edit.value}{SED_DELIMITER}"
        return f"sed -i -E {shlex.quote(script)} {path}"
    if edit.moved_path:
        script = SED_DELIMITER.join(["s", *edit.moved_path, ""])
        return f"sed -i {shlex.quote(script)} {path}"
    pattern = _SED_PATTERN.sub(r"\\\1", edit.key)
    replacement = _SED_REPLACEMENT.sub(r"\\\1", edit.key + edit.value)
    script = f"s{SED_DELIMITER}^{pattern}.*{SED_DELIMITER}{replacement}{SED_DELIMITER}"
    return f"sed -i {shlex.quote(script)} {path}"


def _new_file(file: FixedFile, path: str, kept: str) -> FixCommand:
    """A link in its place is moved away: the text and the mode would go to what it names."""
    parent = shlex.quote(str(PurePosixPath(file.path).parent))
    commands = [
        f"mkdir -p {parent} {KEPT}",
        f"{{ [ ! -L {path} ] || mv {path} {kept}; }}",
        _whole_file(file, path),
        f"chmod {file.new_mode} {path}",
    ]
    undo = f"rm -f {path}; [ ! -L {kept} ] || mv {kept} {path}"
    return FixCommand(command=" && ".join(commands), undo=undo)


def _whole_file(file: FixedFile, path: str) -> str:
    text = file.fixed or ""
    if len(text) > MAX_FILE_CHARS:
        raise CannotRepeatError(f"{file.path} is too long to be part of a playbook")
    ending = "" if text.endswith("\n") else "\\c"
    return f"printf %b {shlex.quote(_escaped(text) + ending)} > {path}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("{{", "{\\x7b")


def _attribute_commands(path: str, owner: str, mode: str) -> list[str]:
    found = [f"chown -h {owner} {path}"] if owner else []
    return [*found, f"test ! -L {path} && chmod {mode} {path}"] if mode else found
