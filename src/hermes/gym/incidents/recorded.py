"""What is recorded of an incident, and which files of its host a drill needs."""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from hermes.core.events.incidents import Severity
from hermes.core.messages import Value
from hermes.declared.experiments.host_programs import named_paths
from hermes.declared.state import Item, ItemId, State
from hermes.sre.probes.probe import Probe

ReadContent = Callable[[str], bytes | None]
UNIT_FOLDER = "/etc/systemd/system"
MAX_UNITS, MAX_FILES, MAX_BYTES = 8, 600, 8 << 20
ROUNDS = 3
"""A unit names its settings, these name a folder, and so on."""
_ABSENT_FOLDERS = ("/usr/", "/proc/", "/sys/", "/dev/", "/run/", "/lib", "/bin/", "/sbin/")
"""A drill has those of the machine that it runs on."""
_ACCOUNTS = ("/etc/passwd", "/etc/group")
_OWN_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf")
_EXEC_PROGRAM = re.compile(r"^Exec\w+=[-@+!:]*(\S+)", re.MULTILINE)


class RecordedIncident(Value, frozen=True, kw_only=True):
    incident: str
    title: str
    text: str = ""
    labels: dict[str, str] = {}
    severity: Severity = "P2"
    services: tuple[str, ...] = ()
    """Units that failed, without suffix."""
    known: State
    failing: State
    recovered: State | None = None
    causes: tuple[str, ...] = ()
    """The changes that are the cause, as `file /etc/x.conf`; empty where none is proved."""
    failing_checks: dict[str, str] = {}
    """What each of them said."""
    passing_checks: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()


class UnitText(Value, frozen=True, kw_only=True):
    name: str
    text: str

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the system's programs that it starts."""
        paths = [PurePosixPath(each) for each in _EXEC_PROGRAM.findall(self.text)]
        system = [each.name for each in paths if str(each).startswith(("/usr/", "/bin/", "/sbin/"))]
        return tuple(name for name in system if not re.match(r"(python3?|bash|sh|env)$", name))


class HostFiles:
    """The units of a drill, and the files that they need, of one state."""

    def __init__(self, state: State, read: ReadContent) -> None:
        self._state, self._read = state, read

    def units(self, first: Sequence[str]) -> tuple[UnitText, ...]:
        """These, and others of the host that ran: they can be damaged by a fix."""
        found: dict[str, UnitText] = {}
        for name in (*first, *self._running()):
            text = self.text(f"{UNIT_FOLDER}/{name}.service")
            if text is not None and len(found) < MAX_UNITS:
                found.setdefault(name, UnitText(name=name, text=text))
        return tuple(found.values())

    def text(self, path: str) -> str | None:
        """Of a link, the text of the file that it names."""
        item = self._state.items.get(ItemId("file", path))
        if item is not None and (link := item.attributes.get("link")):
            named = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
            item = self._state.items.get(ItemId("file", named))
        content = self._read(item.digest) if item is not None and item.digest else None
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            return None

    def needed(self, units: Sequence[UnitText], more: Sequence[str]) -> dict[str, Item]:
        """By path: what the units and the files they name need, and `more`."""
        names = {each.name for each in units}
        wanted = [path for each in units for path in named_paths(each.text)]
        chosen: dict[str, Item] = {}
        for _ in range(ROUNDS):
            new = {
                path: item
                for path, item in self._files(wanted, names, more)
                if path not in chosen and len(chosen) < MAX_FILES
            }
            chosen |= new
            texts = [text for path in new if (text := self.text(path)) is not None]
            wanted = [path for text in texts for path in named_paths(text)]
            if not wanted:
                break
        return {path: item for path, item in chosen.items() if not self._is_unit(path, names)}

    def named_and_absent(self, units: Sequence[UnitText], files: Sequence[str]) -> list[str]:
        """Paths below /var and /srv that are named but not part of the state."""
        texts = [*(each.text for each in units), *(self.text(path) or "" for path in files)]
        named = {path for text in texts for path in named_paths(text)}
        return sorted(
            path
            for path in named
            if path.startswith(("/var/", "/srv/")) and ItemId("file", path) not in self._state.items
        )

    def accounts(self) -> dict[str, Item]:
        ids = [ItemId("file", path) for path in _ACCOUNTS]
        return {each.key: self._state.items[each] for each in ids if each in self._state.items}

    def _running(self) -> Iterator[str]:
        for id, item in sorted(self._state.items.items()):
            if id.kind == "service" and item.attributes.get("active") == "active":
                yield id.key.removesuffix(".service")

    def _files(
        self, wanted: Sequence[str], names: set[str], more: Sequence[str]
    ) -> Iterator[tuple[str, Item]]:
        exact = {*wanted, *more, *_OWN_FILES}
        folders = {path for path in wanted if path.count("/") >= 2}
        for id, item in self._state.items.items():
            path = id.key
            if id.kind != "file" or path in _ACCOUNTS or path.startswith(_ABSENT_FOLDERS):
                continue
            parts = PurePosixPath(path).parts
            own = any(part.split(".")[0] in names for part in parts)
            if path in exact or own or _is_below(path, folders) or self._is_table_for(path, names):
                yield path, item

    def _is_table_for(self, path: str, names: set[str]) -> bool:
        if not path.startswith(("/etc/cron.d/", "/var/spool/cron/")):
            return False
        text = self.text(path) or ""
        return any(name in text for name in names)

    def _is_unit(self, path: str, names: set[str]) -> bool:
        folder, _, name = path.rpartition("/")
        wants = folder.startswith(UNIT_FOLDER) and folder.endswith(".wants")
        return wants or (folder == UNIT_FOLDER and name.removesuffix(".service") in names)


def _is_below(path: str, folders: set[str]) -> bool:
    return any(str(parent) in folders for parent in PurePosixPath(path).parents)
