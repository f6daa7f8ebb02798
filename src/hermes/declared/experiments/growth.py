"""Finds what has filled a file system since the known good state: logs and files in memory.

A reverted setting does not make room again: what it has piled up is a change of its own. Other new
files may be data that people need; they are no suspects.
"""

import re

from hermes.core.messages import Value
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.state import LENGTH, STAMP, Item, ItemId, State, StateChange

MEMORY_FOLDERS = ("/dev/shm/", "/tmp/", "/var/tmp/")
MAX_FILES = 60
_LOG = re.compile(r"\.(?:log|out|err)(?:\.\d+)?$|/logs?/[^/]+\.txt$")
_SCRIPT = r"""
df -Pk 2>/dev/null | awk 'NR > 1 && $2 > 0 {
  used = 100 * (1 - $4 / $2)
  if (used >= 95 || (used >= 75 && $2 < 4000000)) print int($2 / 100), $6
}' | sort -u -k 2 | while read -r least point; do
  timeout 10 find "$point" -xdev -type f -newermt "@SINCE" -size +"$least"k \
    -exec stat -c 'file %s %.3W %n' {} + 2>/dev/null
done | sort -k 2 -rn | head -n COUNT
ls -l /proc/[0-9]*/fd /proc/[0-9]*/map_files 2>/dev/null | sed -n 's/.* -> /used /p' |
  grep -E '^used (/dev/shm|/tmp|/var/tmp)/' | sort -u
"""


_DELETED_SCRIPT = r"""
find /proc/[0-9]*/fd -lname '/* (deleted)' 2>/dev/null | while read -r link; do
  echo "$(stat -Lc %s "$link") $(cat "${link%/fd/*}/comm") $(readlink "$link")"
done | sort -rn | head -n 3
"""
MIN_DELETED_BYTES = 1 << 20


class _LargeFile(Value, frozen=True):
    path: str
    size: int
    born: float
    """Seconds since 1970; 0 where the file system does not say."""


async def find_growth(run: RunCommand, known: State) -> list[StateChange]:
    """Logs that are longer than in the known good state, and new files in memory that no program
    has open, on file systems that are nearly full."""
    since = known.at.timestamp()
    script = _SCRIPT.replace("SINCE", f"{since:.3f}").replace("COUNT", str(MAX_FILES))
    _, output = await run(script, b"")
    lines = output.decode("utf-8", "replace").splitlines()
    used = {line.removeprefix("used ") for line in lines if line.startswith("used ")}
    files = [found for line in lines if (found := _parse(line)) and found.path not in used]
    changes = [_change(each, known, since) for each in files]
    return [each for each in changes if each is not None]


async def find_deleted_files(run: RunCommand) -> list[str]:
    """Large files that were deleted while a program has them open: no copy has them. In words."""
    _, output = await run(_DELETED_SCRIPT, b"")
    lines = [line.split(" ", 2) for line in output.decode("utf-8", "replace").splitlines()]
    return [
        f"{each[1]} holds {int(each[0]) / (1 << 20):.0f} MB in {each[2]}"
        for each in lines
        if len(each) == 3 and each[0].isdigit() and int(each[0]) >= MIN_DELETED_BYTES
    ]


def _parse(line: str) -> _LargeFile | None:
    matched = re.match(r"file (\d+) (-?[\d.]*) (/.*)$", line)
    if matched is None:
        return None
    return _LargeFile(matched[3], int(matched[1]), float(matched[2] or 0))


def _change(file: _LargeFile, known: State, since: float) -> StateChange | None:
    id, now = ItemId("file", file.path), Item("", {"type": "file", LENGTH: str(file.size)})
    new = file.born > since
    if file.path.startswith(MEMORY_FOLDERS):
        return StateChange(id, None, now) if new else None
    if not _LOG.search(file.path):
        return None
    old = known.items.get(id)
    stamp = old.attributes.get(STAMP, "").split(":")[0] if old is not None else ""
    length = int(stamp) if stamp.isdigit() else (0 if new else file.size)
    if 2 * length > file.size:
        return None
    return StateChange(id, Item("", {"type": "file", LENGTH: str(length)}), now)
