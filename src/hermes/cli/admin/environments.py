"""Checks which environments are ready on this machine."""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from hermes.core.errors import HermesError
from hermes.core.plugins import plugin_names
from hermes.settings.load import LoadedSettings

ENVIRONMENT_TIMEOUT_S = 20.0


class EnvironmentReadiness(msgspec.Struct, frozen=True):
    name: str
    why: str = ""
    """Why it is not ready, and what to do; empty when it is."""


def list_environments(loaded: LoadedSettings) -> list[EnvironmentReadiness]:
    """Check every kind of environment in parallel; the configured one comes first."""
    chosen = loaded.settings.terminal.backend
    known = dict.fromkeys([chosen, *plugin_names("environments", loaded.home)])
    found: dict[str, str] = {}

    async def check(name: str) -> None:
        found[name] = await _missing_requirement(name, loaded)

    async def check_all() -> None:
        async with anyio.create_task_group() as group:
            for name in known:
                group.start_soon(check, name)

    anyio.run(check_all)
    return [EnvironmentReadiness(name, found[name]) for name in known]


async def _missing_requirement(name: str, loaded: LoadedSettings) -> str:
    from hermes.app.tools.tooling import environment_options
    from hermes.environments.open import why_not

    try:
        with anyio.fail_after(ENVIRONMENT_TIMEOUT_S):
            return await why_not(name, environment_options(loaded, Path.cwd())) or ""
    except TimeoutError:
        return f"it did not answer within {ENVIRONMENT_TIMEOUT_S:.0f} seconds"
    except (HermesError, OSError) as error:  # a TimeoutError is an OSError too, without a message
        return str(error)


def try_environment(loaded: LoadedSettings) -> EnvironmentReadiness:
    """Open the configured environment and run a command that does nothing."""
    from hermes.app.tools.tooling import configured_environment

    name = loaded.settings.terminal.backend

    async def run_command() -> EnvironmentReadiness:
        with TemporaryDirectory() as folder, anyio.fail_after(ENVIRONMENT_TIMEOUT_S):
            # The home of the user stays untouched.
            in_temporary_home = msgspec.structs.replace(loaded, home=Path(folder))
            async with configured_environment(in_temporary_home, Path.cwd()) as environment:
                result = await environment.run("true", timeout=ENVIRONMENT_TIMEOUT_S)
        return (
            EnvironmentReadiness(name)
            if result.exit_code == 0
            else EnvironmentReadiness(name, f"it says: {result.output}")
        )

    try:
        return anyio.run(run_command)
    except HermesError as error:
        return EnvironmentReadiness(name, str(error))
    except TimeoutError:
        return EnvironmentReadiness(
            name, f"it was not ready within {ENVIRONMENT_TIMEOUT_S:.0f} seconds"
        )
    except OSError as error:
        return EnvironmentReadiness(name, str(error))


def try_copy(loaded: LoadedSettings) -> EnvironmentReadiness:
    """Make a copy of this machine as experiments do, and end it."""
    from hermes.app.copies.host_copies import open_machine_copy
    from hermes.environments.copies import DEFAULT_LIMITS

    async def make_copy() -> None:
        with anyio.fail_after(ENVIRONMENT_TIMEOUT_S):
            await (await open_machine_copy(loaded.home, DEFAULT_LIMITS)).close()

    try:
        anyio.run(make_copy)
    except TimeoutError:
        return EnvironmentReadiness("local", f"none was made in {ENVIRONMENT_TIMEOUT_S:.0f} s")
    except (HermesError, OSError) as error:
        return EnvironmentReadiness("local", str(error))
    return EnvironmentReadiness("local")
