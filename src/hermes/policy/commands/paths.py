"""Resolves and classifies paths: secrets, devices, system folders, our own files."""

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from posixpath import dirname, normpath
from typing import Any, TypeVar

from hermes.policy.commands.effects import PathLookup
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    GLOB_QUESTION,
    GLOB_SET,
    GLOB_STAR,
    LIVE_GLOB,
    NON_EMPTY_WORD,
    SYSTEM_NAME,
    UNKNOWN_TEXT,
    literal_text,
)  # fmt: skip
from hermes.policy.commands.tables import path_lists

Answer = TypeVar("Answer")
FileAnswers = dict[tuple[Callable[[str], Any], str], Any]
"""What was asked about a path, and the answer."""

_DISCARDING_DEVICE = re.compile(
    r"/dev/(?:null|stdout|stderr|stdin|tty|full|zero|u?random|fd/.*|pts/.*)\Z|/proc/self/fd/\d+\Z"
)
_BLOCK_DEVICE = re.compile(
    r"/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk|md\d|md/|dm-|mapper/|disk/|loop\d|nbd|rbd|zd\d"
    r"|sr\d|st\d|mem\Z|kmem\Z|port\Z|root\Z|block/|bcache|drbd|vg|[a-z]+-vg/|VolGroup)"
)
_HERMES_SECRET_FILES = ("/audit.key", "/.env")
_HOMES = re.compile(r"/(?:home|Users)(?:/[^/]+)?\Z")
_NETWORK_PATH = re.compile(r"/dev/(?:tcp|udp)/|/inet[46]?/")
_KERNEL_PATH = re.compile(r"/(?:proc|sys)/")
_TEMPORARY_PATH = re.compile(
    r"(?:/private)?/(?:tmp|var/tmp|dev/shm|run/user/\d+)/.|.*/(?:node_modules|__pycache__|\.cache|build|dist"
    r"|target|\.venv|venv|\.tox|\.pytest_cache|\.mypy_cache|\.terraform|coverage|tmp|\.next|cache)"
    r"(?:/|\Z)"
)

_SERVICE_PATH = re.compile(
    r".*\.sock(?:et)?(?:\.lock)?\Z|.*/\.s\.PGSQL\.\d+(?:\.lock)?\Z|.*/ssh-\w+/agent\."
    r"|(?:/private)?/(?:tmp|var/tmp|run/user/\d+)/(?:\.(?:X11|ICE|font|XIM|Test)-unix|\.X\d+-lock"
    r"|tmux-\d+|screens?|systemd-private-[^/]*|snap-private-tmp|ssh-\w{8,}|dbus-\w+|hsperfdata_\w+"
    r"|pulse-\w+|\.java_pid\d+)(?:/|\Z)"
)
"""Sockets and lock files of services, and the folders that they are in."""
_SERVICE_SAMPLES = tuple(
    f"{folder}/{name}"
    for folder in ("/tmp", "/var/tmp")
    for name in ("tmux-0", "systemd-private-1", "ssh-XXXXXXXXXX", ".X11-unix", ".s.PGSQL.5432")
)
_MAX_LISTED_FILES = 1000
_PROCESS_ROOT_LINK = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd)(?=/|\Z)")


def resolve_path(word: str, cwd: str) -> str:
    """The absolute path, as far as known; links in /proc are resolved."""
    path = _absolute(word, cwd)
    while path.startswith("/proc/") and (through := _PROCESS_ROOT_LINK.match(path)):
        path = path[through.end() :] or "/"
    return path


def _absolute(word: str, cwd: str) -> str:
    if not word.startswith("/"):
        if word[:1] in (ANY_WORD, ANY_WORDS, NON_EMPTY_WORD, "~"):
            return word
        word = f"{cwd}/{word}"
    if word == "/" or "/" not in word:
        return word
    clean = normpath(word) if ("//" in word or "/." in word or word.endswith("/")) else word
    return clean[1:] if clean.startswith("//") else clean


def discards_writes(path: str) -> bool:
    """Return whether writing to it changes nothing."""
    return path.startswith(("/dev/", "/proc/")) and _DISCARDING_DEVICE.match(path) is not None


def is_block_device(path: str) -> bool:
    if not path.startswith("/dev"):
        return False
    if LIVE_GLOB.search(path) or UNKNOWN_TEXT.search(path):
        pattern = _glob_pattern(path)
        return any(pattern.match(sample) for sample in ("/dev/sda", "/dev/nvme0n1", "/dev/vda"))
    return _BLOCK_DEVICE.match(path) is not None


def is_network_path(path: str) -> bool:
    return _NETWORK_PATH.match(path) is not None


def is_kernel_path(path: str) -> bool:
    return _KERNEL_PATH.match(path) is not None


def is_temporary(path: str) -> bool:
    return _TEMPORARY_PATH.match(path) is not None


def count_hard_links(path: str) -> int:
    """The number of names of a regular file; 0 if it does not exist."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return 0
    return status.st_nlink if stat.S_ISREG(status.st_mode) else 0


def socket_at(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def holds_socket(folder: str) -> bool:
    """Return whether there is a socket right inside the folder."""
    try:
        with os.scandir(folder) as entries:
            return any(socket_at(each.path) for each in islice(entries, _MAX_LISTED_FILES))
    except (OSError, ValueError):
        return False


def is_known_path(path: str) -> bool:
    return UNKNOWN_TEXT.search(path) is None


def with_unknown_emptied(path: str) -> str:
    """The path if everything unknown in it is empty: the worst case of an unset variable."""
    return normpath(UNKNOWN_TEXT.sub("", path) or "/")


def _glob_pattern(path: str) -> re.Pattern[str]:
    """A path with wildcards as a pattern. A wildcard does not match a slash."""
    parts = {GLOB_STAR: "[^/]*", GLOB_QUESTION: "[^/]", GLOB_SET: "["}
    wild = dict.fromkeys((ANY_WORD, ANY_WORDS, NON_EMPTY_WORD, SYSTEM_NAME), "[^/]*")
    text = "".join(
        (parts | wild).get(letter)
        or ("]" if letter == "]" and GLOB_SET in path else re.escape(letter))
        for letter in path
    )
    try:
        return re.compile(text.replace("[!", "[^").replace("[[", r"[\[") + r"\Z")
    except re.error:
        return re.compile(r".*\Z", re.S)


@dataclass(frozen=True)
class PathPatternLists:
    """The path lists of the tables, compiled for one home folder."""

    secret: re.Pattern[str]
    public: re.Pattern[str]
    devices: re.Pattern[str]
    samples: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    """Names of secret files, each with the folder it is in; empty: in any folder."""
    system: re.Pattern[str]
    precious: tuple[str, ...]
    vital: re.Pattern[str]
    trusted: frozenset[str]


def _glob_meets(path: str, own: str, *, tree: bool) -> bool:
    """Return whether wildcards match a path or one below it; `tree`: or one above it."""
    parts, wanted = path.split("/"), own.split("/")
    reached = all(
        _glob_pattern(part).match(want) for part, want in zip(parts, wanted, strict=False)
    )
    return reached and (tree or len(parts) >= len(wanted))


def _one_level(glob: str) -> str:
    """A pattern whose `*` does not match slashes."""
    return re.escape(glob).replace(r"\*", "[^/]*") + r"\Z"


def _name_pattern(glob: str) -> str:
    """What follows the last slash is for the name alone: `*` does not match slashes there."""
    folder, _, name = glob.rpartition("/")
    if folder in ("", "*"):
        return rf"(?s:.*/)?{_one_level(name)}"
    inside = re.escape(folder).replace(r"\*", ".*") + ("/(?:.*/)?" if "*" in name else "/")
    return rf"(?s:{inside}){_one_level(name)}"


def _name_of(glob: str, fill: str) -> tuple[str, str]:
    folder, _, name = glob.rpartition("/")
    if folder == "*":
        return "", name.replace("*", fill)
    return (folder.partition("*")[0] if folder[:1] == "/" else "*"), name.replace("*", fill)


@lru_cache(maxsize=16)
def path_pattern_lists(home: str) -> PathPatternLists:
    listed = path_lists()
    secrets = [glob.replace("~", home, 1) if glob[0] == "~" else glob for glob in listed["secrets"]]
    return PathPatternLists(
        secret=re.compile("|".join(map(translate, secrets))),
        public=re.compile(
            f"(?!{'|'.join(map(_name_pattern, listed['private']))})"
            f"(?:{'|'.join(map(_name_pattern, listed['public']))})"
        ),
        devices=re.compile("|".join(map(translate, listed["devices"]))),
        samples=tuple(glob.replace("*", fill) for glob in secrets for fill in ("", "1")),
        names=tuple(_name_of(glob, fill) for glob in secrets for fill in ("", "1")),
        system=re.compile("|".join(map(_one_level, [*listed["system"], home]))),
        precious=tuple(listed["precious"]),
        vital=re.compile("|".join(map(_one_level, listed["vital"]))),
        trusted=frozenset(listed["trusted"]),
    )


_VIRTUAL_ENVIRONMENT = re.compile(r"/\.env/((?:bin|lib|lib64|share|include)/|pyvenv\.cfg\Z)")


_RECORDS = ("journal.db", "search.db", "memory.db")


@dataclass(frozen=True)
class PathClassifier:
    """Classifies paths by the tables and the caller's own files."""

    home: str
    own: tuple[str, ...] = ()
    lookup: PathLookup | None = None
    work: str = ""
    """The working folder of the task."""
    answers: FileAnswers = field(default_factory=dict, compare=False)
    """All that the file system was asked: nothing else here depends on more than the text."""

    def _ask(self, question: Callable[[str], Answer], path: str) -> Answer:
        if (question, path) not in self.answers:
            self.answers[question, path] = question(path)
        answer: Answer = self.answers[question, path]
        return answer

    def is_temporary_path(self, path: str) -> bool:
        """Temporary files, except those in the working folder."""
        among = is_temporary(self.work) and self.work not in ("/tmp", "/var/tmp")
        mine = path == self.work or path.startswith(f"{self.work}/")
        return is_temporary(path) and not (among and mine)

    @property
    def _known(self) -> PathPatternLists:
        return path_pattern_lists(self.home)

    def real_path(self, path: str) -> str:
        """The path with resolved symlinks, if a lookup is available."""
        if self.lookup is None or not path.startswith("/") or UNKNOWN_TEXT.search(path):
            return path
        return self._ask(self.lookup, path)

    def with_real_path(self, path: str) -> tuple[str, ...]:
        real = self.real_path(path)
        return (path,) if real == path else (path, real)

    def is_secret(self, path: str) -> bool:
        if "/.env/" in path:
            # A virtual environment: its name makes nothing in it secret, but also nothing public.
            path = _VIRTUAL_ENVIRONMENT.sub(r"/env/\1", path)
        if self._aims_at_secret(path) or self.is_own_record(path):
            return True
        if LIVE_GLOB.search(path):
            return self._hides_secret(path)
        plain = literal_text(path)
        return bool(self._known.secret.match(plain)) and not self._known.public.match(plain)

    def is_own_record(self, path: str) -> bool:
        """Our journal and the databases beside it, with the conversations of everybody."""
        folder, _, name = path.rpartition("/")
        if ".db" not in name and not LIVE_GLOB.search(name):
            return False
        journals = [own.rpartition("/")[0] for own in self.own if own.endswith("/journal.db")]
        if folder in journals and LIVE_GLOB.search(name):
            return any(_glob_meets(path, f"{folder}/{known}", tree=False) for known in _RECORDS)
        return (folder in journals and name.startswith(_RECORDS)) or (
            path in self.own and ".db" in name
        )

    def is_device(self, path: str) -> bool:
        """A device that contains files, memory or input, and no plain one such as /dev/null."""
        return path.startswith(("/dev/", "/proc/k")) and bool(
            self._known.devices.match(literal_text(path))
        )

    def _aims_at_secret(self, path: str) -> bool:
        """Return whether files in folders that are not known, or a wildcard, include a secret by
        name."""
        head, _, name = path.rpartition("/")
        above, anywhere, _ = path.partition(SYSTEM_NAME)
        if name in (SYSTEM_NAME, GLOB_STAR):  # all of a tree, as `find` lists it
            return self.may_contain_secrets(head) and (name == SYSTEM_NAME or head in ("", "/"))
        wild = LIVE_GLOB.search(name)
        if not (wild or anywhere) or UNKNOWN_TEXT.search(name) or (wild and wild.start() < 2):
            return False
        pattern = _glob_pattern(name)
        return any(
            pattern.match(known) and (not folder or (anywhere and f"{folder}/".startswith(above)))
            for folder, known in self._known.names
            if known
        )

    def _hides_secret(self, path: str) -> bool:
        """Return whether a wildcard matches a secret, and not only by chance."""
        name = path.rpartition("/")[2]
        if self._known.secret.match(literal_text(path)) and not self._known.public.match(
            literal_text(path)
        ):
            return True
        aimed = len(LIVE_GLOB.sub("", name)) >= 2
        pattern = _glob_pattern(path)
        if any(pattern.match(own) for own in self.own if own.endswith(_HERMES_SECRET_FILES)):
            return True
        return any(
            pattern.match(sample)
            for sample in self._known.samples
            if aimed or sample.startswith(("/etc/", "/root/", f"{self.home}/.", "/proc/"))
        )

    def may_contain_secrets(self, path: str) -> bool:
        """A folder that contains secrets."""
        plain = literal_text(path).rstrip("/") or "/"
        if any(
            own.startswith(f"{plain}/") for own in self.own if own.endswith(_HERMES_SECRET_FILES)
        ):
            return True
        return plain in ("/", "/etc", "/root", "/proc", self.home, "/*") or bool(
            _HOMES.match(plain)
        )

    def may_hold_secret_file(self, path: str) -> bool:
        """A folder that contains secrets, or in which a known one lies."""
        plain = literal_text(path).rstrip("/")
        return self.may_contain_secrets(path) or any(
            sample.startswith(f"{plain}/") for sample in self._known.samples
        )

    def is_system_tree(self, path: str) -> bool:
        """The root folder, one of its main folders, or a wildcard for all of it."""
        plain = literal_text(path).rstrip("*") or "/"
        return bool(self._known.system.match(plain.rstrip("/") or "/"))

    def is_precious(self, path: str) -> bool:
        """Part of a folder that the machine or its data depends on."""
        plain = literal_text(path)
        return any(plain == one or plain.startswith(one + "/") for one in self._known.precious)

    def is_vital(self, path: str) -> bool:
        """A file that the machine needs."""
        return bool(self._known.vital.match(literal_text(path)))

    def is_own_file(self, path: str, *, tree: bool = False) -> bool:
        """One of our own policy, audit or configuration files; `tree`: or a folder above one."""
        plain = literal_text(path)
        if plain.startswith("~"):
            plain = self.home + plain[1:]
        for own in self.own:
            if plain == own or plain.startswith(own + "/"):
                return True
            if tree and (own.startswith(plain.rstrip("/") + "/") or plain == "/"):
                return True
            if LIVE_GLOB.search(path) and _glob_meets(path, own, tree=tree):
                return True
            if (unknown := UNKNOWN_TEXT.search(plain)) and plain[: unknown.start()] in (
                f"{own.rpartition('/')[0]}/",
                f"{own}/",
            ):
                return True
        return False

    def holds_own_file(self, path: str) -> bool:
        """Return whether a tree written there could replace our own files.

        Policies of the project count only where there are some: every archive that is unpacked in
        the working folder could bring a folder for them.
        """
        plain = literal_text(path)
        missing = frozenset(
            own
            for own in self.own
            if own.startswith(f"{self.work.rstrip('/')}/")
            and (self.lookup is None or not self._ask(os.path.lexists, own))
        )
        above = f"{plain.rstrip('/')}/"
        if not any(own.startswith(above) for own in missing):
            return self.is_own_file(path, tree=True)
        return any(own.startswith(above) for own in self.own if own not in missing)

    def is_above_home_files(self, path: str) -> bool:
        """Return whether it is above our own files, those of the project excepted: these belong to
        it."""
        above = f"{literal_text(path).rstrip('/')}/"
        return any(
            own.startswith(above) for own in self.own if not own.startswith(f"{self.work}/.hermes/")
        )

    def repository_policies(self, folder: str) -> str:
        """Policies of the project in the work tree around a folder; empty when there are none."""
        if self.lookup is None or not is_known_path(folder):
            return ""
        place, above = folder, ""
        while place != above:
            if self._ask(os.path.lexists, f"{place}/.hermes/policies"):
                return f"{place}/.hermes/policies"
            if self._ask(os.path.lexists, f"{place}/.git"):
                break
            above, place = place, dirname(place)
        inside = (own for own in self.own if own.startswith(f"{place}/"))
        return next((own for own in inside if self._ask(os.path.lexists, own)), "")

    def mentions_own_file(self, text: str) -> bool:
        """Return whether a text, such as code, mentions one of our files."""
        return any(own in text or self._short(own) in text for own in self.own)

    def _short(self, own: str) -> str:
        return own.removeprefix(self.home + "/") if own.startswith(self.home + "/") else own

    def has_other_names(self, path: str) -> bool:
        """Return whether a file has hard links, if a lookup is available."""
        looked_up = self.lookup is not None and is_known_path(path)
        return looked_up and self._ask(count_hard_links, path) > 1

    def may_be_folder(self, path: str) -> bool:
        """True as well where there is nobody to ask."""
        if self.lookup is None or not is_known_path(path):
            return True
        return self._ask(os.path.isdir, path)

    def belongs_to_service(self, path: str, *, tree: bool = False) -> bool:
        """A socket or a lock file, or a folder for such, which a wildcard may match; `tree`: or any
        folder with a socket in it."""
        if _SERVICE_PATH.match(path):
            return True
        if LIVE_GLOB.search(path):
            pattern = _glob_pattern(path)
            return any(map(pattern.match, _SERVICE_SAMPLES))
        looked_up = self.lookup is not None and is_known_path(path)
        return looked_up and (
            self._ask(socket_at, path) or (tree and self._ask(holds_socket, path))
        )

    def agent_may_have_written(self, path: str) -> bool:
        """Folders that an agent may write to: temporary folders, the working folder, the home."""
        return any(
            is_temporary(each) or each == root or each.startswith(f"{root}/")
            for each in self.with_real_path(path)
            for root in (self.home, self.work or self.home)
        )

    def is_trusted_configuration(self, path: str) -> bool:
        """A file in the settings of the user or of the system, or where the agent writes nothing.

        In a session at home or above it, hidden files and those of the system are not written
        without a question either."""
        return all(map(self._holds_trusted_settings, self.with_real_path(path)))

    def _holds_trusted_settings(self, path: str) -> bool:
        if not is_known_path(path) or is_temporary(path) or path.startswith(("/dev/", "/proc/")):
            return False
        folder = self.work.rstrip("/")
        in_work = path.startswith(f"{folder}/")
        if path.startswith("/etc/"):
            return True
        if path.startswith(f"{self.home}/"):
            settings = path.startswith(f"{self.home}/.")
            return settings and not (in_work and folder.startswith(f"{self.home}/."))
        return not in_work

    def is_trusted_folder(self, folder: str) -> bool:
        """A folder with programs of the system."""
        return folder in self._known.trusted
