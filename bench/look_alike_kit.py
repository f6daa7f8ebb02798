"""Tools for authors of look-alike faults: one service with a neighbour, and a scenario about it.

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
    spec: ScenarioSpec
    keep: tuple[tuple[str, str], ...] = ()
    """Name and script: what the script prints must be the same when Hermes has finished."""
    moving: tuple[str, ...] = ()
    """Paths that the host itself changes, besides logs that grow."""
    rhythm_s: float = 0.0
    """Seconds in which an intermittent symptom shows at least once."""


@dataclass(frozen=True)
class Site:
    """The drawn names of one variant."""

    rng: RandomSource
    service: str
    other: str
    host: str
    layout: ServiceLayout
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
        parts, layout = Parts(**more), self.layout
        neighbour = draw_neighbour(self.rng, self.other)
        files: list[HostFile] = [*parts.files, *neighbour.files]
        units: list[HostFile] = [*parts.units, neighbour.unit]
        if body:
            text = fill_program(body, style=LOG_STYLE, **parts.words)
            files += [HostFile(path=layout.program, text=text)]
            files += [layout.settings(port=layout.port, **(settings or {}))]
            units += [service_unit(self.service, layout.command, more=parts.unit_lines)]
        same = [UnchangedCheck(name=f"{path} is as it was", path=path) for path in parts.same]
        title = alert.format(service=self.service, host=self.host, port=layout.port)
        labels = {"service": self.service, "instance": f"{self.host}:{layout.port}"}
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
        spec = ScenarioSpec(
            hosts=(host,),
            alert=ScenarioAlert(
                title=title, text=parts.text or title, severity="P1", labels=labels
            ),
            healthy=(*symptoms, *parts.healthy, neighbour.answers),
            symptoms=tuple(symptoms),
            inject=tuple(inject),
            cure=tuple(parts.cure) or ((FaultTrigger(restart=(layout.unit,)),) if body else ()),
            collateral=(*neighbour.unharmed, *same, *parts.collateral),
            fault=FaultDescription(component=(self.service,), mechanism=("another cause",)),
            reference=tuple(fix),
            traffic=tuple(parts.traffic),
            settle=parts.settle,
        )
        return LookAlike(spec, tuple(parts.keep), tuple(parts.moving), parts.rhythm_s)


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
    """What is triggered again before the last checks; by default the service is restarted."""
    traffic: Sequence[TrafficSpec] = ()
    settle: float = 0.0
    """Seconds to wait after the injection before the symptoms are checked."""
    text: str = ""
    """The text of the alert where it says more than its title."""
    keep: Sequence[tuple[str, str]] = ()
    moving: Sequence[str] = ()
    rhythm_s: float = 0.0


def site_for(name: str, seed: int) -> Site:
    rng = RandomSource(seed, name)
    service, other = rng.services(2)
    return Site(rng, service, other, rng.host(), draw_layout(rng, service), rng.token())


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.py"))


def load(name: str, folder: Path = FOLDER) -> Any:
    spec = importlib.util.spec_from_file_location(f"look_alike_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
