"""Collects the live state of a host. Content is read only where size, time or inode differ."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.core.messages import Value
from hermes.declared.collectors.host_program import MAX_DIGEST_BYTES
from hermes.declared.collectors.readers import (
    MAX_OUTPUT_BYTES,
    CommandReader,
    HostListing,
    HostReader,
    ListedFile,
    LocalReader,
    RunCommand,
)
from hermes.declared.collectors.services import HostServices, collect_services
from hermes.declared.packs import MAX_CONTENT_BYTES
from hermes.declared.state import (
    ACTIVITY,
    ITEM_KINDS,
    NAMED,
    STAMP,
    VOLATILE,
    Item,
    ItemId,
    ItemKind,
    State,
)
from hermes.declared.store import StateStore
from hermes.policy.commands.paths import path_pattern_lists
from hermes.skills.supervisors.units import PlainDaemon

DEFAULT_ROOTS = (
    *("/etc", "/opt", "/srv", "/usr/local/etc", "/usr/local/bin", "/var/www", "/var/spool/cron"),
    *("/usr/lib/systemd/system", "/lib/systemd/system"),
)
SKIPPED = ("__pycache__", ".git", "supervise")
"""Names of files and folders. In `supervise`, runit and s6 keep what a service is doing now."""
ACTIVITY_OF_CHANGE = 2
VOLATILE_ACTIVITY = 10
MAX_ACTIVITY = 30
RACE_S = 2.0
"""A file changed so shortly before a state may change again without a visible difference."""
_DATA_NAME = re.compile(
    r"\.(?:log|log\.\d+|db|sqlite3?|ibd|wal|db-(?:wal|shm|journal)|rdb|aof|pid|lock|sock|swp|tmp"
    r"|core|journal|mdb|ldb|sst|gz|xz|zst|bz2|zip|tar|tgz|iso|img|qcow2|mp4|jpe?g|png)$"
)
_CONFIGURATION_NAME = re.compile(r"\.(?:conf|cnf|cfg|ini|ya?ml|json|toml|service|hba)$|_hba\.conf$")
_DATA_FOLDER = re.compile(
    r"^/var/(?:log|lib/(?:postgresql|mysql|redis|docker|containerd|mongodb))/"
)


class CollectOptions(Value, frozen=True, kw_only=True):
    host: str = ""
    """The name of the host; empty: as the host calls itself."""
    roots: tuple[str, ...] = DEFAULT_ROOTS
    skip: tuple[str, ...] = ()
    """Paths that are left out, such as the home of Hermes."""
    max_files: int = 60_000
    max_folder_entries: int = 5_000
    """A folder with more entries holds data."""
    secret_content: bool = False
    """Keep the content of files that the policy knows as secret; otherwise only the digest."""
    server_settings: bool = True
    """Ask running redis and PostgreSQL servers for their settings."""
    max_output_bytes: int = MAX_OUTPUT_BYTES
    """Of one command."""
    daemons: tuple[PlainDaemon, ...] = ()
    """How services without a supervisor were started."""


DEFAULT_OPTIONS = CollectOptions()


async def collect_state(
    run: RunCommand,
    *,
    known: State | None,
    store: StateStore,
    roots: Sequence[str] = (),
    options: CollectOptions = DEFAULT_OPTIONS,
) -> State:
    """The live state of the host on which `run` runs scripts; `known` is an earlier state of it.
    Raises `EnvironmentFailed`."""
    reader = CommandReader(run, options.max_output_bytes)
    return await _Collection(run, reader, known, store, options, roots).collect()


async def collect_local_state(
    run: RunCommand,
    *,
    known: State | None,
    store: StateStore,
    options: CollectOptions = DEFAULT_OPTIONS,
) -> State:
    """The same for this host, without a program for the files."""
    return await _Collection(run, LocalReader(), known, store, options).collect()


class _Collection:
    """One state that is being collected."""

    def __init__(
        self,
        run: RunCommand,
        reader: HostReader,
        known: State | None,
        store: StateStore,
        options: CollectOptions,
        roots: Sequence[str] = (),
    ) -> None:
        self._run, self._reader, self._store, self._options = run, reader, store, options
        self._known = known or State(host="", at=datetime.fromtimestamp(0, UTC))
        self._known_before = self._known.at.timestamp() - RACE_S
        self._roots = tuple(roots) or options.roots
        self._names = Names()

    async def collect(self) -> State:
        services = await collect_services(
            self._run,
            self._store.keep,
            with_settings=self._options.server_settings,
            daemons=self._options.daemons,
        )
        listing = await self._reader.list_files(self._request(services))
        items = await self._file_items(listing)
        items.update(services.items)
        left_out = [*listing.left_out, *services.left_out]
        for kind, facts in listing.facts.items():
            items.update(self._fact_items(kind, facts, left_out))
        return State(
            host=self._options.host or listing.host,
            at=datetime.fromtimestamp(listing.at, UTC),
            items=items,
            left_out=tuple(left_out),
        )

    def _request(self, services: HostServices) -> dict[str, Any]:
        inside = tuple(f"{root}/" for root in self._roots)
        known = [
            item.key
            for item in self._known.items
            if item.kind == "file" and not item.key.startswith(inside)
        ]
        return {
            "roots": self._roots,
            "skip": (*SKIPPED, *self._options.skip),
            "known": known,
            "named": sorted(services.named),
            "references": sorted(services.named),
            "max_files": self._options.max_files,
            "max_folder": self._options.max_folder_entries,
        }

    def _fact_items(
        self, kind: str, facts: dict[str, dict[str, str]], left_out: list[str]
    ) -> Iterable[tuple[ItemId, Item]]:
        item_kind: ItemKind = next(each for each in ITEM_KINDS if each == kind)
        for key, attributes in facts.items():
            if not key:
                left_out.append(f"{kind}: {attributes.get('error', '')}")
                continue
            yield ItemId(item_kind, key), Item("", attributes)

    async def _file_items(self, listing: HostListing) -> dict[ItemId, Item]:
        items: dict[ItemId, Item] = {}
        wanted = list[tuple[ItemId, ListedFile]]()
        for file in listing.files:
            id = ItemId("file", file.path)
            old = self._known.items.get(id)
            item = self._reused(file, old)
            if item is None:
                wanted.append((id, file))
                item = Item("", self._attributes(file, old))
            items[id] = item
        await self._read_contents(wanted, items)
        return items

    def _reused(self, file: ListedFile, old: Item | None) -> Item | None:
        """The item without reading the file again; None when its content must be read."""
        if file.type != "file" or not self._has_content(file):
            return _kept(Item("", self._attributes(file, old)), old)
        if old is None or not old.digest:
            return None
        changed = not self._is_unchanged(file, old)
        if not changed and _is_same_file(file, old.attributes):
            return old
        if changed and VOLATILE not in old.attributes:
            return None
        return _kept(Item(old.digest, self._attributes(file, old, changed=changed)), old)

    def _is_unchanged(self, file: ListedFile, old: Item) -> bool:
        if old.attributes.get(STAMP) != file.stamp:
            return False
        _, modified, _, changed = file.stamp.split(":")
        newest = max(int(modified), int(changed)) / 1e9
        return newest < self._known_before

    def _has_content(self, file: ListedFile) -> bool:
        return file.size <= MAX_DIGEST_BYTES and not is_data(file.path)

    def _attributes(
        self, file: ListedFile, old: Item | None, *, changed: bool | None = None
    ) -> dict[str, str]:
        """`changed`: whether its content differs from the known one; None: not known yet."""
        same = self._names
        attributes = {
            "type": same(file.type),
            "mode": same(file.mode),
            "uid": same(file.uid),
            "gid": same(file.gid),
            STAMP: file.stamp,
        }
        if file.link:
            attributes["link"] = file.link
        if file.named:
            attributes[NAMED] = "yes"
        if file.type == "file":
            name, value = ("data", "yes") if is_data(file.path) else ("size", str(file.size))
            attributes[name] = value
        if old is not None and changed is not None:
            attributes.update(_activity(old, changed))
        return attributes

    async def _read_contents(
        self, wanted: Sequence[tuple[ItemId, ListedFile]], items: dict[ItemId, Item]
    ) -> None:
        is_secret = self._secret_test()
        contents, digests = dict[str, ListedFile](), dict[str, ListedFile]()
        for _, file in wanted:
            if file.size > MAX_CONTENT_BYTES or is_secret(file.path):
                digests[file.path] = file
            else:
                contents[file.path] = file
        while contents or digests:
            found = await self._reader.read_files(
                [(path, file.size) for path, file in contents.items()],
                list(digests),
                MAX_CONTENT_BYTES,
            )
            for path, content in found.contents.items():
                file = contents.pop(path)
                if content is None:
                    digests[path] = file
                else:
                    self._set_digest(file, self._store.keep(content), items)
            for path, digest in found.digests.items():
                if path in digests:
                    self._set_digest(digests.pop(path), digest, items)
            if not found.contents and not found.digests:
                break

    def _set_digest(self, file: ListedFile, digest: str, items: dict[ItemId, Item]) -> None:
        id = ItemId("file", file.path)
        old = self._known.items.get(id)
        changed = None if old is None else old.digest != digest
        items[id] = Item(digest, self._attributes(file, old, changed=changed))

    def _secret_test(self) -> Callable[[str], bool]:
        if self._options.secret_content:
            return lambda path: False
        return is_secret_file


def _is_same_file(file: ListedFile, known: Mapping[str, str]) -> bool:
    """Return whether an unchanged file has exactly these attributes."""
    return (
        ACTIVITY not in known
        and known.get("type") == file.type
        and known.get("mode") == file.mode
        and known.get("uid") == file.uid
        and known.get("gid") == file.gid
        and (NAMED in known) == file.named
    )


def _kept(item: Item, old: Item | None) -> Item:
    """The old one where they are equal: most items are, and need no memory twice."""
    return old if old is not None and old == item else item


class Names(dict[str, str]):
    """One object for equal texts: most files have the same mode and owner."""

    def __call__(self, text: str) -> str:
        return self.setdefault(text, text)


def is_secret_file(path: str) -> bool:
    """Return whether the policy knows it as a secret."""
    lists = path_pattern_lists("/root")
    return bool(lists.secret.match(path)) and not lists.public.match(path)


def is_data(path: str) -> bool:
    """Logs, databases and archives: neither their content nor their digest is recorded."""
    if _DATA_NAME.search(path):
        return True
    return bool(_DATA_FOLDER.match(path)) and not _CONFIGURATION_NAME.search(path)


def _activity(old: Item, changed: bool) -> dict[str, str]:
    before = int(old.attributes.get(ACTIVITY, "0"))
    now = min(MAX_ACTIVITY, before + ACTIVITY_OF_CHANGE) if changed else max(0, before - 1)
    found = {ACTIVITY: str(now)} if now else {}
    if now >= VOLATILE_ACTIVITY or (now and VOLATILE in old.attributes):
        found[VOLATILE] = "yes"
    return found
