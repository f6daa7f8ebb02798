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
from hermes.gym.box.carrier import Opener
from hermes.gym.box.docker import in_docker
from hermes.gym.box.here import open_here
from hermes.gym.box.opening import spare_numbers
from hermes.gym.box.plan import HostPlan
from hermes.gym.scenario import BESIDE, PATH, SEVERAL_USERS, Scenario, known, load_scenario
from hermes.gym.settings import GymSettings

DOCKER = "boxes can be made in containers instead: --backend docker"
DAEMON = "install and start docker, or set gym.docker_host; see docs/how-to/drills.md"
IMAGE = "make the image: scripts/gym-image | docker import - {image}"
MANY_USERS = "more than one user number (apt install uidmap, and a line in /etc/subuid)"


class Readiness(Value, kw_only=True, frozen=True, omit_defaults=False):
    boxes: bool
    """Whether an episode can be made here at all."""
    missing: tuple[str, ...] = ()
    """What this machine lacks, with how to get it."""
    single_user: bool = False
    """Inside, everybody is root: scenarios about users and owners cannot be played."""
    lacks: tuple[str, ...] | None = None
    """Programs that an image lacks; None where those of this machine count."""


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


def readiness(settings: GymSettings | None = None) -> Readiness:
    """Looks, and makes one empty box: nothing else tells whether the kernel allows it."""
    settings = settings or GymSettings()
    if settings.backend == "docker":
        return _in_containers(settings)
    if not sys.platform.startswith("linux"):
        return Readiness(boxes=False, missing=(f"Linux: {DOCKER}",))
    missing = [f"{why} ({DOCKER})"] if (why := probe.hopeless()) else []
    missing += [
        f"{program} (apt install {package})"
        for program, package in (("nsenter", "util-linux"), ("bash", "bash"))
        if shutil.which(program) is None
    ]
    if not missing and (why := anyio.run(_try_a_box, open_here)[0]):
        missing.append(f"namespaces: {why}")
    single = os.geteuid() != 0 and spare_numbers("/etc/subuid") is None
    wanted = [*missing, *([MANY_USERS] if single else [])]
    return Readiness(boxes=not missing, missing=tuple(wanted), single_user=single)


def _in_containers(settings: GymSettings) -> Readiness:
    why, lacks = anyio.run(_try_a_box, in_docker(settings))
    if not why:
        return Readiness(boxes=True, lacks=lacks)
    hint = IMAGE.format(image=settings.docker_image) if "mage" in why else DAEMON
    return Readiness(boxes=False, missing=(f"docker: {why} ({hint})",))


async def _try_a_box(opener: Opener) -> tuple[str, tuple[str, ...]]:
    """Why there can be none, and which programs that scenarios need are not to be found in it."""
    plan = HostPlan()
    plan.name = "probe"
    words = " ".join(sorted({name for each in _scenarios() for name in each.programs}))
    look = (
        f"PATH={PATH}:$(echo {BESIDE} | tr ' ' :); "
        f"for each in {words}; do type $each > /dev/null 2>&1 || echo $each; done"
    )
    try:
        async with Box([plan], opener=opener) as box:
            if opener is open_here:
                return "", ()
            return "", tuple((await box.run(look)).output.split())
    except HermesError as error:
        return str(error), ()


def _scenarios() -> list[Scenario]:
    found = []
    for folder in known().values():
        try:
            found.append(load_scenario(folder))
        except SettingsError:  # a broken one is told of where scenarios are listed
            continue
    return found


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
    missing = scenario.missing()
    where = "not installed"
    if here is not None and here.lacks is not None:
        missing = tuple(name for name in scenario.programs if name in here.lacks)
        where = "not in the image"
    programs = tuple(f"{name} is {where}" for name in missing)
    if here is not None and here.single_user and several_users(scenario):
        return (*programs, MANY_USERS)
    return programs


def several_users(scenario: Scenario) -> bool:
    """Whether it says so, or its files or services belong to anybody but root."""
    if SEVERAL_USERS in scenario.needs:
        return True
    hosts = scenario.story(0).hosts
    owned = any(file.owner for host in hosts for file in host.files)
    return owned or any("\nUser=" in unit.text for host in hosts for unit in host.units)
