"""Which places to work are ready on this machine, and what the others lack."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec

from hermes.core.errors import HermesError
from hermes.core.plugins import names
from hermes.settings.load import Loaded

PATIENCE = 20.0
PROGRAMS: dict[str, tuple[str, ...]] = {
    "local": ("bash",),
    "docker": ("docker", "podman"),
    "ssh": ("ssh",),
    "singularity": ("apptainer", "singularity"),
    "kubernetes": ("kubectl",),
}
"""One of these must be there."""
PACKAGES = {"modal": "modal", "daytona": "daytona"}
KEYS = {"modal": "MODAL_TOKEN_ID", "daytona": "DAYTONA_API_KEY"}


class Place(msgspec.Struct, frozen=True):
    name: str
    why: str = ""
    """Why it is not ready; empty when it is."""
    fix: str = ""


def places(loaded: Loaded) -> list[Place]:
    known = dict.fromkeys([*PROGRAMS, "sandbox", *PACKAGES, loaded.settings.terminal.backend])
    return [Place(name, *_lack(name, loaded)) for name in known]


def tried(loaded: Loaded) -> Place:
    """The chosen place, entered and asked to run a command that does nothing."""
    from hermes.app.house import place

    name = loaded.settings.terminal.backend

    async def enter() -> Place:
        with anyio.fail_after(PATIENCE):
            async with place(loaded, Path.cwd()) as here:
                done = await here.run("true", timeout=PATIENCE)
        return Place(name) if done.exit_code == 0 else Place(name, f"it says: {done.output}")

    try:
        return anyio.run(enter)
    except HermesError as error:
        return Place(name, str(error))
    except TimeoutError:
        return Place(name, f"it was not ready within {PATIENCE:.0f} seconds")


def _lack(name: str, loaded: Loaded) -> tuple[str, ...]:
    if name not in names("environments"):
        return ("no installed package brings it",)
    wanted = PROGRAMS.get(name, ())
    if wanted and not any(map(shutil.which, wanted)):
        return (f"{' or '.join(wanted)} is not installed", f"install {wanted[0]}")
    if name == "sandbox" and sys.platform != "linux":
        return ("it needs Linux", "use docker here")
    if name == "ssh" and not loaded.settings.terminal.ssh_host:
        return ("no host is set", "hermes config set terminal.ssh_host HOST")
    package = PACKAGES.get(name)
    if package and find_spec(package) is None:
        return (f"the package {package} is not installed", f"pip install {package}")
    if name in KEYS and not loaded.secrets.get(KEYS[name]):
        return (f"{KEYS[name]} is not set", f"hermes config set {KEYS[name]}")
    return ()
