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
from collections.abc import Callable, Iterable, Iterator, Mapping
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
_NAME = re.compile(rb"[A-Za-z_]\w*")
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


_USUAL_CODE = b"builtin shopt -u extglob\n"
"""What a shell without functions, aliases and unusual options says about them."""


class ShellState:
    """The state for the next command. `confined` tells how that command runs or ran."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` are those that every command gets besides the state. Without them, each state
        itself has the names of the first ones."""
        given = {os.fsencode(n): os.fsencode(v) for n, v in (variables or {}).items()}
        self._given = {n: _exported(n, v) for n, v in given.items() if _NAME.fullmatch(n)}
        self._code = {n: v for n, v in given.items() if _CODE_DECIDING_VARIABLE.fullmatch(n)}
        """Variables that decide which code runs, as the last unconfined command left them."""
        self._kept = self._given or None
        """The variables of the last unconfined command."""
        self._kept_code = _USUAL_CODE
        self._taken = b"", False
        """What was returned last."""
        self._latest = self._trusted = b"" if self._given else b"__hermes_first=()"
        """The whole state, and that of the last unconfined command with the plain variables of
        later confined ones."""
        self.folder: str | None = None
        """The working folder; None before the first command has ended."""
        self.names = frozenset(map(os.fsdecode, self._given))
        """The names of the variables of the session."""

    def source(self, *, confined: bool) -> bytes:
        """The state as a script for bash."""
        return self._latest if confined else self._trusted

    def take(self, returned: bytes, *, confined: bool) -> None:
        """Ignores an incomplete state, whose command was killed."""
        if (returned, confined) == self._taken:  # most commands change nothing
            return
        self._taken = returned, confined
        _, *sections = returned.split(b"\0")
        if len(returned) > MAX_STATE_BYTES or len(sections) != 4:
            return
        folder, variables = folder_in_state(sections[3]), _parse_variables(sections[1])
        if folder is None:
            return
        code = _code_deciding_variables(variables)
        if confined:
            harmless = self._harmless(sections, variables)
            if harmless is None:
                return
            kept, self._trusted = harmless
            if code != self._code:
                self._latest, variables = self._trusted, kept
            else:
                self._latest = self._script(sections, variables)
        else:
            self._kept = self._kept if variables is None else variables
            self._kept_code, self._code = sections[2], code
            self._latest = self._trusted = self._script(sections, variables)
        self.folder = folder
        self.names = frozenset(map(os.fsdecode, variables or self._given))

    def _script(self, sections: list[bytes], variables: dict[bytes, bytes] | None) -> bytes:
        """The sections without what the next shell has anyway: bash needs 20 µs for a line."""
        if not self._given:
            return b"".join(sections)
        head, text, code, tail = sections
        missing: Iterable[bytes] = self._given
        if variables is not None:
            missing = [name for name in self._given if name not in variables]
            text = b"".join(
                line for name, line in variables.items() if line != self._given.get(name)
            )
        unset = b"builtin unset -v " + b" ".join(missing) + b"\n" if missing else b""
        if code != _USUAL_CODE:  # functions may need it to be read
            return b"".join((unset, head, text, b"builtin shopt -s extglob\n", code, tail))
        return b"".join((unset, head, text, tail))

    def _harmless(
        self, sections: list[bytes], variables: dict[bytes, bytes] | None
    ) -> tuple[dict[bytes, bytes], bytes] | None:
        """The variables and the state for an unconfined command after a confined one; None when
        its state is forged."""
        head, _, _, tail = sections
        plain = _plain_variables(variables)
        first = None if self._given else _FIRST_NAMES.search(head)
        if plain is None or not (self._given or first):
            return None
        merged = {
            name: line for name, line in plain.items() if not re.fullmatch(_STEERING_VARIABLE, name)
        }
        merged |= {
            name: line
            for name, line in (self._kept or {}).items()
            if re.fullmatch(_STEERING_VARIABLE, name)
        }
        mask = _UMASK_LINE.search(head)
        top = b"umask " + mask[1] + b"\n" if mask else b""
        if first is not None:
            top = self._unset_first(first) + top
        parts = [top, b"".join(merged.values()), self._kept_code, _state_tail(tail)]
        return merged, self._script(parts, merged)

    def _unset_first(self, first: "re.Match[bytes]") -> bytes:
        gone = [
            name
            for name in _QUOTED_NAME.findall(first[1])
            if self._kept is not None or not re.fullmatch(_STEERING_VARIABLE, name)
        ]
        unset = b"builtin unset -v " + b" ".join(gone)
        return unset + b"\nbuiltin shopt -s extglob\n" + first[0] + b"\n"


def _exported(name: bytes, value: bytes) -> bytes:
    """The line by which bash declares it; another one if it has control characters."""
    return b'declare -x %s="%s"\n' % (name, re.sub(rb'([\\"$`])', rb"\\\1", value))


def _parse_variables(text: bytes) -> dict[bytes, bytes] | None:
    """Each variable with the line that declares it; None if there is other text."""
    found, position = {}, 0
    declaration = re.compile(_VARIABLE_DECLARATION)
    while position < len(text):
        match = declaration.match(text, position)
        if match is None:
            return None
        position = match.end()
        found[match[2]] = match[0]
    return found


def _plain_variables(variables: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Those that run no code when they are declared; None if one was forged."""
    found = {}
    for name, line in (variables or {}).items():
        _, attributes, rest = line.split(b" ", 2)
        value = rest.rstrip(b"\n").partition(b"=")[2]
        if value[:1] == b"(" and b"A" not in attributes and not re.fullmatch(_INDEXED_ARRAY, value):
            return None  # bash computes other subscripts, which can run a command
        if _PLAIN_ATTRIBUTES.issuperset(attributes):
            found[name] = line
    return None if variables is None else found


def _code_deciding_variables(variables: dict[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The variables that decide which code runs, with their values; unparsed if unusual."""
    found = {}
    for name, line in (variables or {}).items():
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
                names=self.state.names,
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
