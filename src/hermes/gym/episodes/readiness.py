"""Checks which scenarios can be played on this machine, and what it lacks for the others."""

import os
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from hermes.core.errors import HermesError, SettingsError
from hermes.core.messages import Value
from hermes.environments.boxes.backend import BoxOpener, HostPlan
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import open_local_box, subordinate_ids
from hermes.environments.sandboxing import support
from hermes.gym.box.docker_backend import docker_box_opener
from hermes.gym.scenario import (
    POSTGRESQL_BIN_GLOB,
    PROGRAM_PATH,
    SEVERAL_USERS,
    Scenario,
    find_scenario,
    installed_scenarios,
    load_scenario,
)
from hermes.gym.settings import GymSettings

DOCKER_HINT = "boxes can be made in containers instead: --backend docker"
DAEMON_HINT = "install and start docker, or set gym.docker_host; see docs/how-to/drills.md"
IMAGE_HINT = "make the image: scripts/gym-image | docker import - {image}"
SEVERAL_USERS_HINT = "more than one user number (apt install uidmap, and a line in /etc/subuid)"


class GymReadiness(Value, kw_only=True, frozen=True, omit_defaults=False):
    boxes: bool
    """Whether a box can be opened here at all."""
    missing: tuple[str, ...] = ()
    """What this machine lacks, with how to get it."""
    single_user: bool = False
    """Hosts have only root: scenarios with other users or owners cannot be played."""
    lacks: tuple[str, ...] | None = None
    """Programs missing in the docker image; None for a local backend."""


class ScenarioListing(Value, kw_only=True, frozen=True, omit_defaults=False):
    name: str
    group: str = ""
    summary: str = ""
    light: bool = False
    held_out: bool = False
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Why it cannot be played here; empty when it can."""
    broken: str = ""
    """Why its folder could not be loaded; empty when it could."""
    folder: str = ""


def check_readiness(settings: GymSettings | None = None) -> GymReadiness:
    """Opens an empty box: the only sure way to know whether the kernel allows it."""
    settings = settings or GymSettings()
    if settings.backend == "docker":
        return _check_docker(settings)
    if not sys.platform.startswith("linux"):
        return GymReadiness(boxes=False, missing=(f"Linux: {DOCKER_HINT}",))
    missing = [f"{why} ({DOCKER_HINT})"] if (why := support.no_sandbox_reason()) else []
    missing += [
        f"{program} (apt install {package})"
        for program, package in (("nsenter", "util-linux"), ("bash", "bash"))
        if shutil.which(program) is None
    ]
    if not missing and (why := anyio.run(_try_box, open_local_box)[0]):
        missing.append(f"namespaces: {why}")
    single = os.geteuid() != 0 and subordinate_ids("/etc/subuid") is None
    hints = [*missing, *([SEVERAL_USERS_HINT] if single else [])]
    return GymReadiness(boxes=not missing, missing=tuple(hints), single_user=single)


def _check_docker(settings: GymSettings) -> GymReadiness:
    why, lacks = anyio.run(_try_box, docker_box_opener(settings))
    if not why:
        return GymReadiness(boxes=True, lacks=lacks)
    hint = IMAGE_HINT.format(image=settings.docker_image) if "mage" in why else DAEMON_HINT
    return GymReadiness(boxes=False, missing=(f"docker: {why} ({hint})",))


async def _try_box(opener: BoxOpener) -> tuple[str, tuple[str, ...]]:
    """The error when it cannot be opened, and the programs of scenarios that it lacks."""
    plan = HostPlan()
    plan.name = "probe"
    words = " ".join(sorted({name for each in _loadable_scenarios() for name in each.programs}))
    script = (
        f"PATH={PROGRAM_PATH}:$(echo {POSTGRESQL_BIN_GLOB} | tr ' ' :); "
        f"for each in {words}; do type $each > /dev/null 2>&1 || echo $each; done"
    )
    try:
        async with Box([plan], opener=opener) as box:
            if opener is open_local_box:
                return "", ()
            return "", tuple((await box.run(script)).output.split())
    except HermesError as error:
        return str(error), ()


def _loadable_scenarios() -> list[Scenario]:
    found = []
    for folder in installed_scenarios().values():
        try:
            found.append(load_scenario(folder))
        except SettingsError:  # `list_scenarios` reports it
            continue
    return found


def list_scenarios(
    *, here: GymReadiness | None = None, folders: Sequence[str] = ()
) -> list[ScenarioListing]:
    """All installed scenarios; a broken one is listed with its error."""
    found = installed_scenarios(folders)
    return [_list_scenario(name, folder, here) for name, folder in found.items()]


def _list_scenario(name: str, folder: Path, here: GymReadiness | None) -> ScenarioListing:
    try:
        scenario = load_scenario(folder)
        missing = missing_requirements(scenario, here)
    except SettingsError as error:
        return ScenarioListing(name=name, folder=str(folder), broken=str(error))
    return ScenarioListing(
        name=scenario.name,
        group=scenario.group,
        summary=scenario.summary,
        light=scenario.light,
        held_out=scenario.held_out,
        needs=scenario.needs,
        missing=missing,
        folder=str(folder),
    )


def missing_requirements(scenario: Scenario, here: GymReadiness | None = None) -> tuple[str, ...]:
    """Return why this scenario cannot be played here; empty when it can."""
    if here is not None and not here.boxes:
        return here.missing
    missing = scenario.missing_programs()
    reason = "not installed"
    if here is not None and here.lacks is not None:
        missing = tuple(name for name in scenario.programs if name in here.lacks)
        reason = "not in the image"
    programs = tuple(f"{name} is {reason}" for name in missing)
    if here is not None and here.single_user and needs_several_users(scenario):
        return (*programs, SEVERAL_USERS_HINT)
    return programs


def needs_several_users(scenario: Scenario) -> bool:
    """Return whether it says so, or has files or services of another user than root."""
    if SEVERAL_USERS in scenario.needs:
        return True
    hosts = scenario.draw_spec(0).hosts
    owned = any(file.owner for host in hosts for file in host.files)
    return owned or any("\nUser=" in unit.text for host in hosts for unit in host.units)


def select_scenarios(names: str, *, light: bool) -> list[Scenario]:
    """`names` are separated by commas; none means all that can be played here.

    Raises `SettingsError` where no box can be made.
    """
    if names:
        return [find_scenario(name.strip()) for name in names.split(",")]
    # `check_readiness` starts an event loop, and a trainer may already run one in this thread.
    with ThreadPoolExecutor(max_workers=1) as executor:
        here = executor.submit(check_readiness).result()
    if not here.boxes:
        raise SettingsError(f"no box can be made here: {'; '.join(here.missing)}")
    return [
        find_scenario(each.name)
        for each in list_scenarios(here=here)
        if not (each.broken or each.missing) and (each.light or not light)
    ]
