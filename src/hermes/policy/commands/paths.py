"""Where a path leads and what stands there: secrets, devices, system trees, our own files."""

import os
import re
import stat
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from posixpath import normpath

from hermes.policy.commands.marks import (
    ANY,
    GLOB,
    LOOSE,
    NAME,
    QUERY,
    SET,
    SOME,
    STAR,
    UNKNOWN,
    literal,
)  # fmt: skip
from hermes.policy.commands.tables import lists
from hermes.policy.commands.values import Lookup

_NOWHERE = re.compile(
    r"/dev/(?:null|stdout|stderr|stdin|tty|full|zero|u?random|fd/.*|pts/.*)\Z|/proc/self/fd/\d+\Z"
)
_DEVICE = re.compile(
    r"/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk|md\d|md/|dm-|mapper/|disk/|loop\d|nbd|rbd|zd\d"
    r"|sr\d|st\d|mem\Z|kmem\Z|port\Z|root\Z|block/|bcache|drbd|vg|[a-z]+-vg/|VolGroup)"
)
_OWN_SECRETS = ("/audit.key", "/.env")
_NETWORK = re.compile(r"/dev/(?:tcp|udp)/|/inet[46]?/")
_KERNEL = re.compile(r"/(?:proc|sys)/")
_TEMPORARY = re.compile(
    r"(?:/private)?/(?:tmp|var/tmp|dev/shm|run/user/\d+)/.|.*/(?:node_modules|__pycache__|\.cache|build|dist"
    r"|target|\.venv|venv|\.tox|\.pytest_cache|\.mypy_cache|\.terraform|coverage|tmp|\.next|cache)"
    r"(?:/|\Z)"
)

_SOCKET = re.compile(r"\.sock(?:et)?\Z|/\.s\.PGSQL\.\d+\Z|/\.X11-unix/|/tmux-\d+/|/ssh-\w+/agent\.")
_THROUGH_PROCESS = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd)(?=/|\Z)")


def resolve(word: str, cwd: str) -> str:
    """An absolute path as far as it is known; a way through /proc leads where it leads."""
    path = _absolute(word, cwd)
    while path.startswith("/proc/") and (through := _THROUGH_PROCESS.match(path)):
        path = path[through.end() :] or "/"
    return path


def _absolute(word: str, cwd: str) -> str:
    if not word.startswith("/"):
        if word[:1] in (ANY, LOOSE, SOME, "~"):
            return word
        word = f"{cwd}/{word}"
    if word == "/" or "/" not in word:
        return word
    clean = normpath(word) if ("//" in word or "/." in word or word.endswith("/")) else word
    return clean[1:] if clean.startswith("//") else clean


def nowhere(path: str) -> bool:
    """Writing there changes nothing."""
    return path.startswith(("/dev/", "/proc/")) and _NOWHERE.match(path) is not None


def device(path: str) -> bool:
    if not path.startswith("/dev"):
        return False
    if GLOB.search(path) or UNKNOWN.search(path):
        pattern = _globbed(path)
        return any(pattern.match(sample) for sample in ("/dev/sda", "/dev/nvme0n1", "/dev/vda"))
    return _DEVICE.match(path) is not None


def network(path: str) -> bool:
    return _NETWORK.match(path) is not None


def kernel(path: str) -> bool:
    return _KERNEL.match(path) is not None


def temporary(path: str) -> bool:
    return _TEMPORARY.match(path) is not None


def hard_links(path: str) -> int:
    """How many names a regular file has; 0 when there is none."""
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


def known(path: str) -> bool:
    return UNKNOWN.search(path) is None


def emptied(path: str) -> str:
    """The path if everything unknown in it were empty: the worst that an unset variable does."""
    return normpath(UNKNOWN.sub("", path) or "/")


def _globbed(path: str) -> re.Pattern[str]:
    """A path with live wildcards as a pattern. One wildcard does not cross a slash."""
    parts = {STAR: "[^/]*", QUERY: "[^/]", SET: "["}
    wild = dict.fromkeys((ANY, LOOSE, SOME, NAME), "[^/]*")
    text = "".join(
        (parts | wild).get(letter) or ("]" if letter == "]" and SET in path else re.escape(letter))
        for letter in path
    )
    try:
        return re.compile(text.replace("[!", "[^").replace("[[", r"[\[") + r"\Z")
    except re.error:
        return re.compile(r".*\Z", re.S)


@dataclass(frozen=True)
class Patterns:
    """The lists of places, compiled for one home folder."""

    secret: re.Pattern[str]
    public: re.Pattern[str]
    samples: tuple[str, ...]
    system: re.Pattern[str]
    precious: tuple[str, ...]
    vital: re.Pattern[str]
    trusted: frozenset[str]


def _meets(path: str, own: str, *, tree: bool) -> bool:
    """Whether wildcards reach a path or something below it; `tree`: or something above it."""
    parts, wanted = path.split("/"), own.split("/")
    reached = all(_globbed(part).match(want) for part, want in zip(parts, wanted, strict=False))
    return reached and (tree or len(parts) >= len(wanted))


def _one_level(glob: str) -> str:
    """A pattern whose `*` does not reach into folders below."""
    return re.escape(glob).replace(r"\*", "[^/]*") + r"\Z"


@lru_cache(maxsize=16)
def patterns(home: str) -> Patterns:
    listed = lists()
    secrets = [glob.replace("~", home, 1) if glob[0] == "~" else glob for glob in listed["secrets"]]
    return Patterns(
        secret=re.compile("|".join(map(translate, secrets))),
        public=re.compile("|".join(map(translate, listed["public"]))),
        samples=tuple(glob.replace("*", fill) for glob in secrets for fill in ("", "1")),
        system=re.compile("|".join(map(_one_level, [*listed["system"], home]))),
        precious=tuple(listed["precious"]),
        vital=re.compile("|".join(map(_one_level, listed["vital"]))),
        trusted=frozenset(listed["trusted"]),
    )


@dataclass(frozen=True)
class Places:
    """Paths that matter, from the tables and from the caller."""

    home: str
    own: tuple[str, ...] = ()
    lookup: Lookup | None = None
    work: str = ""
    """The folder it starts in, which the work is about."""

    def passing(self, path: str) -> bool:
        """Whether nobody will miss it: temporary files, but not the work that lies among them."""
        among = temporary(self.work) and self.work not in ("/tmp", "/var/tmp")
        mine = path == self.work or path.startswith(f"{self.work}/")
        return temporary(path) and not (among and mine)

    @property
    def _known(self) -> Patterns:
        return patterns(self.home)

    def real(self, path: str) -> str:
        """After symlinks, where there is somebody to ask."""
        if self.lookup is None or not path.startswith("/") or UNKNOWN.search(path):
            return path
        return self.lookup(path)

    def both(self, path: str) -> tuple[str, ...]:
        real = self.real(path)
        return (path,) if real == path else (path, real)

    def secret(self, path: str) -> bool:
        if GLOB.search(path):
            return self._hides_secret(path)
        plain = literal(path)
        return bool(self._known.secret.match(plain)) and not self._known.public.match(plain)

    def _hides_secret(self, path: str) -> bool:
        """Whether a wildcard reaches a secret by more than chance."""
        name = path.rpartition("/")[2]
        if self._known.secret.match(literal(path)) and not self._known.public.match(literal(path)):
            return True
        aimed = len(GLOB.sub("", name)) >= 2
        pattern = _globbed(path)
        if any(pattern.match(own) for own in self.own if own.endswith(_OWN_SECRETS)):
            return True
        return any(
            pattern.match(sample)
            for sample in self._known.samples
            if aimed or sample.startswith(("/etc/", "/root/", f"{self.home}/.", "/proc/"))
        )

    def harbours(self, path: str) -> bool:
        """A tree in which reading everything reads secrets."""
        plain = literal(path).rstrip("/") or "/"
        if any(own.startswith(f"{plain}/") for own in self.own if own.endswith(_OWN_SECRETS)):
            return True
        return plain in ("/", "/etc", "/home", "/root", "/proc", self.home, "/*", "/home/*")

    def sacred(self, path: str) -> bool:
        """The file system itself or one of its great trees, or a wildcard for all of it."""
        plain = literal(path).rstrip("*") or "/"
        return bool(self._known.system.match(plain.rstrip("/") or "/"))

    def dear(self, path: str) -> bool:
        """Part of a tree without which the machine or its data is lost."""
        plain = literal(path)
        return any(plain == one or plain.startswith(one + "/") for one in self._known.precious)

    def vital(self, path: str) -> bool:
        """A file whose content the machine cannot do without."""
        return bool(self._known.vital.match(literal(path)))

    def ours(self, path: str, *, tree: bool = False) -> bool:
        """One of our own policy, audit or configuration files; `tree`: or something above one."""
        plain = literal(path)
        if plain.startswith("~"):
            plain = self.home + plain[1:]
        for own in self.own:
            if plain == own or plain.startswith(own + "/"):
                return True
            if tree and (own.startswith(plain.rstrip("/") + "/") or plain == "/"):
                return True
            if GLOB.search(path) and _meets(path, own, tree=tree):
                return True
            if (unknown := UNKNOWN.search(plain)) and plain[: unknown.start()] in (
                f"{own.rpartition('/')[0]}/",
                f"{own}/",
            ):
                return True
        return False

    def mentions_ours(self, text: str) -> bool:
        """Our files named anywhere inside a text, such as code for an interpreter."""
        return any(own in text or self._short(own) in text for own in self.own)

    def _short(self, own: str) -> str:
        return own.removeprefix(self.home + "/") if own.startswith(self.home + "/") else own

    def has_other_names(self, path: str) -> bool:
        """Whether a file has hard links, where there is somebody to ask."""
        return self.lookup is not None and known(path) and hard_links(path) > 1

    def is_socket(self, path: str) -> bool:
        if _SOCKET.search(path):
            return True
        return self.lookup is not None and known(path) and socket_at(path)

    def writable(self, path: str) -> bool:
        """Where an agent may have put a file: temporary folders, the work, the home folder."""
        return any(
            temporary(place) or place == root or place.startswith(f"{root}/")
            for place in self.both(path)
            for root in (self.home, self.work or self.home)
        )

    def trusted_folder(self, folder: str) -> bool:
        """A folder from which programs are the system's own."""
        return folder in self._known.trusted
