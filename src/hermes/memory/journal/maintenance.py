"""Export, compaction, checkpoints and status of a journal in a file or a database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import StoreError
from hermes.core.events.operations import CheckpointSigned
from hermes.core.events.runs import RunDeleted
from hermes.core.messages import Value
from hermes.memory.journal.rows import event_json, row_from_event
from hermes.memory.journal.stored_journal import StoredJournal, StoreStatus, open_stored


class CompactionResult(Value, kw_only=True, frozen=True):
    bytes_before: int
    bytes_after: int
    purged: int = 0
    """How many texts were deleted from the store."""
    deleted: tuple[str, ...] = ()
    """All runs that were ever deleted, so that copies elsewhere can be deleted too."""


class JournalTip(Value, frozen=True):
    """The end of the journal."""

    seq: int
    digest: str
    last: CheckpointSigned | None = None
    """The newest checkpoint."""


def read_status(location: Path | str) -> StoreStatus:
    """Raises `StoreError` when it cannot be reached, or does not exist."""
    with open_stored(location) as journal:
        return journal.status()


def export(location: Path | str, *, run: str | None = None) -> Iterator[bytes]:
    """Every event, or those of one run, as lines of JSON: `seq`, `kind`, and the `event` itself,
    or its hash when it was `purged`."""
    with open_stored(location) as journal:
        for stored in journal.rows(run):
            of, kind = stored.run.decode(), stored.kind.decode()
            rest: dict[str, Any] = {"run": of, "purged": stored.body.hex()}
            if stored.event() is not None:  # raises for an event that cannot be read
                rest = {"event": msgspec.Raw(event_json(stored.at, of, kind, stored.body))}
            yield msgspec.json.encode({"seq": stored.seq, "kind": kind, **rest})


def compact(location: Path | str, *, timeout_s: float | None = None) -> CompactionResult:
    """Delete the texts of deleted runs and free their space, while others may continue to work."""
    with open_stored(location, timeout_s=timeout_s) as journal:
        before = journal.size_bytes()
        with journal.transaction():
            if orphans := _unmarked_subagent_runs(journal):
                journal.append([row_from_event(RunDeleted(run=run)) for run in orphans])
            purged = journal.purge_deleted_runs()
        deleted = tuple(journal.deleted_runs())
        journal.free_space()
        return CompactionResult(
            bytes_before=before, bytes_after=journal.size_bytes(), purged=purged, deleted=deleted
        )


def _unmarked_subagent_runs(journal: StoredJournal) -> list[str]:
    """Subagents of deleted runs, at any depth, that are not marked as deleted themselves.

    They get their own mark: without the texts their parent would be unknown.
    """
    children: dict[str, list[str]] = {}
    for run, parent in journal.run_parents():
        children.setdefault(parent, []).append(run)
    marked = set(journal.deleted_runs())
    gone = dict.fromkeys(marked)
    waiting = list(gone)
    while waiting:
        fresh = [run for run in children.get(waiting.pop(), ()) if run not in gone]
        gone.update(dict.fromkeys(fresh))
        waiting.extend(fresh)
    return [run for run in gone if run not in marked]


def append_checkpoint(
    location: Path | str, sign: Callable[[JournalTip], CheckpointSigned], *, timeout_s: float
) -> JournalTip | None:
    """The new end, which is the checkpoint itself; None when there was nothing new to sign.

    It is on the disk before it is reported: a head that knows more than the journal after a power
    cut would look like a truncated journal.
    """
    with open_stored(location, timeout_s=timeout_s) as journal, journal.transaction():
        # Another signer waits here, and then signs what comes after us.
        newest, last = journal.newest(), journal.last_row("audit.signed")
        if newest is None or (last is not None and last.seq == newest[0]):
            return None
        previous: CheckpointSigned | None = None
        if last is not None:
            event = last.event()
            if not isinstance(event, CheckpointSigned):
                raise StoreError(
                    f"event {last.seq} is no checkpoint; `hermes audit verify` says more"
                )
            previous = event
        checkpoint = sign(JournalTip(newest[0], newest[1].hex(), previous))
        journal.append([row_from_event(checkpoint)])
        end = journal.newest()
        assert end is not None
        return JournalTip(end[0], end[1].hex(), checkpoint)
