"""Builds the list of probes: those discovered, and those of expected services."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from shlex import quote
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.incident import QUESTION_LABEL
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.sre.probes import inventory
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.discovery import DiscoveryResult, discover_probes
from hermes.sre.probes.host_scan import EPHEMERAL_PORTS, ServiceCriteria
from hermes.sre.probes.inventory import InventoryStore, KnownService, ServiceInventory
from hermes.sre.probes.native import LOCAL_ENVIRONMENT, listening_ports
from hermes.sre.probes.probe import PROVISIONAL_LABEL, Probe, probe_name
from hermes.sre.settings import ProbeSettings

RemovalKind = Literal["removed", "disabled"]
_REMOVALS_TIMEOUT_S = 10.0
CHANGE_CHECK_INTERVAL_S = 15.0
"""Seconds between two checks whether a discovery is due."""
MIN_DISCOVERY_GAP_S = 60.0
"""The minimum seconds between two discoveries because of opened or closed ports."""


class ServiceQuestion(Value, kw_only=True, frozen=True):
    """A question that only a person can answer: neither fine nor an incident."""

    service: str
    text: str


class ProbeList(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    missing: dict[str, str] = {}
    """Expected services that do not run, with why they are expected."""
    questions: tuple[ServiceQuestion, ...] = ()
    notes: tuple[str, ...] = ()
    lacks: str = ""
    """What the host lacks, and what is used instead."""


async def build_probe_list(
    environment: Environment,
    store: InventoryStore,
    settings: ProbeSettings,
    *,
    declared: Sequence[Probe] | None = None,
    http_timeout_s: float = 1.0,
    now: datetime | None = None,
    own_ports: tuple[int, ...] = (),
) -> ProbeList:
    """Discover services and remember them in `store`. `declared`: the probes of a file, which are
    used instead; a service without a probe is then a question. `own_ports` are not probed.

    Raises `EnvironmentFailed`.
    """
    found = await discover_probes(
        environment,
        http_timeout_s=http_timeout_s,
        criteria=ServiceCriteria(
            settle_s=settings.settle,
            temporary_folders=settings.temporary_folders,
            known_names=tuple(store.load().services),
            own_ports=own_ports,
        ),
        failing_too=True,
    )
    at = now or datetime.now(UTC)

    def update(before: ServiceInventory) -> ServiceInventory:
        return inventory.update_inventory(before, found.services, found.probes, at, settings.settle)

    known = store.change(update)
    current = _without_provisional(found.probes, known)
    if declared is not None:
        questions = (
            *_unprobed_questions(known, found, declared),
            *_never_seen_questions(known, found),
        )
        # An orphan may still answer for a program that supervisord gave up.
        names = {each.name for each in declared}
        given_up = [
            each
            for each in found.probes
            if inventory.CANNOT_START in each.what
            and each.name not in names
            and each.service not in known.dismissed
        ]
        return ProbeList(
            probes=(*declared, *given_up),
            questions=questions,
            notes=found.notes,
            lacks=found.lacks,
        )
    running = {each.name for each in found.services}
    missing = [each for each in known.expected if each.name not in running and each.probes]
    removals = await _find_removals(environment, missing)
    removed = [(each, removals[each.name]) for each in missing if each.name in removals]
    probes = (*current, *inventory.missing_probes(known, current))
    kept = [each for each in probes if each.service not in {*removals, *known.dismissed}]
    return ProbeList(
        probes=(*kept, *(_question_probe(each, removal) for each, removal in removed)),
        missing={each.name: _expected_text(each) for each in missing if each.name not in removals},
        questions=(
            *(_removal_question(each, removal) for each, removal in removed),
            *_never_seen_questions(known, found),
        ),
        notes=found.notes,
        lacks=found.lacks,
    )


def _without_provisional(probes: Sequence[Probe], known: ServiceInventory) -> tuple[Probe, ...]:
    """Remove the label from probes of services that are expected by now; one of their ports may
    belong to another process, which is not."""
    expected = {(each.name, probe.name) for each in known.expected for probe in each.probes}
    return tuple(
        replace(each, labels={k: v for k, v in each.labels.items() if k != PROVISIONAL_LABEL})
        if (each.service, each.name) in expected
        else each
        for each in probes
    )


class PeriodicDiscovery:
    """Repeats the discovery when services may have changed, and passes the new list on."""

    def __init__(
        self,
        environment: Environment,
        store: InventoryStore,
        settings: ProbeSettings,
        on_probe_list: Callable[[ProbeList], Awaitable[None]],
        *,
        declared: Sequence[Probe] | None = None,
        own_ports: tuple[int, ...] = (),
        check_interval_s: float = CHANGE_CHECK_INTERVAL_S,
        min_gap_s: float = MIN_DISCOVERY_GAP_S,
    ) -> None:
        self._environment, self._store, self._settings = environment, store, settings
        self._on_probe_list, self._check_interval_s, self._min_gap_s = (
            on_probe_list,
            check_interval_s,
            min_gap_s,
        )
        self._declared, self._own_ports = declared, own_ports
        self._provisional = True
        """Whether a service may still be provisional."""

    async def run(self) -> None:
        """Run until cancelled. A discovery that the environment could not run is repeated later.

        Declared probes run before the first discovery, which is made here; without them the first
        list was discovered by the caller.
        """
        surveyed, before_first = anyio.current_time(), self._declared is not None
        if before_first:
            surveyed -= self._settings.survey
        ports, known = self._ports(), self._expected_names()
        while True:
            await anyio.sleep(self._check_interval_s)
            elapsed = anyio.current_time() - surveyed
            forgotten = self._expected_names() != known
            opened = self._ports() != ports and elapsed >= self._min_gap_s
            settled = self._provisional and elapsed >= self._settings.settle
            if not (forgotten or opened or settled or elapsed >= self._settings.survey):
                continue
            surveyed, ports = anyio.current_time(), self._ports()
            with suppress(EnvironmentFailed, ToolError):
                probe_list = await build_probe_list(
                    self._environment,
                    self._store,
                    self._settings,
                    declared=self._declared,
                    own_ports=self._own_ports,
                )
                self._provisional = before_first or any(
                    PROVISIONAL_LABEL in each.labels for each in probe_list.probes
                )
                before_first = False
                await self._on_probe_list(probe_list)
            known = self._expected_names()

    def _ports(self) -> frozenset[int]:
        """Without ephemeral ports, which change too often."""
        if self._environment.name != LOCAL_ENVIRONMENT:
            return frozenset()
        return listening_ports() - frozenset(EPHEMERAL_PORTS) - frozenset(self._own_ports)

    def _expected_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self._store.load().expected)


def _expected_text(service: KnownService) -> str:
    return f"expected ({service.why}; last seen {service.last_seen:%Y-%m-%d %H:%M} UTC)"


async def _find_removals(
    environment: Environment, missing: Sequence[KnownService]
) -> dict[str, RemovalKind]:
    """Services that were removed: their program is gone, or their unit is disabled."""
    lines = []
    for number, each in enumerate(missing):
        if each.executable:
            lines.append(f"[ -e {quote(each.executable)} ] || echo {number} removed")
        if each.unit:
            unit = quote(each.unit)
            lines.append(
                f'[ "$(systemctl is-enabled {unit} 2>/dev/null)" != disabled ] || '
                f"systemctl is-active -q {unit} || echo {number} disabled"
            )
    if not lines:
        return {}
    script = "(\n" + "\n".join(lines) + "\n) 2>/dev/null\ntrue"
    result = await environment.run(script, timeout=_REMOVALS_TIMEOUT_S, cwd="/")
    removals: dict[str, RemovalKind] = {}
    for line in result.output.splitlines():
        at, _, removal = line.partition(" ")
        if at.isdigit() and int(at) < len(missing):
            name = missing[int(at)].name
            removals.setdefault(name, "removed" if removal == "removed" else "disabled")
    return removals


def _removal_question(service: KnownService, removal: RemovalKind) -> ServiceQuestion:
    what = (
        f"its program {service.executable} is not installed any more"
        if removal == "removed"
        else f"{service.unit} is disabled and not active"
    )
    text = (
        f"{service.name} was {_expected_text(service)}, and {what}. "
        f"If that was on purpose: hermes health forget {service.name}"
    )
    return ServiceQuestion(service=service.name, text=text)


def _question_probe(service: KnownService, removal: RemovalKind) -> Probe:
    """Replaces the probes of the service, so that it is reported once, as a P3."""
    if removal == "removed":
        test = f"[ -e {quote(service.executable)} ]"
    else:
        test = f"systemctl is-enabled -q {quote(service.unit)}"
    text = _removal_question(service, removal).text
    return mark_admitted(
        Probe(
            name=probe_name("question", service.name),
            kind="command",
            what=f"{test} || {{ echo {quote(text)}; exit 1; }}",
            interval=60.0,
            fails=1,
            severity="P3",
            labels={QUESTION_LABEL: "was it removed on purpose?"},
        )
    )


def _never_seen_questions(known: ServiceInventory, found: DiscoveryResult) -> list[ServiceQuestion]:
    questions = []
    seen = {*known.services, *(each.program for each in known.services.values())}
    for each in found.installed:
        if not each.enabled and not {each.name, each.program} & {*seen, *known.dismissed}:
            questions.append(_idle_question(each.name, "is installed"))
    for name in found.stopped:
        if name not in {*known.services, *known.dismissed}:
            questions.append(_idle_question(name, "is stopped in supervisord"))
    return questions


def _idle_question(name: str, how: str) -> ServiceQuestion:
    text = (
        f"{name} {how} and was never seen running. If it need not run: hermes health forget {name}"
    )
    return ServiceQuestion(service=name, text=text)


def _unprobed_questions(
    known: ServiceInventory, found: DiscoveryResult, declared: Sequence[Probe]
) -> list[ServiceQuestion]:
    """Expected services without a probe in the file."""
    services = {probe.service for probe in declared}
    watched = {(probe.kind, probe.what) for probe in declared}
    questions = []
    for service in known.expected:
        asked = service.name in services or any(
            (probe.kind, probe.what) in watched for probe in service.probes
        )
        runs = any(each.name == service.name for each in found.services)
        if asked or not runs or service.name in {*known.dismissed, inventory.OWN_SERVICE}:
            continue
        text = f"{service.name} runs and has no probe; hermes watch --discover --write --merge"
        questions.append(ServiceQuestion(service=service.name, text=text))
    return questions
