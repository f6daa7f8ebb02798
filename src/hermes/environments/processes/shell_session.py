"""Keeps the state of a session's shell in memory, and starts its commands with it.

The state that an unconfined command leaves is trusted like the command. A confined command may have
been misjudged, and could leave a function named `systemctl` for a later unconfined command. So an
unconfined command takes over only plain variables and the working folder from it. Confined commands
take over the whole state, unless it changed a variable that decides which code runs: no command
that the policy allowed to run confined does that.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from shlex import quote
from typing import Protocol

from hermes.core.messages import Value
from hermes.environments.processes.spawn import StartProgram, start_unconfined
from hermes.environments.shell import (
    FOLDER_MARK,
    MAX_INLINE_COMMAND_BYTES,
    SessionShell,
    ShellLaunch,
    check_argument,
    folder_in_state,
)
from hermes.plumbing.patterns import lazy_pattern

MAX_STATE_BYTES = 8 * 1024 * 1024
"""A larger state is not taken over."""

_QUOTED_WORD = rb"""(?:"(?:[^"\\$`]|\\[\\"$`])*"|\$'(?:[^'\\]|\\.)*')"""
_ARRAY_KEY = rb"""(?:\[(?:\d+|[\w.-]+|%s)\]=)""" % _QUOTED_WORD
_INDEXED_ARRAY = rb"(?s)\((?:\[\d+\]=%s ?)*\)" % _QUOTED_WORD
_VARIABLE_DECLARATION = rb"(?s)declare (-[-A-Za-z]+) ([A-Za-z_]\w*)(?:=(%s|\((?:%s%s ?)*\)))?\n" % (
    _QUOTED_WORD,
    _ARRAY_KEY,
    _QUOTED_WORD,
)
"""Compiled when the first command has ended, like the next long ones."""
_FIRST_NAMES = lazy_pattern(
    rb'^declare -a __hermes_first=\(((?:\[\d+\]="[A-Za-z_]\w*" ?)*)\)$', re.M
)
_QUOTED_NAME = lazy_pattern(rb'"([A-Za-z_]\w*)"')
_UMASK_LINE = lazy_pattern(rb"^umask (0?[0-7]{3,4})$", re.M)
_LAST_EXIT_CODE = lazy_pattern(rb"\b__hermes_last=(\d{1,3}) ")
_PLAIN_ATTRIBUTES = frozenset(b"-xaAr")
"""Exported, arrays, read-only. Assigning to integers and references can run code."""
_STEERING_VARIABLE = (
    rb"PATH|IFS|ENV|HOME|CDPATH|GLOBIGNORE|PS[0-9]|PROMPT_.*|BASH.*|SHELL.*|TMPDIR|TERMINFO.*"
    rb"|LD_.*|DYLD_.*|GLIBC_.*|GCONV_.*|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|LESS.*|MAN.*"
    rb"|.*(?:PAGER|EDITOR|VISUAL|BROWSER|SHELL|OPTS|OPTIONS|PRELOAD|WRAPPER|HOOK|COMMAND|CONFIG"
    rb"|_?HOME|_PATH|PATH|_DIR|ROOT|LIB|PROXY|proxy|ASKPASS|RC|STARTUP|INIT|HOST|URL)"
    rb"|(?:GIT|SSH|PYTHON|PERL|RUBY|NODE|NPM|JAVA|GO|RUST|CARGO|PG|PSQL|MYSQL|AWS|DOCKER|KUBE"
    rb"|XDG|SUDO|ANSIBLE|TF|TAR|GREP|RIPGREP|MAKE|CC|CXX|SYSTEMD|DBUS|CURL|WGET|SSL)\w*"
)
"""Variables that decide what programs run or read: not taken over by unconfined commands."""

_CODE_DECIDING_VARIABLE = re.compile(
    rb"PATH|ENV|BASH_ENV|PROMPT_COMMAND|LD_\w+|GCONV_PATH|PYTHON(?:PATH|HOME|STARTUP)|PERL5?(?:LIB|OPT)"
    rb"|RUBY(?:LIB|OPT)|NODE_(?:OPTIONS|PATH)|GIT_(?:EXEC_PATH|SSH\w*|CONFIG\w*|EXTERNAL_DIFF|ASKPASS)"
)
_ESCAPED_CHARACTER = lazy_pattern(rb"\\([\\\"$`])")


class ShellState:
    """The state for the next command. `confined` tells how that command runs or ran."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` are those of the first command."""
        given = variables or {}
        self._first = f"__hermes_first=({' '.join(quote(name) for name in given)})".encode()
        self._code = {
            name: value
            for name, value in ((os.fsencode(n), os.fsencode(v)) for n, v in given.items())
            if _CODE_DECIDING_VARIABLE.fullmatch(name)
        }
        """Variables that decide which code runs, as the last unconfined command left them."""
        self._taken = b"", False
        """What was returned last."""
        self._latest = b""
        self._unconfined: list[bytes] = []
        """The state of the last unconfined command, in sections; empty before the first."""
        self._trusted: list[bytes] = []
        """The same, with the plain variables of later confined commands."""

    def source(self, *, confined: bool) -> bytes:
        """The state as a script for bash."""
        if not self._latest:
            return self._first
        return self._latest if confined else b"".join(self._trusted)

    def take(self, returned: bytes, *, confined: bool) -> None:
        """Ignores an incomplete state, whose command was killed."""
        if (returned, confined) == self._taken:  # most commands change nothing
            return
        self._taken = returned, confined
        _, *sections = returned.split(b"\0")
        if (
            len(returned) > MAX_STATE_BYTES
            or len(sections) != 4
            or folder_in_state(sections[3]) is None
        ):
            return
        if confined:
            harmless = self._harmless(sections)
            if harmless is None:
                return
            self._trusted = harmless
            if _code_deciding_variables(sections[1]) != self._code:
                self._latest = b"".join(harmless)
                return
        else:
            self._unconfined = self._trusted = sections
            self._code = _code_deciding_variables(sections[1])
        self._latest = b"".join(sections)

    @property
    def folder(self) -> str | None:
        """The working folder; None before the first command has ended."""
        return folder_in_state(self._latest)

    def _harmless(self, sections: list[bytes]) -> list[bytes] | None:
        """The state for an unconfined command after a confined one; None when it is forged."""
        head, found, _, tail = sections
        variables, first = _parse_variables(found), _FIRST_NAMES.search(head)
        if variables is None or first is None:
            return None
        kept = _parse_variables(self._unconfined[1]) if self._unconfined else None
        known = _QUOTED_NAME.findall(first[1])
        merged = {
            name: text
            for name, text in variables.items()
            if not re.fullmatch(_STEERING_VARIABLE, name)
        }
        merged |= {
            n: text for n, text in (kept or {}).items() if re.fullmatch(_STEERING_VARIABLE, n)
        }
        gone = [
            name for name in known if kept is not None or not re.fullmatch(_STEERING_VARIABLE, name)
        ]
        mask = _UMASK_LINE.search(head)
        top = b"builtin unset -v " + b" ".join(gone) + b"\nbuiltin shopt -s extglob\n"
        top += first[0] + b"\n" + (b"umask " + mask[1] + b"\n" if mask else b"")
        code = self._unconfined[2] if self._unconfined else b"builtin shopt -u extglob\n"
        return [top, b"".join(merged.values()), code, _state_tail(tail)]


def _parse_variables(text: bytes) -> dict[bytes, bytes] | None:
    """Each variable with the line that declares it; None if there is other text."""
    found, position = {}, 0
    declaration = re.compile(_VARIABLE_DECLARATION)
    while position < len(text):
        match = declaration.match(text, position)
        if match is None:
            return None
        position = match.end()
        value = match[3] or b""
        if value[:1] == b"(" and b"A" not in match[1] and not re.fullmatch(_INDEXED_ARRAY, value):
            return None  # bash computes other subscripts, which can run a command
        if _PLAIN_ATTRIBUTES.issuperset(match[1]):
            found[match[2]] = match[0]
    return found


def _code_deciding_variables(text: bytes) -> dict[bytes, bytes]:
    """The variables that decide which code runs, with their values; unparsed if unusual."""
    found = {}
    for name, line in (_parse_variables(text) or {}).items():
        if _CODE_DECIDING_VARIABLE.fullmatch(name):
            _, _, value = line.rstrip(b"\n").partition(b"=")
            plain = value[:1] == value[-1:] == b'"'
            found[name] = _ESCAPED_CHARACTER.sub(rb"\1", value[1:-1]) if plain else value
    return found


def _state_tail(given: bytes) -> bytes:
    folder, last = folder_in_state(given) or "/", _LAST_EXIT_CODE.search(given)
    at = os.fsencode(quote(folder))
    status = last[1] if last else b"0"
    words = b"__hermes_flags='' __hermes_last=%s __hermes_at=%s __hermes_old=''" % (status, at)
    return words + FOLDER_MARK + os.fsencode(folder)


SCRIPT_DESCRIPTOR, STATE_IN_DESCRIPTOR, STATE_OUT_DESCRIPTOR = 185, 186, 187
"""Descriptors of a shell: a command too long for an argument, the state before and after it."""
_MIN_COPY_DESCRIPTOR = 200
"""Copies get numbers from here on, so that no descriptor is overwritten."""


class ConfinementStarter(Protocol):
    """Starts the commands of one verdict."""

    preferred: Mapping[str, str]
    """Variables that keep programs from writing outside of what is allowed."""

    def starter(self, tree: str, files: tuple[str, ...]) -> StartProgram:
        """`files` are our own, which the command may write whatever its verdict."""


class PreparedCommand(Value, frozen=True):
    """A command that can be started, once."""

    launch: ShellLaunch
    variables: Mapping[str, str]
    files: Mapping[int, int]
    begin: StartProgram
    finish: Callable[[], None]
    """Called when the command has ended: takes over the new state."""

    async def start(self, *, stdin: int | None, output: int) -> int:
        variables = {**self.variables, **self.launch.variables}
        return await self.begin(
            self.launch.argv, variables, stdin=stdin, output=output, files=self.files
        )


class ShellSession(Value, frozen=True):
    shell: SessionShell
    variables: Mapping[str, str]
    state: ShellState
    confinement: ConfinementStarter | None = None

    @contextmanager
    def prepare(
        self, command: str, *, tree: str, cwd: str = "", exit_file: str = "", tty: str = ""
    ) -> Iterator[PreparedCommand]:
        confined = self.confinement is not None
        with ExitStack() as stack:
            command, files = _shorten_command(stack, command)
            files |= {
                STATE_IN_DESCRIPTOR: _memory_file(stack, self.state.source(confined=confined))
            }
            given = files[STATE_OUT_DESCRIPTOR] = _memory_file(stack)
            launch = self.shell.launch(
                command,
                tree=tree,
                cwd=cwd,
                exit_file=exit_file,
                tty=tty,
                descriptors=(STATE_IN_DESCRIPTOR, STATE_OUT_DESCRIPTOR),
                preferred=self.confinement.preferred if self.confinement else None,
            )
            own = tuple(path for path in (exit_file, tty) if path and path != os.devnull)
            begin = self.confinement.starter(tree, own) if self.confinement else start_unconfined

            def finish() -> None:
                # A buffer of the largest size would be mapped and unmapped for each command.
                size = min(os.fstat(given).st_size, MAX_STATE_BYTES + 1)
                self.state.take(os.pread(given, size, 0), confined=confined)

            yield PreparedCommand(launch, self.variables, files, begin, finish)


def _memory_file(stack: ExitStack, content: bytes | None = None) -> int:
    """An open file without a name; with content, it is sealed against changes."""
    if not hasattr(os, "memfd_create"):
        made, path = tempfile.mkstemp(prefix="hermes-state-")
        os.unlink(path)  # noqa: PTH108
    else:
        made = os.memfd_create("hermes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    copy = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _MIN_COPY_DESCRIPTOR)
    os.close(made)
    stack.callback(os.close, copy)
    if content is not None:
        written = 0
        while written < len(content):
            written += os.pwrite(copy, content[written:], written)
        if hasattr(os, "memfd_create"):
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
    return copy


def _shorten_command(stack: ExitStack, command: str) -> tuple[str, dict[int, int]]:
    """A command that is too long for an argument is passed in a file."""
    check_argument(command)
    if (
        len(command) <= MAX_INLINE_COMMAND_BYTES
        and len(os.fsencode(command)) <= MAX_INLINE_COMMAND_BYTES
    ):
        return command, {}
    return f". /dev/fd/{SCRIPT_DESCRIPTOR}", {
        SCRIPT_DESCRIPTOR: _memory_file(stack, os.fsencode(command))
    }
