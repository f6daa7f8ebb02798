"""Records the state of the host again and again while a watch runs."""

import sys

import anyio

from hermes.app.journal_upkeep import write_warning
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings

PAUSE_PER_CPU_S = 250.0
"""Seconds of pause for a second of processor time: at most 0.4 % of one processor is used."""
MAX_RECORDING_PAUSE_S = 3600.0
FIRST_RECORDING_S = 20.0
"""The start of a watch has more urgent work."""


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
    last_problem = ""
    await anyio.sleep(FIRST_RECORDING_S)
    while True:
        used, problem = 0.0, ""
        try:
            done = await anyio.run_process(command, check=False, env=variables)
            problem = done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""
            used = _cpu_seconds(done.stdout)
        except OSError as error:
            problem = str(error)
        if problem and problem != last_problem:
            write_warning(f"the state of the host was not recorded: {problem[-500:]}")
        last_problem = problem
        await anyio.sleep(max(settings.every, min(MAX_RECORDING_PAUSE_S, used * PAUSE_PER_CPU_S)))


def _cpu_seconds(output: bytes) -> float:
    try:
        return float(output)
    except ValueError:
        return 0.0
