"""Records the state of the host again and again while a watch runs."""

import sys
from contextlib import suppress

import anyio

from hermes.app.journal.upkeep import write_warning
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings

PAUSE_PER_CPU_S = 250.0
"""Seconds of pause for a second of processor time: at most 0.4 % of one processor is used."""
MAX_RECORDING_PAUSE_S = 3600.0
FIRST_RECORDING_S = 20.0
"""The start of a watch has more urgent work."""
FIRST_RETRY_S = 60.0
"""The first pause while there is no known good state; each next one is twice as long."""
SHORTEST_PAUSE_S = 30.0
"""Before the look at the host when an incident opens."""


async def keep_recording(loaded: LoadedSettings, bus: Bus) -> None:
    """Record it in a short-lived process each time, so that the watch does not grow. Return only
    if recording is switched off."""
    settings = loaded.settings.declared
    if not settings.record:
        return
    variables = {
        **process_environment.environment_variables(),
        process_environment.HOME_VARIABLES[0]: str(loaded.home),
    }
    command = [sys.executable, "-m", "hermes.cli", "state", "record", "--for-watch"]
    last_problem, retry_s, seen = "", FIRST_RETRY_S, sys.maxsize
    await anyio.sleep(FIRST_RECORDING_S)
    while True:
        used, comparable, problem = 0.0, True, ""
        try:
            seen = await bus.journal.last()
            done = await anyio.run_process(command, check=False, env=variables)
            problem = done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""
            used, comparable = _read_summary(done.stdout)
        except (OSError, StoreError) as error:
            problem = str(error)
        if problem and problem != last_problem:
            write_warning(f"the state of the host was not recorded: {problem[-500:]}")
        last_problem = problem
        pause_s = max(settings.every, min(MAX_RECORDING_PAUSE_S, used * PAUSE_PER_CPU_S))
        if not comparable:
            pause_s, retry_s = min(pause_s, retry_s), 2 * retry_s
        await wait_for_next(bus, seen, pause_s)


async def wait_for_next(
    bus: Bus, seen: int, pause_s: float, shortest_s: float = SHORTEST_PAUSE_S
) -> None:
    """Return after the pause, or when an incident has opened after the event `seen`: what was
    edited before it may be put back before the next look, and nobody would ever see it."""
    earliest = anyio.current_time() + shortest_s
    with anyio.move_on_after(pause_s):
        with suppress(StoreError):
            async for _ in bus.follow(after=seen, kinds=("incident.opened",)):
                await anyio.sleep_until(earliest)
                return
        await anyio.sleep_forever()


def _read_summary(output: bytes) -> tuple[float, bool]:
    """Seconds of processor time, and whether a known good state is there."""
    seconds, _, known = output.decode("utf-8", "replace").strip().partition(" ")
    try:
        return float(seconds), known != "none"
    except ValueError:
        return 0.0, True
