"""Records the state of the host again and again while a watch runs."""

import sys

import anyio

from hermes.app.journal.upkeep import write_warning
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings

PAUSE_PER_CPU_S = 250.0
"""Seconds of pause for a second of processor time: at most 0.4 % of one processor is used."""
MAX_RECORDING_PAUSE_S = 3600.0
FIRST_RECORDING_S = 20.0
"""The start of a watch has more urgent work."""
FIRST_RETRY_S = 60.0
"""The first pause while there is no known good state; each next one is twice as long."""


async def keep_recording(loaded: LoadedSettings) -> None:
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
    last_problem, retry_s = "", FIRST_RETRY_S
    await anyio.sleep(FIRST_RECORDING_S)
    while True:
        used, comparable, problem = 0.0, True, ""
        try:
            done = await anyio.run_process(command, check=False, env=variables)
            problem = done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""
            used, comparable = _read_summary(done.stdout)
        except OSError as error:
            problem = str(error)
        if problem and problem != last_problem:
            write_warning(f"the state of the host was not recorded: {problem[-500:]}")
        last_problem = problem
        pause_s = max(settings.every, min(MAX_RECORDING_PAUSE_S, used * PAUSE_PER_CPU_S))
        if not comparable:
            pause_s, retry_s = min(pause_s, retry_s), 2 * retry_s
        await anyio.sleep(pause_s)


def _read_summary(output: bytes) -> tuple[float, bool]:
    """Seconds of processor time, and whether a known good state is there."""
    seconds, _, known = output.decode("utf-8", "replace").strip().partition(" ")
    try:
        return float(seconds), known != "none"
    except ValueError:
        return 0.0, True
