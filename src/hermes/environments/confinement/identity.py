"""As whom commands run: never with more rights than an ordinary user.

Started by an ordinary user, the sandbox stays that user: its files are the ones to work on, and
the walls keep it from everything else it owns.

Started by root, it becomes a user that exists nowhere else, drawn anew for each sandbox. That is
the only way in which the limit on processes binds (it does not bind user 0), and it puts every
file that only root may read out of reach a second time. The folders it may write to belong to
somebody else, though, and giving them away would change the host. So:

1. A folder made for the sandbox is simply given to that user.
2. Any other is mounted with its owner translated (an id-mapped mount, Linux 5.12): inside it
   belongs to the sandbox's user, and what is made there belongs to the folder's owner outside.
3. Where the file system cannot do that, or without namespaces, the sandbox stays user 0 with no
   capability left, but only if a cgroup bounds its processes; else it is refused.
"""

import os
import secrets
from pathlib import Path

FIRST, LAST = 1_879_048_192, 2_147_483_000
"""Above all that distributions and containers hand out, below where numbers turn negative."""


def is_root() -> bool:
    return os.geteuid() == 0


def is_mapped() -> bool:
    """True when the user that we call 0 is an ordinary one of the machine."""
    return all(inside or outside for inside, outside, _ in _ranges())


def stranger() -> int:
    """A user number that nobody has; -1 when this user namespace has none to spare."""
    first, _, count = max(_ranges(), key=lambda each: each[2], default=(0, 0, 0))
    if first <= FIRST and first + count > LAST:
        return FIRST + secrets.randbelow(LAST - FIRST)
    if count < 10_000:
        return -1
    return (
        first + count - 2 - secrets.randbelow(4_000) - 600
    )  # 65534 is nobody, some above 65000 too


def _ranges() -> list[tuple[int, int, int]]:
    """(first number in here, first outside, how many) of our user namespace."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return []
    return [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in lines)]


def foreign_owners(paths: tuple[str, ...], uid: int) -> tuple[tuple[str, int, int], ...]:
    """Those of `paths` that do not belong to `uid`, with their owners."""
    stats = [(path, Path(path).stat()) for path in paths]
    return tuple((path, each.st_uid, each.st_gid) for path, each in stats if each.st_uid != uid)
