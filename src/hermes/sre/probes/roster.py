"""Which probes there are now: those found here, and those of services that should be here."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from shlex import quote
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.sre.case import QUESTION
from hermes.sre.probes import inventory
from hermes.sre.probes.admission import vouch
from hermes.sre.probes.discovery import Discovery, discover
from hermes.sre.probes.inventory import Inventory, InventoryStore, KnownService
from hermes.sre.probes.marks import PROVISIONAL, name_of
from hermes.sre.probes.native import LOCAL, listening_ports
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.processes import EPHEMERAL_PORTS
from hermes.sre.probes.settings import ProbeSettings

Fate = Literal["removed", "disabled"]
_FATES_TIMEOUT_S = 10.0
CHANGE_LOOK_S = 15.0
"""Seconds between two cheap looks at whether a survey is due."""
SURVEY_GAP_S = 60.0
"""Seconds at least between two surveys because of ports that were opened or closed."""


class Question(Value, kw_only=True, frozen=True):
    """Something that only a person knows: neither fine nor an incident."""

    service: str
    text: str


class Roster(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    missing: dict[str, str] = {}
    """Expected services that do not run, with the reason why they are expected."""
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()


async def take_stock(
    environment: Environment,
    store: InventoryStore,
    settings: ProbeSettings,
    *,
    declared: Sequence[Probe] | None = None,
    patience: float = 1.0,
    now: datetime | None = None,
) -> Roster:
    """One survey; what it found is remembered in `store`. `declared`: a file
    says what is asked, and only that; what runs without a probe is a question then.

    Raises `PlaceFailed`.
    """
    found = await discover(environment, patience=patience, settle=settings.settle, failing_too=True)
    at = now or datetime.now(UTC)

    def seen(before: Inventory) -> Inventory:
        return inventory.observed(before, found.services, found.probes, at, settings.settle)

    known = store.change(seen)
    current = _settled(found.probes, known)
    if declared is not None:
        questions = (*_without_probe(known, found, declared), *_never_seen(known, found))
        return Roster(probes=tuple(declared), questions=questions, notes=found.notes)
    running = {each.name for each in found.services}
    missing = [each for each in known.expected if each.name not in running and each.probes]
    fates = await _fates(environment, missing)
    probes = (*current, *inventory.missing_probes(known, current))
    kept = [each for each in probes if each.service not in {*fates, *known.dismissed}]
    return Roster(
        probes=(
            *kept,
            *(_question_probe(each, fates[each.name]) for each in _with(missing, fates)),
        ),
        missing={each.name: _expected(each) for each in missing if each.name not in fates},
        questions=(
            *(_gone(each, fates[each.name]) for each in _with(missing, fates)),
            *_never_seen(known, found),
        ),
        notes=found.notes,
    )


def _settled(probes: Sequence[Probe], known: Inventory) -> tuple[Probe, ...]:
    """Without the mark on those that are expected by now, although their process is young."""
    expected = {each.name for each in known.expected}
    return tuple(
        replace(each, labels={k: v for k, v in each.labels.items() if k != PROVISIONAL})
        if each.service in expected
        else each
        for each in probes
    )


class Surveyor:
    """Surveys again when services may have come or gone, and hands the new roster on."""

    def __init__(
        self,
        environment: Environment,
        store: InventoryStore,
        settings: ProbeSettings,
        adopt: Callable[[Roster], Awaitable[None]],
        *,
        look_s: float = CHANGE_LOOK_S,
        gap_s: float = SURVEY_GAP_S,
    ) -> None:
        self._environment, self._store, self._settings = environment, store, settings
        self._adopt, self._look_s, self._gap_s = adopt, look_s, gap_s
        self._provisional = True
        """Until a survey says otherwise something may have to settle."""

    async def run(self) -> None:
        """Until cancelled. An environment that fails is asked again later."""
        surveyed = anyio.current_time()
        ports, known = self._ports(), self._known()
        while True:
            await anyio.sleep(self._look_s)
            gone_by = anyio.current_time() - surveyed
            forgotten = self._known() != known
            opened = self._ports() != ports and gone_by >= self._gap_s
            settled = self._provisional and gone_by >= self._settings.settle
            if not (forgotten or opened or settled or gone_by >= self._settings.survey):
                continue
            surveyed, ports = anyio.current_time(), self._ports()
            with suppress(PlaceFailed):
                roster = await take_stock(self._environment, self._store, self._settings)
                self._provisional = any(PROVISIONAL in each.labels for each in roster.probes)
                await self._adopt(roster)
            known = self._known()

    def _ports(self) -> frozenset[int]:
        """Ports that the kernel hands out to anyone come and go too often to mean something."""
        if self._environment.name != LOCAL:
            return frozenset()
        return listening_ports() - frozenset(EPHEMERAL_PORTS)

    def _known(self) -> frozenset[str]:
        return frozenset(each.name for each in self._store.load().expected)


def _with(missing: Sequence[KnownService], fates: dict[str, Fate]) -> list[KnownService]:
    return [each for each in missing if each.name in fates]


def _expected(service: KnownService) -> str:
    return f"expected ({service.why}; last seen {service.last_seen:%Y-%m-%d %H:%M} UTC)"


async def _fates(environment: Environment, missing: Sequence[KnownService]) -> dict[str, Fate]:
    """Which of them a person took away: the program is gone, or the unit is not enabled."""
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
    result = await environment.run(script, timeout=_FATES_TIMEOUT_S, cwd="/")
    fates: dict[str, Fate] = {}
    for line in result.output.splitlines():
        at, _, fate = line.partition(" ")
        if at.isdigit() and int(at) < len(missing):
            name = missing[int(at)].name
            fates.setdefault(name, "removed" if fate == "removed" else "disabled")
    return fates


def _gone(service: KnownService, fate: Fate) -> Question:
    what = (
        f"its program {service.executable} is not installed any more"
        if fate == "removed"
        else f"{service.unit} is disabled and not active"
    )
    text = (
        f"{service.name} was {_expected(service)}, and {what}. "
        f"If that was on purpose: hermes health forget {service.name}"
    )
    return Question(service=service.name, text=text)


def _question_probe(service: KnownService, fate: Fate) -> Probe:
    """Asked in place of the probes of the service, so that it is reported once, as a P3."""
    if fate == "removed":
        test = f"[ -e {quote(service.executable)} ]"
    else:
        test = f"systemctl is-enabled -q {quote(service.unit)}"
    text = _gone(service, fate).text
    return vouch(
        Probe(
            name=name_of("question", service.name),
            kind="command",
            what=f"{test} || {{ echo {quote(text)}; exit 1; }}",
            interval=60.0,
            fails=1,
            severity="P3",
            labels={QUESTION: "was it removed on purpose?"},
        )
    )


def _never_seen(known: Inventory, found: Discovery) -> list[Question]:
    questions = []
    seen = {*known.services, *(each.program for each in known.services.values())}
    for each in found.installed:
        if not each.enabled and not {each.name, each.program} & {*seen, *known.dismissed}:
            questions.append(_idle(each.name, "is installed"))
    for name in found.stopped:
        if name not in {*known.services, *known.dismissed}:
            questions.append(_idle(name, "is stopped in supervisord"))
    return questions


def _idle(name: str, how: str) -> Question:
    text = (
        f"{name} {how} and was never seen running. If it need not run: hermes health forget {name}"
    )
    return Question(service=name, text=text)


def _without_probe(known: Inventory, found: Discovery, declared: Sequence[Probe]) -> list[Question]:
    """Services that stay and that the file says nothing about."""
    services = {probe.service for probe in declared}
    watched = {(probe.kind, probe.what) for probe in declared}
    questions = []
    for service in known.expected:
        asked = service.name in services or any(
            (probe.kind, probe.what) in watched for probe in service.probes
        )
        runs = any(each.name == service.name for each in found.services)
        if asked or not runs or service.name in known.dismissed:
            continue
        text = f"{service.name} runs and has no probe; hermes watch --discover --write --merge"
        questions.append(Question(service=service.name, text=text))
    return questions
