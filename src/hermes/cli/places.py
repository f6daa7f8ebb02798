"""Which places to work are ready on this machine, and what the others lack."""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from hermes.core.errors import HermesError
from hermes.core.plugins import names
from hermes.settings.load import Loaded

PATIENCE = 20.0


class Place(msgspec.Struct, frozen=True):
    name: str
    why: str = ""
    """Why it is not ready, and what to do; empty when it is."""


def places(loaded: Loaded) -> list[Place]:
    """Every kind of place, the chosen one first, asked side by side."""
    chosen = loaded.settings.terminal.backend
    known = dict.fromkeys([chosen, *names("environments")])
    found: dict[str, str] = {}

    async def look(name: str) -> None:
        found[name] = await _lack(name, loaded)

    async def ask() -> None:
        async with anyio.create_task_group() as group:
            for name in known:
                group.start_soon(look, name)

    anyio.run(ask)
    return [Place(name, found[name]) for name in known]


async def _lack(name: str, loaded: Loaded) -> str:
    from hermes.app.environment import opening
    from hermes.environments.open import why_not

    try:
        with anyio.fail_after(PATIENCE):
            return await why_not(name, opening(loaded, Path.cwd())) or ""
    except TimeoutError:
        return f"it did not answer within {PATIENCE:.0f} seconds"
    except (HermesError, OSError) as error:  # a TimeoutError is one too, without a word
        return str(error)


def tried(loaded: Loaded) -> Place:
    """The chosen place, entered and asked to run a command that does nothing."""
    from hermes.app.environment import place

    name = loaded.settings.terminal.backend

    async def enter() -> Place:
        with TemporaryDirectory() as folder, anyio.fail_after(PATIENCE):
            elsewhere = msgspec.structs.replace(loaded, home=Path(folder))  # ours stays untouched
            async with place(elsewhere, Path.cwd()) as here:
                done = await here.run("true", timeout=PATIENCE)
        return Place(name) if done.exit_code == 0 else Place(name, f"it says: {done.output}")

    try:
        return anyio.run(enter)
    except HermesError as error:
        return Place(name, str(error))
    except TimeoutError:
        return Place(name, f"it was not ready within {PATIENCE:.0f} seconds")
    except OSError as error:
        return Place(name, str(error))
