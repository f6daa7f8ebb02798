"""The state of a session's shell, kept in our memory: what a command gives back, and what the next
one takes over.

A command that ran unconfined was allowed as it is, and so is the state that it leaves. A confined
command may have been misjudged, and could leave a function named `systemctl` for a later command
that is allowed to do anything. So of its state, an unconfined command takes over plain variables
and the working folder only; confined commands take over all of it, unless it changed a variable
that decides which code runs: no command does that which the policy let run confined.
"""

import os
import re
from collections.abc import Mapping
from shlex import quote

from hermes.environments.shell import FOLDER_MARK, folder_in

LARGEST = 8 * 1024 * 1024
"""Bytes of a state; a larger one is not taken over."""

_WORD = rb"""(?:"(?:[^"\\$`]|\\[\\"$`])*"|\$'(?:[^'\\]|\\.)*')"""
_KEY = rb"""(?:\[(?:\d+|[\w.-]+|%s)\]=)""" % _WORD
_VARIABLE = re.compile(
    rb"declare (-[-A-Za-z]+) ([A-Za-z_]\w*)(?:=(%s|\((?:%s%s ?)*\)))?\n" % (_WORD, _KEY, _WORD),
    re.DOTALL,
)
_FIRST = re.compile(rb'^declare -a __hermes_first=\(((?:\[\d+\]="[A-Za-z_]\w*" ?)*)\)$', re.M)
_NAME = re.compile(rb'"([A-Za-z_]\w*)"')
_UMASK = re.compile(rb"^umask (0?[0-7]{3,4})$", re.M)
_LAST = re.compile(rb"\b__hermes_last=(\d{1,3}) ")
_PLAIN_ATTRIBUTES = frozenset(b"-xaAr")
"""Exported, arrays, read-only. Integers and references run code when they are assigned."""
_STEERING = re.compile(
    rb"PATH|IFS|ENV|HOME|CDPATH|GLOBIGNORE|PS[0-9]|PROMPT_.*|BASH.*|SHELL.*|TMPDIR|TERMINFO.*"
    rb"|LD_.*|DYLD_.*|GLIBC_.*|GCONV_.*|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|LESS.*|MAN.*"
    rb"|.*(?:PAGER|EDITOR|VISUAL|BROWSER|SHELL|OPTS|OPTIONS|PRELOAD|WRAPPER|HOOK|COMMAND|CONFIG"
    rb"|_?HOME|_PATH|PATH|_DIR|ROOT|LIB|PROXY|proxy|ASKPASS|RC|STARTUP|INIT|HOST|URL)"
    rb"|(?:GIT|SSH|PYTHON|PERL|RUBY|NODE|NPM|JAVA|GO|RUST|CARGO|PG|PSQL|MYSQL|AWS|DOCKER|KUBE"
    rb"|XDG|SUDO|ANSIBLE|TF|TAR|GREP|RIPGREP|MAKE|CC|CXX|SYSTEMD|DBUS|CURL|WGET|SSL)\w*"
)
"""Variables that decide what other programs run or read: an unconfined command keeps its own."""

_DECIDES_CODE = re.compile(
    rb"PATH|ENV|BASH_ENV|PROMPT_COMMAND|LD_\w+|GCONV_PATH|PYTHON(?:PATH|HOME|STARTUP)|PERL5?(?:LIB|OPT)"
    rb"|RUBY(?:LIB|OPT)|NODE_(?:OPTIONS|PATH)|GIT_(?:EXEC_PATH|SSH\w*|CONFIG\w*|EXTERNAL_DIFF|ASKPASS)"
)
_ESCAPED = re.compile(rb"\\([\\\"$`])")


class ShellState:
    """What the next command takes over. `confined` says under what a command runs, or ran."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` are those that the first command is given."""
        given = variables or {}
        self._first = f"__hermes_first=({' '.join(quote(name) for name in given)})".encode()
        self._code = {
            name: value
            for name, value in ((os.fsencode(n), os.fsencode(v)) for n, v in given.items())
            if _DECIDES_CODE.fullmatch(name)
        }
        """Variables that decide which code runs, as the last unconfined command left them."""
        self._latest = b""
        self._unconfined: list[bytes] = []
        """What the last unconfined command gave back, in sections; empty before the first."""
        self._trusted: list[bytes] = []
        """The same with the plain variables of the confined commands since."""

    def source(self, *, confined: bool) -> bytes:
        """Text for bash to source."""
        if not self._latest:
            return self._first
        return self._latest if confined else b"".join(self._trusted)

    def take(self, returned: bytes, *, confined: bool) -> None:
        """One that is not whole leaves the state as it was: its command was killed."""
        _, *sections = returned.split(b"\0")
        if len(returned) > LARGEST or len(sections) != 4 or folder_in(sections[3]) is None:
            return
        if confined:
            harmless = self._harmless(sections)
            if harmless is None:
                return
            self._trusted = harmless
            if _deciding_code(sections[1]) != self._code:
                self._latest = b"".join(harmless)
                return
        else:
            self._unconfined = self._trusted = sections
            self._code = _deciding_code(sections[1])
        self._latest = b"".join(sections)

    @property
    def folder(self) -> str | None:
        """The working folder; None before the first command has ended."""
        return folder_in(self._latest)

    def _harmless(self, sections: list[bytes]) -> list[bytes] | None:
        """The state for an unconfined command after a confined one; None when it is forged."""
        head, found, _, tail = sections
        variables, first = _variables(found), _FIRST.search(head)
        if variables is None or first is None:
            return None
        kept = _variables(self._unconfined[1]) if self._unconfined else None
        known = _NAME.findall(first[1])
        merged = {name: text for name, text in variables.items() if not _STEERING.fullmatch(name)}
        merged |= {n: text for n, text in (kept or {}).items() if _STEERING.fullmatch(n)}
        gone = [name for name in known if kept is not None or not _STEERING.fullmatch(name)]
        mask = _UMASK.search(head)
        top = b"builtin unset -v " + b" ".join(gone) + b"\nbuiltin shopt -s extglob\n"
        top += first[0] + b"\n" + (b"umask " + mask[1] + b"\n" if mask else b"")
        code = self._unconfined[2] if self._unconfined else b"builtin shopt -u extglob\n"
        return [top, b"".join(merged.values()), code, _tail(tail)]


def _variables(text: bytes) -> dict[bytes, bytes] | None:
    """Each variable with the line that declares it; None where something else stands between."""
    found, place = {}, 0
    while place < len(text):
        match = _VARIABLE.match(text, place)
        if match is None:
            return None
        place = match.end()
        if _PLAIN_ATTRIBUTES.issuperset(match[1]):
            found[match[2]] = match[0]
    return found


def _deciding_code(text: bytes) -> dict[bytes, bytes]:
    """The variables that decide which code runs, with their values; a strange one as it stands."""
    found = {}
    for name, line in (_variables(text) or {}).items():
        if _DECIDES_CODE.fullmatch(name):
            _, _, value = line.rstrip(b"\n").partition(b"=")
            plain = value[:1] == value[-1:] == b'"'
            found[name] = _ESCAPED.sub(rb"\1", value[1:-1]) if plain else value
    return found


def _tail(given: bytes) -> bytes:
    folder, last = folder_in(given) or "/", _LAST.search(given)
    at = os.fsencode(quote(folder))
    status = last[1] if last else b"0"
    words = b"__hermes_flags='' __hermes_last=%s __hermes_at=%s __hermes_old=''" % (status, at)
    return words + FOLDER_MARK + os.fsencode(folder)
