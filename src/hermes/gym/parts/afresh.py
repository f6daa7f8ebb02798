"""Start a service as a reboot would: without those who were started by hand in its place."""

from hermes.gym.story import Trigger

_END_LISTENERS = """python3 -S - <<'END'
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


def afresh(unit: str, port: int) -> tuple[Trigger, ...]:
    """Whoever listens there ends; then the supervisor alone starts the unit."""
    return (
        Trigger(script=_END_LISTENERS.replace("PORT", str(port))),
        Trigger(restart=(unit,)),
    )


def up(port: int) -> str:
    """A script that waits until somebody listens: a symptom must not show for want of a start."""
    knock = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
    return f"for i in $(seq 200); do {knock} && break; sleep 0.02; done"
