"""Joins stories: two faults on one host, or a fault and something that only looks like one."""

from collections.abc import Iterable

import msgspec

from hermes.gym.dice import Dice
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import load_scenario
from hermes.gym.scenarios import folder
from hermes.gym.story import Alert, Check, Fault, File, Host, Same, Story

TRIES = 50


def drawn(name: str, dice: Dice, *, beside: Story | None = None) -> Story:
    """A story of another built-in scenario of one host; no service of it is in `beside`."""
    draw = load_scenario(folder() / name).draw
    taken = set(_units(beside)) if beside else set[str]()
    for _ in range(TRIES):
        story = draw(dice)
        if not taken & set(_units(story)):
            return story
    raise ValueError(f"{name} always uses the names of the story beside it")


def joined(first: Story, second: Story, alert: Alert) -> Story:
    """Both faults on the first story's host. Mending one of them is relief, not a cure."""
    host = _one_host(first.hosts[0], second.hosts[0])
    return Story(
        hosts=(host,),
        alert=alert,
        healthy=_once((*first.healthy, *second.healthy)),
        symptoms=(*first.symptoms, *second.symptoms),
        inject=(*first.inject, *second.inject),
        cure=(*first.cure, *second.cure),
        collateral=_once((*first.collateral, *second.collateral)),
        fault=first.fault,
        others=(*first.others, *second.faults),
        decoys=(*first.decoys, *second.decoys),
        reference=(*first.reference, *second.reference),
        relief=first.reference,
        shortcut=(*first.shortcut, *second.reference),
        traffic=(*first.traffic, *second.traffic),
        settle=max(first.settle, second.settle),
    )


def with_decoy(story: Story, dice: Dice, lines: list[str]) -> Story:
    """Beside the fault a unit that has been failing for ages and that nobody needs; leave it."""
    name = f"{dice.word()}-{dice.pick(('import', 'exporter', 'sync', 'migrate', 'legacy'))}"
    path, text = f"/opt/{name}/run.sh", dice.wording(lines).format(name=name)
    script = File(path=path, text=f"#!/bin/sh\necho '{text}' >&2\nexit 1\n", mode=0o755)
    failing = unit(name, path)
    quiet = failing.text.replace("Restart=on-failure\nRestartSec=200ms\n", "")
    host = msgspec.structs.replace(
        story.hosts[0],
        files=(*story.hosts[0].files, script),
        units=(*story.hosts[0].units, msgspec.structs.replace(failing, text=quiet)),
    )
    return msgspec.structs.replace(
        story,
        hosts=(host, *story.hosts[1:]),
        collateral=(*story.collateral, Same(name=f"the old {name}", path=f"/opt/{name}")),
        decoys=(*story.decoys, Fault(component=(name, path), mechanism=("has failed for ages",))),
    )


def _one_host(first: Host, second: Host) -> Host:
    if first.users != second.users:
        raise ValueError("stories with different users cannot share a host")
    return msgspec.structs.replace(
        first,
        files=(*first.files, *second.files),
        folders=(*first.folders, *second.folders),
        units=(*first.units, *second.units),
        disks=(*first.disks, *second.disks),
        disk_mb=max(first.disk_mb, second.disk_mb),
        minute=min(first.minute, second.minute),
    )


def _units(story: Story) -> Iterable[str]:
    return (unit.path for host in story.hosts for unit in host.units)


def _once(checks: Iterable[Check]) -> tuple[Check, ...]:
    found: list[Check] = []
    for each in checks:
        if each not in found:
            found.append(each)
    return tuple(found)
