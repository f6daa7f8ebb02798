"""Lists the changes that may have caused a fault, the most suspicious first.

A change is suspicious when the failing service names what was changed (in its unit, its settings,
its open files or its error lines), and when it happened shortly before the first failing check.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from msgspec import field

from hermes.core.messages import Value
from hermes.declared.packet_filter import may_stop_traffic
from hermes.declared.state import LENGTH, VOLATILE, ItemId, StateChange

CLOSE_IN_TIME = timedelta(minutes=30)
MANY_FILES = 12
"""So many files that were added to one folder are one suspect."""
CLOCK_TOLERANCE = timedelta(seconds=2)
REVERTIBLE_KINDS = ("file", "service", "kernel-setting", "mount", "packet-filter")
"""Other kinds follow from these (a unit from its files, a port from its service), or cannot be
reverted without more knowledge."""
_NAMED_SCORES = {"error": 60, "unit": 50, "settings": 35, "open-files": 30, "alert": 30}
"""Where the failing service names the changed item, and how much that counts."""
_SERVICE_NAME_SCORE, _SERVICE_ITEM_SCORE, _SETTINGS_SCORE, _TIME_SCORE = 40, 25, 10, 20
_PORT_SCORE = 40
_COPY_SCORE, _LATER_SCORE, _DATA_SCORE = -45, -30, -10
_GROWTH_SCORE, _GROWTH_REASON = 45, "it has filled its file system since"
_PORT = re.compile(r"\b\d{2,5}\b")
_SWITCHES = ("enabled", "disabled")
_ENABLING_LINK = re.compile(r"\.(?:wants|requires)/([^/]+)$")
_NOISE = re.compile(
    r"^/(var/log|run|var/run|proc|sys|dev|tmp|var/tmp|var/cache)(/|$)"
    r"|/(__pycache__|\.cache|\.git)(/|$)"
    r"|\.(pid|lock|log|log\.\d+|sock|swp|pyc|tmp)$"
    r"|/\.?(bash|zsh|python)_history$|/\.lesshst$|/\.viminfo$"
)
_BACKUP_COPY = re.compile(r"(~|\.(bak|old|orig|save|rpmsave|dpkg-(old|dist|new)))$|\.bak[.-]")
_SETTINGS_NAME = re.compile(
    r"\.(conf|cfg|cnf|ini|ya?ml|json|toml|env|properties|service|socket|timer|target|path|mount"
    r"|rules|nft)$|^/etc/|/etc/|/conf(ig)?(\.d)?/"
)
_DATABASE_FOLDER = re.compile(
    r"^/var/lib/(?:postgresql|mysql|mariadb|redis|mongodb|cassandra|elasticsearch|influxdb)/"
)
_DATABASE_SETTINGS = re.compile(r"\.(?:conf|cnf|cfg|ini|ya?ml|json|toml)$|/standby\.signal$")
_DATA_FOLDER = re.compile(r"^/var/(lib|spool|backups|mail)/|/data/")


class ServiceContext(Value, frozen=True, kw_only=True):
    """What is known about the service that fails."""

    names: tuple[str, ...] = ()
    """Names of its unit without the suffix, the most likely first."""
    texts: dict[str, str] = field(default_factory=dict)
    """Texts in which it names things: `unit`, `settings`, `open-files`, `error`, `alert`."""
    first_failure_at: datetime | None = None


class Suspect(Value, frozen=True, kw_only=True):
    change: StateChange
    score: int = 0
    reasons: tuple[str, ...] = ()
    """Why it is suspicious, in words."""
    host: int = 0
    """For an experiment over several hosts: the number of the host."""
    below: tuple[StateChange, ...] = ()
    """For a folder that was added or removed: everything in it."""

    @property
    def changes(self) -> tuple[StateChange, ...]:
        return (self.change, *self.below)

    @property
    def is_growth(self) -> bool:
        """Whether it is what has piled up: it is cleared while nothing adds to it."""
        return self.change.after is not None and LENGTH in self.change.after.attributes

    @property
    def paths(self) -> tuple[str, ...]:
        """Of the files that it is about."""
        return tuple(each.item.key for each in self.changes if each.item.kind == "file")

    @property
    def key(self) -> tuple[int, ItemId]:
        return self.host, self.change.item

    @property
    def label(self) -> str:
        return f"{self.change.item.kind} {self.change.item.key}"


def rank_suspects(
    changes: Sequence[StateChange], service: ServiceContext, *, host: int = 0
) -> tuple[Suspect, ...]:
    """The most suspicious first; without those that cannot be a cause."""
    possible = [each for each in changes if _may_be_cause(each)]
    switched = {each.item.key for each in possible if _is_switched(each)}
    possible = [each for each in possible if _enabled_unit(each.item.key) not in switched]
    suspects = [_score(each, service, host, below) for each, below in _group_folders(possible)]
    return tuple(sorted(suspects, key=lambda each: (-each.score, each.change.item)))


def growth_suspects(changes: Sequence[StateChange]) -> list[Suspect]:
    """Of logs that grew and of files in memory."""
    return [
        Suspect(change=change, score=_GROWTH_SCORE, reasons=(_GROWTH_REASON,), below=below)
        for change, below in _group_siblings([(each, ()) for each in changes])
    ]


def _group_folders(
    changes: Sequence[StateChange],
) -> list[tuple[StateChange, tuple[StateChange, ...]]]:
    """A folder that was added or removed with all that is in it is one change."""
    found = list[tuple[StateChange, tuple[StateChange, ...]]]()
    left = sorted(changes, key=lambda each: each.item)
    while left:
        first, *rest = left
        inside: list[StateChange] = []
        if first.item.kind == "file" and first.verb != "changed" and _is_folder(first):
            prefix, verb = f"{first.item.key}/", first.verb
            inside = [e for e in rest if e.item.key.startswith(prefix) and e.verb == verb]
        found.append((first, tuple(inside)))
        left = [each for each in rest if each not in inside]
    return _group_siblings(found)


def _group_siblings(
    changes: list[tuple[StateChange, tuple[StateChange, ...]]],
) -> list[tuple[StateChange, tuple[StateChange, ...]]]:
    """Many files that were added to one folder, such as records in a queue, are one change."""
    folders: dict[str, list[StateChange]] = {}
    for change, below in changes:
        if change.item.kind == "file" and change.verb == "added" and not below:
            folders.setdefault(change.item.key.rpartition("/")[0], []).append(change)
    many = {folder: each for folder, each in folders.items() if len(each) >= MANY_FILES}
    grouped = [change for each in many.values() for change in each]
    found = [(change, below) for change, below in changes if change not in grouped]
    return [*found, *((each[0], tuple(each[1:])) for each in many.values())]


def _is_folder(change: StateChange) -> bool:
    item = change.before or change.after
    return item is not None and item.attributes.get("type") == "folder"


def _may_be_cause(change: StateChange) -> bool:
    item = change.item
    if item.kind not in REVERTIBLE_KINDS or _is_volatile(change):
        return False
    if item.kind == "mount":
        return change.differing == ("options",)
    if item.kind == "packet-filter":
        return may_stop_traffic(change)
    if item.kind == "service":
        return bool(service_reversal(change))
    return item.kind != "file" or not (_NOISE.search(item.key) or _is_stored_data(change))


def _is_stored_data(change: StateChange) -> bool:
    """Return whether a database wrote it: its files fit together only as they are. Owner and mode
    are not part of that, nor are settings and folders."""
    key = change.item.key
    if not _DATABASE_FOLDER.search(key) or _is_folder(change):
        return False
    attributes = change.verb == "changed" and "content" not in change.differing
    return not attributes and not _DATABASE_SETTINGS.search(key)


def _is_switched(change: StateChange) -> bool:
    """Return whether a service was enabled or disabled."""
    verbs = service_reversal(change) if change.item.kind == "service" else ()
    return "enable" in verbs or "disable" in verbs


def _enabled_unit(path: str) -> str:
    """The unit that a link enables; it comes and goes with the state of the service."""
    found = _ENABLING_LINK.search(path)
    return found[1] if found else ""


def _is_volatile(change: StateChange) -> bool:
    sides = [side for side in (change.before, change.after) if side is not None]
    return any(VOLATILE in side.attributes for side in sides)


def service_reversal(change: StateChange) -> tuple[str, ...]:
    """For a service: the verbs that put it back. One that fails is a symptom, not a cause."""
    before = change.before.attributes if change.before is not None else {}
    after = change.after.attributes if change.after is not None else {}
    verbs = []
    was, now = before.get("enabled", "disabled"), after.get("enabled", "disabled")
    if (was == "enabled") != (now == "enabled") and now in _SWITCHES and was in _SWITCHES:
        verbs.append("enable" if was == "enabled" else "disable")
    ran, runs = before.get("active", "inactive"), after.get("active", "inactive")
    if (ran, runs) == ("active", "inactive"):
        verbs.append("start")
    elif (ran, runs) == ("inactive", "active"):
        verbs.append("stop")
    return tuple(verbs)


def _score(
    change: StateChange, service: ServiceContext, host: int, below: tuple[StateChange, ...]
) -> Suspect:
    found = [*_name_scores(change, service), *_time_scores(change, service)]
    if change.item.kind == "file":
        found += _path_scores(change.item.key)
    return Suspect(
        change=change,
        score=sum(points for points, _ in found),
        reasons=tuple(reason for points, reason in found if points > 0 and reason),
        host=host,
        below=below,
    )


def _name_scores(change: StateChange, service: ServiceContext) -> list[tuple[int, str]]:
    key, found = change.item.key, list[tuple[int, str]]()
    where = [
        (points, source)
        for source, points in _NAMED_SCORES.items()
        if names_item(service.texts.get(source, ""), key)
    ]
    if where:
        points, source = max(where)
        others = len(where) - 1
        found.append((points + 5 * others, f"named by {_source_words(source)}"))
    name = next((each for each in service.names if each and _has_part(key, each)), "")
    if name:
        found.append((_SERVICE_NAME_SCORE, f"belongs to {name} by its name"))
    if change.item.kind == "packet-filter" and _names_port(key, service):
        found.append((_PORT_SCORE, "it names a port of the service"))
    if change.item.kind == "service":
        verbs = " and ".join(service_reversal(change))
        found.append((_SERVICE_ITEM_SCORE, f"it takes {verbs} to have it as before"))
    return found


def _names_port(rule: str, service: ServiceContext) -> bool:
    texts = [service.texts.get(each, "") for each in ("unit", "settings", "alert")]
    return any(_has_part(text, port) for port in _PORT.findall(rule) for text in texts)


def _source_words(source: str) -> str:
    words: Mapping[str, str] = {
        "error": "an error line of the service",
        "unit": "the unit of the service",
        "settings": "the settings of the service",
        "open-files": "the open files of the service",
        "alert": "the alert",
    }
    return words[source]


def names_item(text: str, key: str) -> bool:
    """Return whether a text names a path, the folder with all that is in it, or a unit."""
    if not text:
        return False
    if not key.startswith("/"):
        return _has_part(text, key)
    parents = [str(each) for each in PurePosixPath(key).parents]
    return any(_has_path(text, each) for each in (key, *parents) if each.count("/") >= 2)


def _has_path(text: str, path: str) -> bool:
    """A longer path that begins like it, such as a file of a folder, does not count; a pattern for
    all files of a folder does."""
    end = r"(?:/(?:\*[\w.*?-]*)?)?(?![\w/-]|\.\w)"
    return re.search(rf"(?<![\w./-]){re.escape(path)}{end}", text) is not None


def _has_part(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) is not None


def _time_scores(change: StateChange, service: ServiceContext) -> list[tuple[int, str]]:
    if change.at is None or service.first_failure_at is None:
        return []
    before = service.first_failure_at - change.at
    if before < -CLOCK_TOLERANCE:
        return [(_LATER_SCORE, "")]
    if before > CLOSE_IN_TIME:
        return []
    seconds = max(0.0, before.total_seconds())
    return [(_TIME_SCORE, f"changed {seconds:.0f} s before the first failing check")]


def _path_scores(path: str) -> list[tuple[int, str]]:
    found = []
    if _BACKUP_COPY.search(path):
        found.append((_COPY_SCORE, ""))
    if _SETTINGS_NAME.search(path):
        found.append((_SETTINGS_SCORE, ""))
    if _DATA_FOLDER.search(path):
        found.append((_DATA_SCORE, ""))
    return found
