"""Runs a command as root for the user of the service: the only program that sudo lets it run.

`hermes service install --sudo` copies this package to a folder that only root can change. Who has
become that user can start this program with any words, variables and files. So it decides by
itself, from files of root, and takes neither a verdict nor a profile from its caller:

- a command that `COMMANDS_FILE` lists, word for word, confined to the sockets listed there;
- one of `READING_PROGRAMS`, confined to reading the folders listed there, without their secrets.
"""

import os
import resource
import stat
import sys

from hermes.environments.confinement import kernel
from hermes.environments.confinement.enforcement import VerdictEnforcer
from hermes.environments.confinement.fork_server import check_confinement
from hermes.environments.confinement.hidden_files import ACCOUNT_FILES, find_hidden_files
from hermes.environments.confinement.messages import (
    ROOT_LAUNCHER_FOLDER,
    SUPPORT_OPTION,
    VerdictRules,
)
from hermes.environments.confinement.one_command import EXIT_NOT_RUN, run_supervised
from hermes.environments.confinement.verdict_paths import NAME_SERVICE_SOCKETS

COMMANDS_FILE = "/etc/hermes/sudo-commands"
SECRETS_FILE = f"{ROOT_LAUNCHER_FOLDER}/secret-files"
"""Patterns of files that no command may read, a line each."""
RUN_TIMEOUT_S = 300
"""The user of the service cannot end a process of root."""
READING_PROGRAMS = ("cat", "du", "grep", "head", "ls", "stat", "tail", "wc")
"""They start no other programs and run no code from files."""
PROGRAM_FOLDERS = ("/usr/bin", "/bin")
READER_FILES = (
    *("/usr/bin", "/bin", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/locale"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
)
"""What the reading programs need themselves."""
VARIABLES = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LOGNAME": "root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "SHELL": "/bin/sh",
    "USER": "root",
}
LIMITS = (
    *(resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE),
    *(resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC),
    *(resource.RLIMIT_RSS, resource.RLIMIT_SIGPENDING, resource.RLIMIT_STACK),
)
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class RootCommandRefused(Exception):
    """The command does not run as root. The message is for people."""


class RootCommandList:
    """What `COMMANDS_FILE` allows."""

    def __init__(self) -> None:
        self.confined: list[tuple[str, ...]] = []
        self.unconfined: list[tuple[str, ...]] = []
        self.sockets: list[str] = []
        self.folders: list[str] = []

    @classmethod
    def parse(cls, text: str) -> "RootCommandList":
        """Raises `RootCommandRefused` for a line that it does not understand."""
        found = cls()
        for number, line in enumerate(text.splitlines(), 1):
            kind, *words = line.partition("#")[0].split() or ("",)
            if kind.startswith("/"):
                found.confined.append((kind, *words))
            elif kind == "unconfined" and words and words[0].startswith("/"):
                found.unconfined.append(tuple(words))
            elif kind in ("socket", "read") and len(words) == 1 and words[0].startswith("/"):
                (found.sockets if kind == "socket" else found.folders).append(words[0])
            elif kind:
                raise RootCommandRefused(f"{COMMANDS_FILE}, line {number}: not understood: {line}")
        return found

    def find(self, words: "list[str]") -> "tuple[tuple[str, ...], bool] | None":
        """The listed command with the path of its program, and whether it is confined."""
        for confined, commands in ((True, self.confined), (False, self.unconfined)):
            for each in commands:
                names = (each[0], each[0].rpartition("/")[2])
                if words[0] in names and tuple(words[1:]) == each[1:]:
                    return each, confined
        return None

    def describe(self) -> str:
        """For Hermes: a line each, with commands as they are written after `sudo`."""
        kinds = (("confined", self.confined), ("unconfined", self.unconfined))
        lines = [
            f"{kind} {' '.join((each[0].rpartition('/')[2], *each[1:]))}"
            for kind, commands in kinds
            for each in commands
        ]
        lines += [f"reader {each}" for each in READING_PROGRAMS] if self.folders else []
        return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """`--support`, or the words of a command."""
    words = sys.argv[1:]
    try:
        _reset_process()
        listed = RootCommandList.parse(_read_file_of_root(COMMANDS_FILE))
        if words == [SUPPORT_OPTION]:
            reason, _ = check_confinement(VerdictEnforcer())
            if reason:
                raise RootCommandRefused(reason)
            os.write(1, listed.describe().encode())
            os._exit(0)
        os._exit(_run(words, listed))
    except (OSError, RootCommandRefused) as error:
        os.write(2, f"hermes: {error}\n".encode("utf-8", "replace"))
        os._exit(EXIT_NOT_RUN)


def _run(words: "list[str]", listed: RootCommandList) -> int:
    found = listed.find(words) if words else None
    if found is not None:
        argv, confined = found
        check_owner(argv[0])
        if not confined:
            os.execv(argv[0], argv)
        return _run_confined(_client_rules(listed), argv)
    if words and words[0] in READING_PROGRAMS and listed.folders:
        return _run_confined(_reader_rules(listed), (_find_reader(words[0]), *words[1:]))
    raise RootCommandRefused(
        f"`{' '.join(words)}` does not run as root: {COMMANDS_FILE} does not list it"
    )


def _run_confined(rules: VerdictRules, argv: "tuple[str, ...]") -> int:
    code, refusals = run_supervised(rules, list(argv), timeout_s=RUN_TIMEOUT_S)
    for line in refusals.decode("utf-8", "replace").splitlines():
        kind, what, *_ = [*line.split("\0"), ""]
        os.write(2, f"[refused: {kind} {what}]\n".encode())
    return code


def _client_rules(listed: RootCommandList) -> VerdictRules:
    """It may read all but secrets, and ask the supervisor of the services."""
    rules = VerdictRules()
    sockets = [*NAME_SERVICE_SOCKETS, *listed.sockets]
    rules.sockets = (*sockets, *map(os.path.realpath, listed.sockets))
    rules.hidden = find_hidden_files(ACCOUNT_FILES, ())
    return rules


def _reader_rules(listed: RootCommandList) -> VerdictRules:
    rules = VerdictRules()
    folders = [os.path.realpath(each) for each in listed.folders]
    for each in folders:  # what others put into it is refused when it leads elsewhere
        check_owner(os.path.dirname(each))  # noqa: PTH120
    rules.readable = (*READER_FILES, *folders)
    rules.sockets = NAME_SERVICE_SOCKETS
    rules.refused_reads = tuple(_read_file_of_root(SECRETS_FILE).splitlines())
    if not rules.refused_reads:
        raise RootCommandRefused(f"{SECRETS_FILE} is empty")
    return rules


def _find_reader(name: str) -> str:
    for folder in PROGRAM_FOLDERS:
        path = f"{folder}/{name}"
        if os.path.isfile(path):  # noqa: PTH113 - pathlib costs 8 ms
            check_owner(path)
            return path
    raise RootCommandRefused(f"{name} is not installed")


def check_owner(path: str) -> None:
    """Raises `RootCommandRefused` when a user other than root could put another file there."""
    for each in dict.fromkeys((path, os.path.realpath(path))):
        current = each
        while True:
            status = os.lstat(current)
            link = stat.S_ISLNK(status.st_mode)
            if status.st_uid != 0 or (not link and status.st_mode & WRITABLE_BY_OTHERS):
                raise RootCommandRefused(f"{current} can be changed by others than root")
            if current == "/":
                break
            current = os.path.dirname(current)  # noqa: PTH120


def _read_file_of_root(path: str) -> str:
    check_owner(path)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, encoding="utf-8") as file:
        return file.read()


def _reset_process() -> None:
    """Nothing of the caller stays but the output: neither variables, files, folder nor limits."""
    if os.geteuid() != 0:
        raise RootCommandRefused("this program runs as root only, through sudo")
    kernel.system_call("close_range", 3, 0xFFFFFFFF, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    kernel.libc().clearenv()
    for name, value in VARIABLES.items():
        os.putenv(name, value)
    os.chdir("/")
    os.umask(0o022)
    for each in LIMITS:  # daemons that an unconfined command starts inherit them
        try:
            resource.setrlimit(each, resource.prlimit(1, each))
        except ValueError:  # a container without CAP_SYS_RESOURCE; too low, the command only fails
            continue


if __name__ == "__main__":
    main()
