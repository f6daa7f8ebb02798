"""Finds files that are neither as they were before an outage nor as the outage left them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from real_host.namespace import Namespace

CONFIGURATION = (
    "/etc/nginx",
    "/etc/redis",
    "/etc/shop",
    "/etc/supervisor",
    "/etc/hosts",
    "/srv",
)


@dataclass(frozen=True)
class FileState:
    """Mode and owner, and the content of a file; None for a folder or a link."""

    owner: str
    content: bytes | None = None


def read_configuration(host: Namespace) -> dict[str, FileState]:
    """The files of the host, by their paths there."""
    found = {}
    for root in CONFIGURATION:
        start = host.path(root)
        for file in (start, *start.rglob("*")):
            path = f"{root}{str(file)[len(str(start)) :]}"
            if "__pycache__" not in path and (state := _read(file)) is not None:
                found[path] = state
    return found


def _read(file: Path) -> FileState | None:
    try:
        status = file.lstat()
        content = file.read_bytes() if file.is_file() and not file.is_symlink() else None
    except OSError:  # it was removed meanwhile
        return None
    return FileState(f"{status.st_mode:o} {status.st_uid}", content)


def find_collateral(
    before: Mapping[str, FileState], broken: Mapping[str, FileState], left: Mapping[str, FileState]
) -> Iterator[str]:
    """Paths that the product changed in another way than back."""
    yield from sorted((before.keys() & broken.keys()) - left.keys())
    for path, now in left.items():
        sides = [side[path] for side in (before, broken) if path in side]
        if now not in sides and not (len(sides) == 2 and _is_mixed(sides[0], sides[1], now)):
            yield path


def _is_mixed(before: FileState, broken: FileState, now: FileState) -> bool:
    if before.content is None or broken.content is None or now.content is None:
        return False
    owned = now.owner in (before.owner, broken.owner)
    return owned and is_between(before.content, broken.content, now.content)


def is_between(before: bytes, broken: bytes, now: bytes) -> bool:
    """Whether a text has what both have, and nothing that neither has: some of the changed lines
    were put back, those that were the cause."""
    old, new, found = (Counter(each.splitlines()) for each in (before, broken, now))
    return not (old & new) - found and not found - (old | new)
