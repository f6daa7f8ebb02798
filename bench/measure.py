"""Measuring commands: CPU seconds, wall seconds and peak memory of a child, as medians."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cost:
    cpu: float
    wall: float
    rss_mb: float


def once(command: Sequence[str | Path], env: dict[str, str] | None = None) -> Cost:
    """Run a command to its end; its CPU includes that of its children."""
    started = os.times()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(env),
    )
    noise = child.stderr.read() if child.stderr else b""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {noise.decode()[-800:]}")
    wall = os.times().elapsed - started.elapsed
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024)


def median(command: Sequence[str | Path], times: int, env: dict[str, str] | None = None) -> Cost:
    once(command, env)  # warm: files in the cache, byte code compiled
    costs = [once(command, env) for _ in range(times)]
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        max(cost.rss_mb for cost in costs),
    )


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | (extra or {})


@contextmanager
def server(*options: str) -> Iterator[str]:
    """The instant model server; yields its port."""
    child = subprocess.Popen(
        [sys.executable, HERE / "server.py", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.kill()
        child.wait()
