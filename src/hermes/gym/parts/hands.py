"""Hands on a host: requests from a shell, what shells remember of people, what they left alone."""

import hashlib
import re
import shlex

from hermes.gym.dice import Dice
from hermes.gym.story import File, Script

_NOISE = (
    "df -h",
    "ls -la /var/log",
    "uptime",
    "free -m",
    "ps aux | head",
    "cd /opt",
    "tail -n 50 /var/log/changes.log",
    "history | tail",
    "cat /etc/hosts",
    "systemctl list-units",
    "du -sh /var/* | sort -h",
    "vmstat 1 3",
    "exit",
)


def asking(port: int, path: str, times: int = 1) -> str:
    """Requests one after the other; what comes back is thrown away, and a failure is no failure."""
    one = (
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3;"
        " timeout 3 cat <&3) >/dev/null 2>&1 || true"
    )
    return f"for n in $(seq {times}); do {one}; done"


def remembered(dice: Dice, *commands: str) -> str:
    """A script that writes root's shell history: those commands, in order, among others."""
    before = dice.some(_NOISE, dice.number(2, 4))
    after = dice.some(_NOISE, dice.number(1, 3))
    lines = [*before, *commands, *after]
    ages = sorted((dice.number(4, 240) for _ in lines), reverse=True)
    entries = [
        f"date -d '-{age} min' '+#%s'; echo {shlex.quote(line)}"
        for age, line in zip(ages, lines, strict=True)
    ]
    return f"{{ {'; '.join(entries)}; }} >> ~/.bash_history"


def others_kept(name: str, file: File, *keys: str) -> Script:
    """Every setting but those named is as it was; comments may come and go."""
    passed = re.compile(rf"(#|;|$|({'|'.join(keys)})\s*[=:])")
    kept = [line for line in file.text.splitlines() if not passed.match(line)]
    digest = hashlib.sha256("".join(f"{line}\n" for line in kept).encode()).hexdigest()
    pattern = f"^(#|;|$|({'|'.join(keys)})[[:space:]]*[=:])"
    return Script(
        name=name, script=f"grep -vE '{pattern}' {file.path} | sha256sum", contains=digest
    )


def served_by(unit: str, port: int) -> Script:
    """Whoever listens there is the process of that unit, and not one that was started by hand."""
    return Script(
        name=f"{unit} itself serves",
        script=f"pid=$(systemctl show -p MainPID --value {unit}); want=$(printf %04X {port});"
        " while read -r _ local _ state _ _ _ _ _ inode _; do"
        ' [[ $local == *:$want && $state == 0A ]] && found="socket:[$inode]";'
        ' done < /proc/net/tcp; test -n "$found" && ls -l /proc/$pid/fd | grep -qF "$found"',
    )
