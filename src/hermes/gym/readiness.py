"""What this machine can play, what it lacks, and what would still run without it."""

import os
import shutil
import sys
from pathlib import Path

import anyio

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.environments.confinement import probe
from hermes.gym.box.box import Box
from hermes.gym.box.opening import spare_numbers
from hermes.gym.box.plan import HostPlan
from hermes.gym.scenario import Scenario, known, load_scenario

DOCKER = (
    "there is no docker backend for the gym yet: run Hermes itself in a Linux container "
    "(docker run --privileged) or a virtual machine"
)
MANY_USERS = "more than one user number (apt install uidmap, and a line in /etc/subuid)"


class Readiness(Value, kw_only=True, frozen=True, omit_defaults=False):
    boxes: bool
    """Whether an episode can be made here at all."""
    missing: tuple[str, ...] = ()
    """What this machine lacks, with how to get it."""
    single_user: bool = False
    """Inside, everybody is root: scenarios about users and owners cannot be played."""


class Listed(Value, kw_only=True, frozen=True, omit_defaults=False):
    """One scenario as a list shows it."""

    name: str
    group: str = ""
    summary: str = ""
    light: bool = False
    held_out: bool = False
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Why it cannot be played here; empty when it can."""
    broken: str = ""
    """What is wrong with its folder."""
    folder: str = ""


def readiness() -> Readiness:
    """Looks, and makes one empty box: nothing else tells whether the kernel allows it."""
    if not sys.platform.startswith("linux"):
        return Readiness(boxes=False, missing=(f"Linux: {DOCKER}",))
    missing = [f"{why} ({DOCKER})"] if (why := probe.hopeless()) else []
    missing += [
        f"{program} (apt install {package})"
        for program, package in (("nsenter", "util-linux"), ("bash", "bash"))
        if shutil.which(program) is None
    ]
    if not missing and (why := anyio.run(_try_a_box)):
        missing.append(f"namespaces: {why}")
    single = os.geteuid() != 0 and spare_numbers("/etc/subuid") is None
    wanted = [*missing, *([MANY_USERS] if single else [])]
    return Readiness(boxes=not missing, missing=tuple(wanted), single_user=single)


async def _try_a_box() -> str:
    plan = HostPlan()
    plan.name = "probe"
    try:
        async with Box([plan]):
            return ""
    except HermesError as error:
        return str(error)


def listed(*, here: Readiness | None = None) -> list[Listed]:
    """Every scenario that is installed; a broken one is named with what is wrong with it."""
    return [_listed(name, folder, here) for name, folder in known().items()]


def _listed(name: str, folder: Path, here: Readiness | None) -> Listed:
    try:
        scenario = load_scenario(folder)
        missing = lacking(scenario, here)
    except SettingsError as error:
        return Listed(name=name, folder=str(folder), broken=str(error))
    return Listed(
        name=scenario.name,
        group=scenario.group,
        summary=scenario.summary,
        light=scenario.light,
        held_out=scenario.held_out,
        needs=scenario.needs,
        missing=missing,
        folder=str(folder),
    )


def lacking(scenario: Scenario, here: Readiness | None = None) -> tuple[str, ...]:
    """What keeps this scenario from being played here."""
    if here is not None and not here.boxes:
        return here.missing
    programs = tuple(f"{name} is not installed" for name in scenario.missing())
    if here is not None and here.single_user and several_users(scenario):
        return (*programs, MANY_USERS)
    return programs


def several_users(scenario: Scenario) -> bool:
    """Whether its files or services belong to anybody but root."""
    hosts = scenario.story(0).hosts
    owned = any(file.owner for host in hosts for file in host.files)
    return owned or any("\nUser=" in unit.text for host in hosts for unit in host.units)
