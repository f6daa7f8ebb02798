"""Finds clients of MySQL that would send a stored password to a server that it is not for.

The password in an option file goes to whatever server a command names, and in clear when that
server asks for it so.
"""

import glob
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from hermes.policy.commands.effects import word_set
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    find_program,
    parse_arguments,
)
from hermes.policy.programs.resource_access import PRIVILEGE_PROGRAMS, REMOTE_WRAPPERS

_CLIENTS = word_set(
    "mysql mariadb mycli mysqlsh mysqladmin mariadb-admin mysqlshow mariadb-show mysqldump"
    " mariadb-dump mysqlbinlog mariadb-binlog mysqlcheck mariadb-check mysqlimport mariadb-import"
    " mysqlslap mariadb-slap mytop innotop mysqltuner"
)
_SYSTEM_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf")
_FAMILY = ("mysql", "mariadb")
_MAX_FILES = 50
_MAX_FILE_CHARS = 64 << 10
_SETTING = re.compile(r"(?:loose-)?([a-z0-9-]+)(?:\s*=\s*(.*))?\Z")
_THIS_HOST = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORT = "3306"
_DEFAULT_SOCKETS = (
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
)


class _Login(NamedTuple):
    file: str
    """Where the password is."""
    host: str = ""
    port: str = ""
    socket: str = ""


def stored_password_sent(argv: Sequence[str], via: Sequence[str], home: str) -> str:
    """Why a password goes elsewhere, or empty. `via`: the wrappers around the command."""
    program = posixpath.basename(argv[0]) if argv else ""
    if program not in _CLIENTS or REMOTE_WRAPPERS.intersection(via):
        return ""
    words = [re.sub(r"\A--(?:loose|maximum)[-_]", "--", word) for word in argv[1:]]
    entry = find_program("mysql")
    found = parse_arguments(words, entry.grammar if entry else OptionGrammar())
    target = _Login(
        "",
        _given(found, "-h", "--host") or next(filter(_is_address, found.words), ""),
        _given(found, "-P", "--port"),
        _given(found, "-S", "--socket"),
    )
    if target == _Login("") or found.has("-p", "--password", "--skip-password"):
        return ""
    homes = [home, "/root"] if PRIVILEGE_PROGRAMS.intersection(via) else [home]
    only, extra = found.value("--defaults-file"), found.values("--defaults-extra-file")
    files = [only] if only else [*_SYSTEM_FILES, *extra, *(f"{each}/.my.cnf" for each in homes)]
    files = [] if found.has("--no-defaults") else [re.sub(r"\A~", home, each) for each in files]
    login = _find_login(files, program, [f"{each}/.mylogin.cnf" for each in homes])
    if login is None or _is_same_server(target, login):
        return ""
    named = " ".join(filter(None, target))
    return f"the password stored in {login.file} would go to another server, {named}"


def _given(found: ParsedArguments, *names: str) -> str:
    """The value of an option; of an abbreviation it may be anywhere."""
    return found.value(*names) or ("?" if found.has(*names) else "")


def _is_address(word: str) -> bool:
    return "@" in word or "://" in word


def _is_same_server(target: _Login, login: _Login) -> bool:
    host, known = target.host.lower(), login.host.lower() or "localhost"
    return (
        (not host or host == known or (host in _THIS_HOST and known in _THIS_HOST))
        and target.port in ("", login.port or _DEFAULT_PORT)
        and (target.socket in ("", login.socket) or target.socket in _DEFAULT_SOCKETS)
    )


def _find_login(files: Iterable[str], program: str, hidden: Sequence[str]) -> _Login | None:
    """The server for which a password is stored, with the file; None without a password.

    Which server is in a `hidden` file is not known, so it is no server that has a name."""
    settings: dict[str, str] = {}
    password = ""
    for file, name, value in _settings(files, program):
        settings[name] = value
        if value and name.startswith("pass") and name.rstrip("123") in "password":
            password = file
    for file in hidden:
        if _read_lines(file):
            return _Login(file, "?", "?", "?")
    if not password:
        return None
    return _Login(password, *(settings.get(name, "") for name in ("host", "port", "socket")))


def _settings(files: Iterable[str], program: str) -> Iterator[tuple[str, str, str]]:
    """File, name and value of each setting that the client reads."""
    own = {program.replace(one, other) for one in _FAMILY for other in _FAMILY}
    waiting = list(files)[::-1]
    for _ in range(_MAX_FILES):
        if not waiting:
            return
        path = waiting.pop()
        if "*" in path:
            waiting += sorted(glob.glob(path), reverse=True)  # noqa: PTH207
            continue
        group = ""
        for line in _read_lines(path):
            if line.startswith("["):
                group = line[1:].partition("]")[0].strip()
            elif line.startswith("!include"):
                word, _, place = line.partition(" ")
                waiting.append(place.strip() + ("/*.cnf" if word == "!includedir" else ""))
            elif _is_own(group, own) and (found := _SETTING.match(line)):
                yield path, found[1], (found[2] or "").strip().strip("'\"")


def _is_own(group: str, names: Collection[str]) -> bool:
    """Also with a suffix, which an option chooses."""
    return group.startswith(("client", *names)) and not re.match(r"(?:mysql|mariadb)d", group)


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = file.read(_MAX_FILE_CHARS).splitlines()
    except (OSError, ValueError):
        return []
    return [_with_dashes(line.strip()) for line in lines]


def _with_dashes(line: str) -> str:
    """`default_auth=x` is `default-auth=x`."""
    name, equals, value = line.partition("=")
    return line if line[:1] == "!" else name.replace("_", "-") + equals + value
