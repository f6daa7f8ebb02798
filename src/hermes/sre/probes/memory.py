"""What the probes remember between two looks, and who may write it: one watch at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.sre.probes.forecast import Samples

FILE = "probes.state.json"
LOCK = "probes.lock"


class Past(Value, kw_only=True, frozen=True):
    keep: str = ""
    """Where the next look goes on: a place in a log, a counter."""
    values: tuple[float, ...] = ()
    samples: Samples = ()
    """Figures with their times, for a forecast."""


def recall(home: Path) -> dict[str, Past]:
    """A file that cannot be read is forgotten: the past is learned anew, nothing else is lost."""
    try:
        return msgspec.json.decode((home / FILE).read_bytes(), type=dict[str, Past])
    except (OSError, msgspec.MsgspecError):
        return {}


def remember(home: Path, past: dict[str, Past]) -> None:
    """In one step, so that nobody reads half of it. A full disk must not end the watch."""
    new = home / f"{FILE}.{os.getpid()}"
    with suppress(OSError):
        new.write_bytes(msgspec.json.encode(past))
        new.replace(home / FILE)
    with suppress(OSError):
        new.unlink(missing_ok=True)


@contextmanager
def only_one(home: Path) -> Iterator[bool]:
    """True when nobody else watches for this home; it ends with us, however we end.

    True as well when the home cannot be written: rather two watches than none.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
