"""Moves a whole journal between a file and a database, again and again if need be.

Nothing but the chain is needed to go on after a crash: when the digest of the target's last event
is also in the source under that number, everything before it is the same in both.
"""

from collections.abc import Callable
from pathlib import Path

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.messages import Value
from hermes.memory.opening import Place, verify
from hermes.memory.postgres.sides import Side, source, target

Progress = Callable[[int, int], None]
"""Told after each page: the number that is safe in the target, and the one to reach."""


class Moved(Value, kw_only=True, frozen=True):
    source: str
    target: str
    copied: int
    """Events of this move; an earlier one that was cut off had brought the others."""
    events: int
    last: int
    digest: str
    """Of the newest event, the same on both sides."""
    purged: int = 0


def move(origin: Place, destination: Place, progress: Progress = lambda safe, all_: None) -> Moved:
    """Copy all events under their own numbers and compare. The source is only read.

    Raises `StoreError` when the target holds another journal. Can be killed and run again.
    """
    if _same(origin, destination):
        raise StoreError(f"{origin if isinstance(origin, Path) else 'it'} is the store already")
    with source(origin) as out, target(destination) as into:
        start = _start(out, into)
        copied = _copy(out, into, start, progress)
        into.settle(out.gaps(), out.purged())
        moved = _compare(out, into, copied)
    report = verify(destination)
    if not report.ok:
        raise StoreCorrupt(
            f"the copy is not whole: {report.problems[0]}. Verify the source with `hermes journal "
            "verify`; it was not changed"
        )
    return moved


def _same(one: Place, other: Place) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.absolute() == other.absolute()
    return one == other


def _start(out: Side, into: Side) -> int:
    """The number up to which the target already has what the source has."""
    there = into.newest()
    if there is None:
        return 0
    if out.digest_at(there[0]) == there[1]:
        return there[0]
    ours = out.newest()
    if ours is not None and into.digest_at(ours[0]) == ours[1]:
        raise StoreError(
            f"{into.name} has all of {out.name} already, and has been used since: there is "
            "nothing to move in this direction"
        )
    events, _ = into.count()
    raise StoreError(
        f"{into.name} holds another journal ({events:,} events) and nothing was changed; name an "
        "empty place, or move that one away first"
    )


def _copy(out: Side, into: Side, start: int, progress: Progress) -> int:
    copied, at = 0, start
    while (newest := out.newest()) is not None and newest[0] > at:  # others may still write there
        for page in out.pages(at):
            into.take(page, at)
            at = page[-1].seq
            copied += len(page)
            progress(at, max(at, newest[0]))
    return copied


def _compare(out: Side, into: Side, copied: int) -> Moved:
    here, there = out.newest(), into.newest()
    if out.count() != into.count() or here != there:
        raise StoreError(
            f"{out.name} changed while it was compared with {into.name}; end the other Hermes "
            "processes and move again, it goes on from here"
        )
    events, purged = into.count()
    last, digest = there or (0, bytes(32))
    return Moved(
        source=out.name,
        target=into.name,
        copied=copied,
        events=events,
        last=last,
        digest=digest.hex(),
        purged=purged,
    )
