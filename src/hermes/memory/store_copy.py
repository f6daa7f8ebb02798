"""Copies a whole journal between a SQLite file and PostgreSQL; can be interrupted and repeated."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.messages import Value
from hermes.memory.journal.sqlite_file import open_for_writing
from hermes.memory.journal.stored_journal import StoredJournal, open_stored
from hermes.memory.journal.verification import verify
from hermes.memory.store import StoreLocation

CopyProgress = Callable[[int, int], None]
"""Called after each page: the number that is safe in the target, and the one to reach."""


class StoreCopyResult(Value, kw_only=True, frozen=True):
    source: str
    target: str
    copied: int
    """Events of this copy; an earlier one that was interrupted had copied the others."""
    events: int
    last: int
    digest: str
    """Digest of the newest event, the same on both sides."""
    purged: int = 0


def copy_store(
    origin: StoreLocation,
    destination: StoreLocation,
    progress: CopyProgress = lambda safe, all_: None,
) -> StoreCopyResult:
    """Copy all events under their own numbers and compare. The source is only read.

    Raises `StoreError` when the target has another journal. Can be killed and run again.
    """
    if _is_same_location(origin, destination):
        raise StoreError(f"{origin if isinstance(origin, Path) else 'it'} is the store already")
    with open_stored(origin) as out:
        _create_store(destination)
        with open_stored(destination) as into:
            moved = _copy(out, into, progress)
    report = verify(destination)
    if not report.ok:
        raise StoreCorrupt(
            f"the copy is not whole: {report.problems[0]}. Verify the source with `hermes journal "
            "verify`; it was not changed"
        )
    return moved


def _create_store(location: StoreLocation) -> None:
    if isinstance(location, Path):
        open_for_writing(location).close()
    else:
        import_module("hermes.memory.postgres.schema").migrate_schema(location)


def _copy(source: StoredJournal, target: StoredJournal, progress: CopyProgress) -> StoreCopyResult:
    start = _copied_up_to(source, target)
    copied = _copy_events(source, target, start, progress)
    target.finish_copy(source.gaps(), source.purged_hashes())
    return _compare_stores(source, target, copied)


def _is_same_location(one: StoreLocation, other: StoreLocation) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.absolute() == other.absolute()
    return one == other


def _copied_up_to(source: StoredJournal, target: StoredJournal) -> int:
    """The number up to which the target already equals the source."""
    target_end = target.newest()
    if target_end is None:
        return 0
    if source.digest_at(target_end[0]) == target_end[1]:
        return target_end[0]
    ours = source.newest()
    if ours is not None and target.digest_at(ours[0]) == ours[1]:
        raise StoreError(
            f"{target.name} has all of {source.name} already, and has been used since: there is "
            "nothing to move in this direction"
        )
    events = target.extent().events
    raise StoreError(
        f"{target.name} holds another journal ({events:,} events) and nothing was changed; name an "
        "empty place, or move that one away first"
    )


def _copy_events(
    source: StoredJournal, target: StoredJournal, start: int, progress: CopyProgress
) -> int:
    copied, at = 0, start
    while (newest := source.newest()) is not None and at < newest[0]:  # others may still write
        for page in source.pages(at):
            with target.transaction():
                end = target.newest()
                if (end[0] if end else 0) != at:
                    raise StoreError(
                        f"another process writes to {target.name}, the target of the move; end it "
                        "and move again"
                    )
                target.insert_copies(page)
            at = page[-1].seq
            copied += len(page)
            progress(at, max(at, newest[0]))
    return copied


def _compare_stores(source: StoredJournal, target: StoredJournal, copied: int) -> StoreCopyResult:
    source_end, target_end = source.newest(), target.newest()
    source_extent, target_extent = source.extent(), target.extent()
    if source_extent[:2] != target_extent[:2] or source_end != target_end:
        raise StoreError(
            f"{source.name} changed while it was compared with {target.name}; end the other Hermes "
            "processes and move again: it continues from here"
        )
    last, digest = target_end or (0, bytes(32))
    return StoreCopyResult(
        source=source.name,
        target=target.name,
        copied=copied,
        events=target_extent.events,
        last=last,
        digest=digest.hex(),
        purged=target_extent.purged,
    )
