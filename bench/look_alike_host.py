"""What a host in a box is made of, before and after: files, units, processes, packet filter."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
from look_alike_kit import LookAlike

from hermes.environments.boxes.box import Box

CONTROL_S = 1.5
"""What changes within this time without Hermes is the host's own doing."""
DATABASES = ("/var/lib/postgresql/", "/var/lib/redis/")
"""Files that a database keeps for itself: what matters in them is for `keep` to ask."""
OWN_COPIES = "/var/tmp/hermes-undo"
"""Where Hermes keeps the copies that an undo needs. Not compared, as is the folder of its shell."""
BACKEND = "postgres: "
"""How the title of a server process of PostgreSQL begins: its clients start and end them."""
FAILING = ("failed", "activating", "deactivating", "auto-restart")
_LOOK = r"""
/usr/bin/python3 -S - <<'PY'
import hashlib, json, os, stat, subprocess
SKIP = ("/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev/pts", "/run/log", "OWN",
    "/tmp/.hermes-")
files = {}
for folder, folders, names in os.walk("/"):
    inside = [n for n in folders if os.path.join(folder, n).startswith(SKIP)]
    folders[:] = [n for n in folders if n not in inside]
    for name in [*names, *(n for n in folders if os.path.islink(os.path.join(folder, n)))]:
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                files[path] = ["link", os.readlink(path), 0, 0]
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                files[path] = [digest, about.st_mode & 0o7777, about.st_uid, about.st_size]
        except OSError:
            continue
    about = os.lstat(folder)
    files[folder + "/"] = ["folder", about.st_mode & 0o7777, about.st_uid, 0]

def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""

units, starts = {}, set()
listed = said("systemctl", "list-units", "--type=service", "--all", "--no-legend", "--plain")
for line in listed.splitlines():
    words = line.strip("\u25cf* ").split()
    if len(words) > 2:
        enabled = said("systemctl", "is-enabled", words[0]).strip()
        units[words[0]] = [words[2], enabled]
        for text in said("systemctl", "cat", words[0]).splitlines():
            if text.startswith("ExecStart="):
                starts.add(text[10:].lstrip("-@+!").replace('"', ""))
processes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        line = open(f"/proc/{pid}/cmdline").read().rstrip("\0").replace("\0", " ")
    except OSError:
        continue
    if line and line not in starts and int(pid) not in (os.getpid(), os.getppid(), 1):
        processes.append(line[:200])
print(json.dumps({"files": files, "units": units, "processes": processes,
    "filter": [said("nft", "list", "ruleset"), said("ip", "route"), said("ip", "addr")]}))
PY
"""


@dataclass(frozen=True)
class HostState:
    files: dict[str, list[object]]
    units: dict[str, list[str]]
    processes: frozenset[str]
    """Those that ran at both looks."""
    fleeting: frozenset[str]
    """Those that ran at one of them."""
    filter: tuple[str, ...]
    kept: dict[str, str]
    live: frozenset[str]
    """Paths and units that change without Hermes."""
    moving: tuple[str, ...]

    async def differences(self, after: "HostState", box: Box) -> list[str]:
        found = [*self._units(after), *self._processes(after)]
        if self.filter != after.filter:
            found.append("the packet filter or a route is another")
        live = self.live | after.live
        for path in sorted(self.files.keys() | after.files.keys()):
            old, new = self.files.get(path), after.files.get(path)
            if old == new or path in live or path.startswith((*DATABASES, *self.moving)):
                continue
            if old and new and await _grew(box, path, old, new):
                continue
            how = "is gone" if new is None else "is new" if old is None else "is another"
            found.append(f"{path} {how}")
        return found

    def kept_differently(self, after: "HostState") -> list[str]:
        return [
            f"{name}: {after.kept.get(name, '')[:100]!r}, not {transcript[:100]!r}"
            for name, transcript in self.kept.items()
            if after.kept.get(name) != transcript
        ]

    def _units(self, after: "HostState") -> Iterator[str]:
        for name in sorted(self.units.keys() | after.units.keys()):
            old = _plain(self.units.get(name, ["missing", ""]))
            new = _plain(after.units.get(name, ["missing", ""]))
            healthier = old[0] == "failing" and new[0] == "active" and old[1] == new[1]
            if old != new and not healthier and name not in self.live:
                yield f"{name} was {old}, is {new}"

    def _processes(self, after: "HostState") -> Iterator[str]:
        ended = self.processes - after.processes - after.fleeting
        started = after.processes - self.processes - self.fleeting
        yield from (f"ended: {line}" for line in sorted(ended))
        yield from (f"started: {line}" for line in sorted(started))


async def host_state(box: Box, look_alike: LookAlike) -> HostState:
    first = await _look(box)
    await anyio.sleep(CONTROL_S)
    then = await _look(box)
    live = {path for path in first["files"].keys() | then["files"].keys()}
    live = {path for path in live if first["files"].get(path) != then["files"].get(path)}
    live |= {name for name, state in first["units"].items() if then["units"].get(name) != state}
    one, two = {*first["processes"]}, {*then["processes"]}
    kept = {}
    for name, script in look_alike.keep:
        kept[name] = (await box.run(script)).output
    return HostState(
        files=then["files"],
        units=then["units"],
        processes=frozenset(each for each in one & two if not each.startswith(BACKEND)),
        fleeting=frozenset(one ^ two),
        filter=tuple(then["filter"]),
        kept=kept,
        live=frozenset(live),
        moving=look_alike.moving,
    )


async def _look(box: Box) -> dict[str, dict[str, list[object]]]:
    ran = await box.run(_LOOK.replace("OWN", OWN_COPIES), timeout=60.0)
    found: dict[str, dict[str, list[object]]] = json.loads(ran.output)
    return found


async def _grew(box: Box, path: str, old: list[object], new: list[object]) -> bool:
    """A log goes on: what was in it is still there, and only its size is another."""
    if old[0] in ("link", "folder") or old[1:3] != new[1:3]:
        return False
    if int(str(new[3])) < int(str(old[3])):
        return False
    ran = await box.run(f"head -c {old[3]} '{path}' | sha256sum")
    return ran.output.startswith(str(old[0]))


def _plain(state: list[str]) -> tuple[str, str]:
    return ("failing" if state[0] in FAILING else state[0], state[1])
