"""The way back of a change that nobody wrote one for: what it is about to touch is kept first."""

import re
import shlex
from collections.abc import Sequence

from hermes.core.actions import Action
from hermes.core.messages import Value
from hermes.policy.commands import analyse
from hermes.policy.tool_calls import intent_of
from hermes.policy.undo import NONE, undo_of

KEPT = "/var/tmp/hermes-undo"
MOST = 64
"""Megabytes of one path that are kept; of more there is no way back but a backup."""
UNIT = re.compile(r"\b(?:systemctl|service)\s+(?:--\S+\s+)*(?:re)?(?:start|load)\s+([\w@.:-]+)")
_UNKNOWN = "…"
_KEPT = re.compile(r"^(file|absent|large) (\d+)$", re.MULTILINE)


class Plan(Value, kw_only=True, frozen=True):
    paths: tuple[str, ...] = ()
    plain_way: str = ""
    """Where the opposite of a command is known for certain."""

    def keep(self, folder: str) -> str:
        """A script that copies what is there now, and says what that was."""
        lines = [f"umask 077; mkdir -p {folder} || exit 1"]
        for number, path in enumerate(self.paths):
            at = shlex.quote(path)
            lines.append(
                f"if [ ! -e {at} ] && [ ! -L {at} ]; then echo absent {number}; "
                f'elif [ "$(du -sm {at} 2>/dev/null | cut -f1)" -le {MOST} ] && '
                f"cp -a {at} {folder}/{number}; then echo file {number}; "
                f"else echo large {number}; fi"
            )
        return "\n".join(lines)

    def way_back(self, folder: str, said: str) -> str:
        """From what the script said; empty when something could not be kept."""
        found = {int(number): how for how, number in _KEPT.findall(said)}
        lines = []
        for number, path in enumerate(self.paths):
            at, kept = shlex.quote(path), f"{folder}/{number}"
            if found.get(number) == "file":
                # In place where it is a file: whoever has it open goes on with the same one.
                lines.append(
                    f"if [ -d {kept} ]; then cp -aT {kept} {at}; else cp -a {kept} {at}; fi"
                )
            elif found.get(number) == "absent":
                lines.append(f"rm -rf {at}")
        return "\n".join(lines)


def plan(action: Action) -> Plan:
    intent = intent_of(action, "/root")
    command = action.command or intent.command
    found = analyse(command, cwd=action.cwd or "/") if command else None
    paths = [path for path in (found.changes if found else ()) if _keepable(path)]
    way = undo_of(action.call.name, command)
    plain = "" if way.startswith((NONE, "by hand")) or "(" in way or " the " in way else way
    return Plan(paths=tuple(paths[:20]), plain_way=plain)


def units_in(commands: Sequence[str]) -> tuple[str, ...]:
    """Services that these commands start, restart or reload, each once."""
    return tuple(dict.fromkeys(unit for command in commands for unit in UNIT.findall(command)))


def _keepable(path: str) -> bool:
    known = path.startswith("/") and _UNKNOWN not in path and not any(c in path for c in "*?[")
    return known and not path.startswith(("/dev/", "/proc/", "/sys/", KEPT)) and path != "/"
