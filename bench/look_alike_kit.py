"""What an author of look-alike faults needs: one service with a neighbour, and a story about it.

A look-alike shows the symptom that a bundled playbook is for, and has another cause. Each is a file
`look_alikes/PLAYBOOK_N.py` with a docstring that names the cause and a function `draw(site)`.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostDisk,
    HostFile,
    HostFolder,
    HostSpec,
    ScenarioAlert,
    ScenarioCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
)
from hermes.gym.services.python_service import (
    ServiceLayout,
    draw_layout,
    draw_neighbour,
    fill_program,
    service_unit,
)

FOLDER = Path(__file__).parent / "look_alikes"
LOG_STYLE = "{time} {level:5} {text}"


@dataclass(frozen=True)
class LookAlike:
    story: ScenarioSpec
    keep: tuple[tuple[str, str], ...] = ()
    """Name and script: what the script prints must be the same when Hermes has finished."""
    moving: tuple[str, ...] = ()
    """Paths that the host itself changes, beside logs that grow."""
    rhythm_s: float = 0.0
    """Seconds in which an intermittent symptom shows at least once."""


@dataclass(frozen=True)
class Site:
    """The names of one episode; another seed gives others."""

    dice: RandomSource
    service: str
    other: str
    host: str
    place: ServiceLayout
    """Of the service: `program`, `conf`, `data`, `port`, `unit`, `command`, `put(key, value)`."""
    token: str

    def look_alike(
        self,
        *,
        alert: str,
        symptoms: Sequence[ScenarioCheck],
        inject: Sequence[str],
        fix: Sequence[str],
        body: str = "",
        settings: dict[str, object] | None = None,
        **more: Any,
    ) -> LookAlike:
        """`more` may hold the fields of `Parts`."""
        parts, place = Parts(**more), self.place
        beside = draw_neighbour(self.dice, self.other)
        files: list[HostFile] = [*parts.files, *beside.files]
        units: list[HostFile] = [*parts.units, beside.unit]
        if body:
            text = fill_program(body, style=LOG_STYLE, **parts.words)
            files += [HostFile(path=place.program, text=text)]
            files += [place.settings(port=place.port, **(settings or {}))]
            units += [service_unit(self.service, place.command, more=parts.unit_lines)]
        same = [UnchangedCheck(name=f"{path} is as it was", path=path) for path in parts.same]
        title = alert.format(service=self.service, host=self.host, port=place.port)
        labels = {"service": self.service, "instance": f"{self.host}:{place.port}"}
        host = HostSpec(
            name=self.host,
            files=tuple(files),
            folders=tuple(parts.folders),
            units=tuple(units),
            disks=tuple(parts.disks),
            disk_mb=parts.disk_mb,
            users=tuple(parts.users),
            minute=parts.minute,
        )
        story = ScenarioSpec(
            hosts=(host,),
            alert=ScenarioAlert(
                title=title, text=parts.text or title, severity="P1", labels=labels
            ),
            healthy=(*symptoms, *parts.healthy, beside.answers),
            symptoms=tuple(symptoms),
            inject=tuple(inject),
            cure=tuple(parts.cure) or ((FaultTrigger(restart=(place.unit,)),) if body else ()),
            collateral=(*beside.unharmed, *same, *parts.collateral),
            fault=FaultDescription(component=(self.service,), mechanism=("another cause",)),
            reference=tuple(fix),
            traffic=tuple(parts.traffic),
            settle=parts.settle,
        )
        return LookAlike(story, tuple(parts.keep), tuple(parts.moving), parts.rhythm_s)


@dataclass(frozen=True)
class Parts:
    words: dict[str, object] = field(default_factory=dict)
    """`%%name%%` in the body stands for these values."""
    unit_lines: str = ""
    """More lines for the [Service] section of the unit."""
    files: Sequence[HostFile] = ()
    folders: Sequence[str | HostFolder] = ()
    units: Sequence[HostFile] = ()
    """Further units, made with `hermes.gym.services.python_service.service_unit`."""
    disks: Sequence[HostDisk] = ()
    disk_mb: int = 192
    users: Sequence[str] = ("www",)
    minute: float = 60.0
    healthy: Sequence[ScenarioCheck] = ()
    """Further checks that hold before the fault and after the fix."""
    same: Sequence[str] = ()
    """Files and folders that neither the fault nor the fix touches, compared by content."""
    collateral: Sequence[ScenarioCheck] = ()
    cure: Sequence[FaultTrigger] = ()
    """What is set off again before the last look; by default the service is restarted."""
    traffic: Sequence[TrafficSpec] = ()
    settle: float = 0.0
    """Seconds after the injection before the symptom must show."""
    text: str = ""
    """The text of the alert where it says more than its title."""
    keep: Sequence[tuple[str, str]] = ()
    moving: Sequence[str] = ()
    rhythm_s: float = 0.0


def site_for(name: str, seed: int) -> Site:
    dice = RandomSource(seed, name)
    service, other = dice.services(2)
    return Site(dice, service, other, dice.host(), draw_layout(dice, service), dice.token())


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.py"))


def load(name: str, folder: Path = FOLDER) -> Any:
    spec = importlib.util.spec_from_file_location(f"look_alike_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
