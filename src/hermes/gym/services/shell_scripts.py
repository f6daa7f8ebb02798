"""Start a service as a reboot would: without those who were started by hand in its place."""

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
    """Whoever listens there ends; then the supervisor alone starts the unit."""
    return (
        FaultTrigger(script=_KILL_LISTENERS_SCRIPT.replace("PORT", str(port))),
        FaultTrigger(restart=(unit,)),
    )


def wait_until_listening_script(port: int) -> str:
    """A script that waits until somebody listens: a symptom must not show for want of a start."""
    knock = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
    return f"for i in $(seq 200); do {knock} && break; sleep 0.02; done"


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
    """Requests one after the other; what comes back is thrown away, and a failure is no failure."""
    one = (
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3;"
        " timeout 3 cat <&3) >/dev/null 2>&1 || true"
    )
    return f"for n in $(seq {times}); do {one}; done"


def shell_history_script(rng: RandomSource, *commands: str) -> str:
    """A script that writes root's shell history: those commands, in order, among others."""
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
    """Every setting but those named is as it was; comments may come and go."""
    passed = re.compile(rf"(#|;|$|({'|'.join(keys)})\s*[=:])")
    kept = [line for line in file.text.splitlines() if not passed.match(line)]
    digest = hashlib.sha256("".join(f"{line}\n" for line in kept).encode()).hexdigest()
    pattern = f"^(#|;|$|({'|'.join(keys)})[[:space:]]*[=:])"
    return ScriptCheck(
        name=name, script=f"grep -vE '{pattern}' {file.path} | sha256sum", contains=digest
    )


def served_by_unit(unit: str, port: int) -> ScriptCheck:
    """Whoever listens there is the process of that unit, and not one that was started by hand."""
    return ScriptCheck(
        name=f"{unit} itself serves",
        script=f"pid=$(systemctl show -p MainPID --value {unit}); want=$(printf %04X {port});"
        " while read -r _ local _ state _ _ _ _ _ inode _; do"
        ' [[ $local == *:$want && $state == 0A ]] && found="socket:[$inode]";'
        ' done < /proc/net/tcp; test -n "$found" && ls -l /proc/$pid/fd | grep -qF "$found"',
    )


def checked_requests_script(port: int, path: str, times: int, *, wanted: str = "") -> str:
    """Requests one after the other, once somebody listens; with `wanted` each must say so."""
    heard = f'case "$said" in *{wanted!r}*) ;; *) echo "$said"; exit 1 ;; esac; ' if wanted else ""
    return (
        f"for try in $(seq 100); do (: <>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; "
        f"sleep 0.05; done; for round in $(seq {times}); do "
        f"exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; "
        f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; said=$(timeout 3 cat <&3); exec 3>&-; "
        f"{heard}done"
    )


def number_grows_script(question: str, *, within: float = 0.8) -> str:
    """Ends well as soon as the number that `question` prints has grown."""
    rounds = round(within / 0.1)
    return (
        f"before=$({question}); for try in $(seq {rounds}); do sleep 0.1; now=$({question}); "
        '[ "$now" -gt "$before" ] && exit 0; done; echo "still $now"; exit 1'
    )
