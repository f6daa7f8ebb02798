"""Combines scenarios: two faults on one host, or a fault and a decoy."""

from collections.abc import Iterable

import msgspec

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import load_scenario
from hermes.gym.scenario_spec import (
    FaultDescription,
    HostFile,
    HostSpec,
    ScenarioAlert,
    ScenarioCheck,
    ScenarioSpec,
    UnchangedCheck,
)
from hermes.gym.scenarios import folder
from hermes.gym.services.python_service import service_unit

MAX_DRAW_ATTEMPTS = 50


def draw_scenario(
    name: str, rng: RandomSource, *, beside: ScenarioSpec | None = None
) -> ScenarioSpec:
    """Draws a built-in scenario with one host, without services that `beside` has too."""
    draw = load_scenario(folder() / name).draw
    taken = set(_unit_paths(beside)) if beside else set[str]()
    for _ in range(MAX_DRAW_ATTEMPTS):
        spec = draw(rng)
        if not taken & set(_unit_paths(spec)):
            return spec
    raise ValueError(f"{name} always uses the names of the other scenario")


def combine_faults(first: ScenarioSpec, second: ScenarioSpec, alert: ScenarioAlert) -> ScenarioSpec:
    """Both faults on the first one's host. To fix only one of them is relief."""
    host = _merge_hosts(first.hosts[0], second.hosts[0])
    return ScenarioSpec(
        hosts=(host,),
        alert=alert,
        healthy=_unique_checks((*first.healthy, *second.healthy)),
        symptoms=(*first.symptoms, *second.symptoms),
        inject=(*first.inject, *second.inject),
        cure=(*first.cure, *second.cure),
        collateral=_unique_checks((*first.collateral, *second.collateral)),
        fault=first.fault,
        others=(*first.others, *second.faults),
        decoys=(*first.decoys, *second.decoys),
        reference=(*first.reference, *second.reference),
        relief=first.reference,
        shortcut=(*first.shortcut, *second.reference) if first.shortcut else (),
        traffic=(*first.traffic, *second.traffic),
        settle=max(first.settle, second.settle),
    )


def add_decoy(spec: ScenarioSpec, rng: RandomSource, lines: list[str]) -> ScenarioSpec:
    """Adds a unit that has failed for a long time and has nothing to do with the fault."""
    name = f"{rng.word()}-{rng.pick(('import', 'exporter', 'sync', 'migrate', 'legacy'))}"
    path, text = f"/opt/{name}/run.sh", rng.wording(lines).format(name=name)
    script = HostFile(path=path, text=f"#!/bin/sh\necho '{text}' >&2\nexit 1\n", mode=0o755)
    failing = service_unit(name, path)
    quiet = failing.text.replace("Restart=on-failure\nRestartSec=200ms\n", "")
    host = msgspec.structs.replace(
        spec.hosts[0],
        files=(*spec.hosts[0].files, script),
        units=(*spec.hosts[0].units, msgspec.structs.replace(failing, text=quiet)),
    )
    return msgspec.structs.replace(
        spec,
        hosts=(host, *spec.hosts[1:]),
        collateral=(*spec.collateral, UnchangedCheck(name=f"the old {name}", path=f"/opt/{name}")),
        decoys=(
            *spec.decoys,
            FaultDescription(component=(name, path), mechanism=("has failed for ages",)),
        ),
    )


def _merge_hosts(first: HostSpec, second: HostSpec) -> HostSpec:
    if first.users != second.users:
        raise ValueError("scenarios with different users cannot share a host")
    return msgspec.structs.replace(
        first,
        files=(*first.files, *second.files),
        folders=(*first.folders, *second.folders),
        units=(*first.units, *second.units),
        disks=(*first.disks, *second.disks),
        disk_mb=max(first.disk_mb, second.disk_mb),
        minute=min(first.minute, second.minute),
    )


def _unit_paths(spec: ScenarioSpec) -> Iterable[str]:
    return (unit.path for host in spec.hosts for unit in host.units)


def _unique_checks(checks: Iterable[ScenarioCheck]) -> tuple[ScenarioCheck, ...]:
    found: list[ScenarioCheck] = []
    for each in checks:
        if each not in found:
            found.append(each)
    return tuple(found)
