"""Builds a scenario from what is particular to it; all that its author needs is imported from here.

A scenario calls a `ScenarioBuilder` in its function `draw`. Each call draws at once, so the order
of the calls is part of what a seed means.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SEVERAL_USERS, Scenario, shared_module, texts
from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    ExpectedResponse,
    FaultDescription,
    FaultTrigger,
    HostDisk,
    HostFile,
    HostFolder,
    HostLink,
    HostSpec,
    HttpCheck,
    LoadSpec,
    ScenarioCheck,
    ScenarioGroup,
    ScenarioSpec,
    ScriptCheck,
    Severity,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.scenarios.combine import add_decoy
from hermes.gym.services.nginx import AUTHORITY_FILE, NGINX_NEEDS, certificates_script, nginx_server
from hermes.gym.services.postgres import (
    PG_CLIENT,
    POSTGRES_HOST_USERS,
    POSTGRES_NEEDS,
    PostgresServer,
    postgres_server,
)
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    PYTHON_COMMAND,
    NeighbourService,
    ServiceLayout,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
    shop_service,
    start_unsupervised_script,
)
from hermes.gym.services.redis import REDIS_CLIENT, REDIS_NEEDS, RedisServer, redis_server
from hermes.gym.services.shell_scripts import (
    checked_requests_script,
    clean_restart_triggers,
    number_grows_script,
    other_settings_unchanged,
    requests_script,
    served_by_unit,
    shell_history_script,
    wait_until_listening_script,
)

__all__ = [
    "AUTHORITY_FILE",
    "ITEM_LIST_PROGRAM",
    "NGINX_NEEDS",
    "PG_CLIENT",
    "POSTGRES_NEEDS",
    "PYTHON_COMMAND",
    "REDIS_CLIENT",
    "REDIS_NEEDS",
    "SEVERAL_USERS",
    "DiskSpaceCheck",
    "FaultTrigger",
    "HostFile",
    "HostFolder",
    "HostSpec",
    "HttpCheck",
    "LoadSpec",
    "ScenarioBuilder",
    "ScriptCheck",
    "ServiceLayout",
    "UnchangedCheck",
    "UnitRunningCheck",
    "build_scenario",
    "certificates_script",
    "checked_requests_script",
    "number_grows_script",
    "other_settings_unchanged",
    "redis_server",
    "requests_script",
    "script_check",
    "served_by_unit",
    "service_unit",
    "shared_module",
    "shop_service",
    "start_unsupervised_script",
    "wait_until_listening_script",
]

KeptCheck = ScenarioCheck | tuple[str, str]
"""A check for damage, or the name and the path of files that must stay as they are."""
Commands = str | tuple[str, ...]


def build_scenario(
    module_file: str,
    draw: Callable[["ScenarioBuilder"], None],
    group: ScenarioGroup,
    summary: str,
    *,
    needs: tuple[str, ...] = (),
    held_out: bool = False,
) -> Scenario:
    """The value of `SCENARIO`. `module_file` is `__file__`: the folder has the name of the scenario
    and contains its `texts.yaml`."""
    folder, wordings = Path(module_file).resolve().parent, texts(module_file)

    def draw_spec(rng: RandomSource) -> ScenarioSpec:
        builder = ScenarioBuilder(rng, wordings, folder)
        draw(builder)
        return builder.spec()

    return Scenario(
        name=folder.name,
        group=group,
        summary=summary,
        draw=draw_spec,
        needs=needs,
        held_out=held_out,
    )


class ScenarioBuilder:
    """Collects one host with its services, the fault, and how a fix is recognized."""

    host: str
    """The name of the host."""
    neighbour: NeighbourService
    """A service on the host that the fault does not concern."""

    def __init__(self, rng: RandomSource, texts: dict[str, Any], folder: Path) -> None:
        self.rng = rng
        self._folder = folder
        self.texts = texts
        self._services: tuple[ServiceLayout, ...] = ()
        self._after = ""
        self._neighbour_placed = True
        self._decoy_texts = ""
        self._host: dict[str, list[Any]] = {
            name: [] for name in ("files", "folders", "links", "units", "disks")
        }
        self._host_options: dict[str, Any] = {}
        self._other_hosts: list[HostSpec] = []
        self._checks: dict[str, list[ScenarioCheck]] = {
            "healthy": [],
            "symptoms": [],
            "collateral": [],
        }
        self._triggers: list[FaultTrigger] = []
        self._spec: dict[str, Any] = {}

    def draw_service(self) -> ServiceLayout:
        """A service that will break, beside its neighbour."""
        return self.draw_services(1)[0]

    def draw_services(
        self, count: int, *, neighbour_at: int | None = None, job_suffixes: tuple[str, ...] = ()
    ) -> tuple[ServiceLayout, ...]:
        """The layouts of services, a neighbour (drawn last or in the given place), and the host.

        With `job_suffixes`, the last service is a job and gets one of them.
        """
        names = self.rng.services(count + 1)
        at = count if neighbour_at is None else neighbour_at
        if job_suffixes:
            names[count - 1] += f"-{self.rng.pick(job_suffixes)}"
        layouts = []
        for number, name in enumerate(names):
            if number == at:
                self.draw_neighbour(name)
            else:
                layouts.append(draw_layout(self.rng, name))
        self.host, self._services = self.rng.host(), tuple(layouts)
        return self._services

    def draw_neighbour(self, name: str) -> None:
        self.neighbour, self._neighbour_placed = draw_neighbour(self.rng, name), False

    def wording(self, key: str, /, **facts: object) -> str:
        """One of the texts under this key in `texts.yaml`; the facts fill its placeholders."""
        text = self.rng.wording(self.texts[key])
        return text.format(**facts) if facts else text

    def source(self, name: str, **texts: object) -> str:
        """A file in the folder of the scenario in which `%%name%%` stands for a text."""
        found = (self._folder / name).read_text()
        for each, text in texts.items():
            found = found.replace(f"%%{each}%%", f"{text}")
        return found

    def render(self, source: str, **words: object) -> str:
        """A Python program in which `%%name%%` stands for the `repr` of a word."""
        return render_program(self.rng, source, **words)

    def changes(self, *relevant: str) -> str:
        """A script that writes a log of recent changes, these among unrelated ones."""
        return change_log_script(self.rng, *relevant)

    def history(self, *commands: str) -> str:
        """A script that writes root's shell history, with these commands in it."""
        return shell_history_script(self.rng, *commands)

    def file(
        self, path: str, text: str | bytes = "", *, mode: int = 0o644, owner: int = 0
    ) -> HostFile:
        """Bytes make a binary file."""
        content = {"content": text} if isinstance(text, bytes) else {"text": text}
        made = HostFile(path=path, mode=mode, owner=owner, **content)
        self._host["files"].append(made)
        return made

    def script(self, path: str, text: str) -> None:
        """An executable file."""
        self.file(path, text, mode=0o755)

    def files(self, *files: HostFile) -> None:
        self._host["files"] += files

    def link(self, path: str, target: str) -> None:
        """A symbolic link, such as one to the current release."""
        self._host["links"].append(HostLink(path, target))

    def folders(self, *folders: str | HostFolder) -> None:
        self._host["folders"] += folders

    def disk(self, path: str, megabytes: int, inodes: int = 0) -> None:
        """A small file system; `inodes` limits the number of files on it."""
        self._host["disks"].append(HostDisk(path, megabytes, inodes))

    def units(self, *units: HostFile) -> None:
        self._host["units"] += units

    def host_options(self, **options: object) -> None:
        """Further fields of `HostSpec`, such as `users` and `address`."""
        self._host_options |= options

    def other_host(self, host: HostSpec) -> None:
        self._other_hosts.append(host)

    def settings(self, service: ServiceLayout, **values: object) -> HostFile:
        file = service.settings(**values)
        self.files(file)
        return file

    def program(self, service: ServiceLayout, source: str, **words: object) -> None:
        self.file(service.program, self.render(source, **words))

    def start(
        self,
        service: ServiceLayout,
        source: str,
        *,
        after: str = "",
        more: str = "",
        user: str = "",
        **words: object,
    ) -> None:
        """The program of a service and a unit that starts it; see `render` and `unit`."""
        self.program(service, source, **words)
        self.unit(service, after=after, more=more, user=user)

    def unit(
        self,
        service: ServiceLayout,
        command: str = "",
        *,
        after: str = "",
        more: str = "",
        user: str = "",
    ) -> None:
        """A unit for the service; `more` are further lines of its section `[Service]`."""
        self.units(
            service_unit(
                service.name,
                command or service.command,
                after=after or self._after,
                more=more,
                user=user,
            )
        )

    def start_item_list(self, service: ServiceLayout, *items: str) -> None:
        """A healthy service that serves these items."""
        self.start(service, ITEM_LIST_PROGRAM)
        path = f"{service.data}/items.json"
        self.settings(service, port=service.port, data=path)
        self.file(path, json.dumps(items))

    def postgres(self, statements: list[str], **settings: object) -> PostgresServer:
        """A database; the units of services that are added later start after it."""
        server = postgres_server(self.rng, statements, **settings)
        self.host_options(users=POSTGRES_HOST_USERS)
        self._install(server.files, server.folders, server.unit)
        self._after = server.unit.path
        return server

    def redis(self, rows: dict[str, str], **options: str) -> RedisServer:
        """A cache; the units of services that are added later start after it."""
        server = redis_server(self.rng, rows, **options)
        self._install(server.files, server.folders, server.unit)
        self._after = server.unit.path
        return server

    def nginx(self, sites: str, *site: HostFile, before: str = "") -> None:
        server = nginx_server(sites, *site, before=before)
        self._install(server.files, server.folders, server.unit)

    def _install(
        self,
        files: tuple[HostFile, ...],
        folders: tuple[str, ...] | tuple[HostFolder, ...],
        unit: HostFile,
    ) -> None:
        self.files(*files)
        self.folders(*folders)
        self.units(unit)

    def place_neighbour(self) -> None:
        """Puts the files, the unit and the checks of the neighbour here and not at the end."""
        self._neighbour_placed = True
        self.files(*self.neighbour.files)
        self.units(self.neighbour.unit)
        self.collateral(*self.neighbour.unharmed)

    @property
    def _first_service(self) -> ServiceLayout:
        if not self._services:
            raise ValueError("no service was drawn: name the port or the trigger")
        return self._services[0]

    def alert(
        self,
        severity: Severity,
        service: ServiceLayout | None = None,
        /,
        *,
        max_minutes: int = 19,
        **facts: object,
    ) -> None:
        """An alert about the first service, or the given one; `facts` fill its wording."""
        about = service or (self._services[0] if self._services else None)
        known: dict[str, object] = {"service": about.name, "port": about.port} if about else {}
        self._spec["alert"] = draw_alert(
            self.rng,
            self.texts["alerts"],
            severity,
            max_minutes=max_minutes,
            **(known | {"host": self.host} | facts),
        )

    def healthy(self, *checks: ScenarioCheck) -> None:
        """Checks that succeed on a healthy host and must succeed in the end."""
        self._checks["healthy"] += checks

    def symptoms(self, *checks: ScenarioCheck, healthy: bool = True) -> None:
        """Checks that fail after the fault; they are also checks of a healthy host."""
        self._checks["symptoms"] += checks
        if healthy:
            self.healthy(*checks)

    def collateral(self, *checks: KeptCheck) -> None:
        """Checks for damage; a pair of a name and a path means that those files are unchanged."""
        self._checks["collateral"] += (
            UnchangedCheck(name=each[0], path=each[1]) if isinstance(each, tuple) else each
            for each in checks
        )

    def inject(self, *scripts: str) -> None:
        self._spec["inject"] = scripts

    def trigger(self, **fields: Any) -> None:
        """A `FaultTrigger` that a fix must survive; without any, the first service is restarted."""
        self._triggers.append(FaultTrigger(**fields))

    def clean_restart(self) -> None:
        """Triggers: kills every process on the port of the first service and restarts its unit."""
        service = self._first_service
        self._triggers += clean_restart_triggers(service.unit, service.port)

    def fault(self, *, component: tuple[str, ...], mechanism: str, value: tuple[str, ...]) -> None:
        """The right diagnosis; the mechanisms are separated by `, `."""
        self._spec["fault"] = FaultDescription(
            component=component, mechanism=tuple(mechanism.split(", ")), value=value
        )

    def responses(
        self,
        *,
        reference: Commands = (),
        relief: Commands = (),
        shortcut: Commands = (),
        futile: Commands = (),
        answer: ExpectedResponse = "fix",
    ) -> None:
        """Commands that fix it, that only stop the symptoms, that do damage, that do not help."""
        self._spec |= {
            "reference": _commands(reference),
            "relief": _commands(relief),
            "shortcut": _commands(shortcut),
            "futile": _commands(futile),
            "answer": answer,
        }

    def traffic(self, *paths: str, port: int = 0, pause: float = 0.3) -> None:
        traffic = TrafficSpec(port=port or self._first_service.port, paths=paths, pause=pause)
        self._spec["traffic"] = (traffic,)

    def decoy(self, key: str) -> None:
        """Adds a unit that failed long ago; its log line is one of these texts."""
        self._decoy_texts = key

    def spec(self) -> ScenarioSpec:
        checks, collateral = self._checks, self._checks["collateral"]
        if not self._neighbour_placed:
            checks["collateral"] = []
            self.place_neighbour()
            checks["collateral"] += collateral
        if hasattr(self, "neighbour"):
            self.healthy(self.neighbour.answers)
        if not self._triggers and self._spec.get("answer", "fix") in ("fix", "approval"):
            self.trigger(restart=(self._first_service.unit,))
        parts: dict[str, Any] = {name: tuple(each) for name, each in self._host.items()}
        fields: dict[str, Any] = {name: tuple(each) for name, each in checks.items()}
        host = HostSpec(name=self.host, **parts, **self._host_options)
        spec = ScenarioSpec(
            hosts=(host, *self._other_hosts),
            cure=tuple(self._triggers),
            **fields,
            **self._spec,
        )
        return (
            add_decoy(spec, self.rng, self.texts[self._decoy_texts]) if self._decoy_texts else spec
        )


def script_check(name: str, script: str, *, contains: str = "") -> ScriptCheck:
    return ScriptCheck(name=name, script=script, contains=contains)


def _commands(given: Commands) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given
