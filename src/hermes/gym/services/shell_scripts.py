"""Shell scripts, checks and triggers that scenarios share."""

import hashlib
import re
import shlex

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario_spec import FaultTrigger, HostFile, ScriptCheck

_KILL_LISTENERS_SCRIPT = """python3 -S - <<'END'
import os, signal
wanted = "%04X" % PORT
rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and row[1].endswith(wanted)}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        if held & sockets:
            os.kill(int(pid), signal.SIGKILL)
    except OSError:
        continue
END"""


def clean_restart_triggers(unit: str, port: int) -> tuple[FaultTrigger, ...]:
    """Like a reboot: kills every process that listens on the port, then restarts the unit."""
    return (
        FaultTrigger(script=_KILL_LISTENERS_SCRIPT.replace("PORT", str(port))),
        FaultTrigger(restart=(unit,)),
    )


def wait_until_listening_script(port: int) -> str:
    """Waits until the service listens, so that a slow start is not taken for a symptom."""
    connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
    return f"for i in $(seq 200); do {connect} && break; sleep 0.02; done"


_UNRELATED_COMMANDS = (
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


def requests_script(port: int, path: str, times: int = 1) -> str:
    """Sends requests one after the other; ignores replies and errors."""
    one = (
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3;"
        " timeout 3 cat <&3) >/dev/null 2>&1 || true"
    )
    return f"for n in $(seq {times}); do {one}; done"


def shell_history_script(rng: RandomSource, *commands: str) -> str:
    """Writes root's shell history: the commands in order, with unrelated ones around them."""
    before = rng.some(_UNRELATED_COMMANDS, rng.number(2, 4))
    after = rng.some(_UNRELATED_COMMANDS, rng.number(1, 3))
    lines = [*before, *commands, *after]
    ages = sorted((rng.number(4, 240) for _ in lines), reverse=True)
    entries = [
        f"date -d '-{age} min' '+#%s'; echo {shlex.quote(line)}"
        for age, line in zip(ages, lines, strict=True)
    ]
    return f"{{ {'; '.join(entries)}; }} >> ~/.bash_history"


def other_settings_unchanged(name: str, file: HostFile, *keys: str) -> ScriptCheck:
    """Every setting except `keys` is unchanged; comments may differ."""
    ignored = re.compile(rf"(#|;|$|({'|'.join(keys)})\s*[=:])")
    kept = [line for line in file.text.splitlines() if not ignored.match(line)]
    digest = hashlib.sha256("".join(f"{line}\n" for line in kept).encode()).hexdigest()
    pattern = f"^(#|;|$|({'|'.join(keys)})[[:space:]]*[=:])"
    return ScriptCheck(
        name=name, script=f"grep -vE '{pattern}' {file.path} | sha256sum", contains=digest
    )


def served_by_unit(unit: str, port: int) -> ScriptCheck:
    """The process that listens on the port belongs to the unit."""
    return ScriptCheck(
        name=f"{unit} itself serves",
        script=f"pid=$(systemctl show -p MainPID --value {unit}); want=$(printf %04X {port});"
        " while read -r _ local _ state _ _ _ _ _ inode _; do"
        ' [[ $local == *:$want && $state == 0A ]] && found="socket:[$inode]";'
        ' done < /proc/net/tcp; test -n "$found" && ls -l /proc/$pid/fd | grep -qF "$found"',
    )


def checked_requests_script(port: int, path: str, times: int, *, wanted: str = "") -> str:
    """Sends requests once the service listens; with `wanted`, each reply must contain it."""
    check = f'case "$said" in *{wanted!r}*) ;; *) echo "$said"; exit 1 ;; esac; ' if wanted else ""
    return (
        f"for try in $(seq 100); do (: <>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; "
        f"sleep 0.05; done; for round in $(seq {times}); do "
        f"exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; "
        f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; said=$(timeout 3 cat <&3); exec 3>&-; "
        f"{check}done"
    )


def number_grows_script(question: str, *, within: float = 0.8) -> str:
    """Succeeds as soon as the number that the command `question` prints has grown."""
    rounds = round(within / 0.1)
    return (
        f"before=$({question}); for try in $(seq {rounds}); do sleep 0.1; now=$({question}); "
        '[ "$now" -gt "$before" ] && exit 0; done; echo "still $now"; exit 1'
    )
