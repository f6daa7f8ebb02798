"""Collects the facts about one service of a host, which fails or which another one uses."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.incidents import EscalationLine
from hermes.core.run_ids import new_id
from hermes.core.tool_calls import read_result_numbers
from hermes.plumbing.units import format_duration
from hermes.skills.playbook.commands import (
    ExecuteCall,
    busy_timeout,
    incomplete_reason,
    run_command,
)
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import (
    SCRIPT_TIMEOUT_S,
    HostUnit,
    PlainDaemon,
    UnitListing,
    list_init_script,
    list_units,
    same_service,
)
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.change_lines import change_lines, changed_files
from hermes.sre.escalation.dependencies import (
    Dependency,
    find_dependencies,
    has_own_cause,
    points_to,
    uses,
)
from hermes.sre.escalation.host_lines import (
    consumer_lines,
    disk_lines,
    error_lines,
    named_lines,
    port_lines,
    process_lines,
)
from hermes.sre.escalation.host_scripts import (
    FACT_CALL,
    TIMEOUT_GRACE_S,
    EscalationSubject,
    HostRows,
    ScriptOutput,
    named_scripts,
    parse_outputs,
    run_scripts,
)
from hermes.sre.escalation.next_commands import NextCommand, next_commands
from hermes.sre.escalation.service_identity import (
    other_programs,
    with_open_logs,
    with_processes,
    with_units,
)

MAX_UNCHECKED = 6
MAX_CLOCK_DIFFERENCE_S = 60.0


class ServiceCollector:
    """Asks the host about one service in three rounds: its supervisors, then the scripts about the
    service, then what the error lines name."""

    def __init__(
        self,
        work: IncidentWork,
        execute: ExecuteCall,
        root_commands: Sequence[str],
        subject: EscalationSubject,
    ) -> None:
        self._work, self._execute, self._root_commands = work, execute, root_commands
        self.subject = subject
        self._daemons: Sequence[PlainDaemon] = tuple(work.context.daemons())
        self.began_at = work.details.opened_at
        self._errors: list[EscalationLine] = []
        self._notes: list[str] = []
        self.calls: set[str] = set()
        self.found = HostRows()

    async def collect(
        self,
        began_at: datetime,
        parts: Sequence[str] = (),
        listing: UnitListing | None = None,
    ) -> None:
        """`parts`: services that joined the incident; `listing`: where it is known already."""
        if listing is not None:
            self.subject = with_units(self.subject, listing, parts, began_at)
        elif not (self.subject.service or self.subject.log):
            listing = UnitListing()
        else:
            service = self.subject.service
            listing = await list_units(
                self._run_listing, self._daemons, self._root_commands, service=service
            )
            self.subject = with_units(self.subject, listing, parts, began_at)
        outputs = [*await run_scripts(self.subject.process_scripts, self._execute)]
        listing = await self._find_other_names(outputs, listing, parts, began_at)
        listed = frozenset(self.calls) - {each.call for each in outputs}
        pids = [row[0] for row in self.found.of("process")]
        scripts = [*self.subject.scripts, *self.subject.dependency_scripts(pids)]
        outputs += await run_scripts(scripts, self._execute)
        await self._parse(outputs, listing, listed)
        self.began_at = began_at + self._clock_difference()
        self._errors = list(error_lines(self.found, self.began_at))
        named = named_scripts(self.subject, self.error_texts)
        outputs += await run_scripts(named, self._execute)
        await self._parse(outputs, listing, listed)

    async def _find_other_names(
        self,
        outputs: Sequence[ScriptOutput],
        listing: UnitListing,
        parts: Sequence[str],
        began_at: datetime,
    ) -> UnitListing:
        """Add the units and the logs of processes that have other names than the service."""
        await self._parse(outputs, listing, frozenset(self.calls))
        service = self.subject.service
        listing = with_processes(listing, self.found, service)
        for program in other_programs(self.found, service):
            if not listing.find(service):
                more = await list_init_script(self._run_listing, program)
                units = tuple(replace(each, aliases=(service,)) for each in more.units)
                listing = replace(listing, units=(*listing.units, *units))
        self.subject = with_units(self.subject, listing, parts, began_at)
        self.subject = with_open_logs(self.subject, self.found)
        return listing

    @property
    def error_texts(self) -> list[str]:
        return [each.text for each in self._errors if each.about == "error"]

    async def _run_listing(self, script: str) -> str:
        id = new_id(FACT_CALL)
        self.calls.add(id)
        result = await run_command(
            self._execute, script, busy_timeout(SCRIPT_TIMEOUT_S), id=id, grace_s=TIMEOUT_GRACE_S
        )
        if why := incomplete_reason(result):
            self._notes = [f"all services of its supervisors: {why.partition(': ')[0]}"]
            return ""
        return result.output

    async def _parse(
        self, outputs: Sequence[ScriptOutput], listing: UnitListing, listed: frozenset[str]
    ) -> None:
        self.calls |= {each.call for each in outputs}
        numbers = await read_result_numbers(self._work.journal, self._work.details.run)
        found = parse_outputs(outputs, numbers)
        seen = max((numbers.get(each, 0) for each in listed), default=0)
        service = self.subject.service
        child = any(row[4] == "supervisord" for row in found.of("process"))
        if child and not listing.find(service):  # supervisord gave no list
            unit = HostUnit(name=service, kind="supervisord")
            listing = replace(listing, units=(*listing.units, unit))
        self.found = replace(found, listing=listing, answered={**found.answered, "units": seen})

    def _clock_difference(self) -> timedelta:
        """Return how far the clock of the host is ahead; zero where it is about the same."""
        now = self.found.first("now")[0]
        ahead_s = float(now) - datetime.now(UTC).timestamp() if now.isdigit() else 0.0
        if abs(ahead_s) < MAX_CLOCK_DIFFERENCE_S:
            return timedelta()
        words = f"{format_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'}"
        self._notes.append(f"the clock of this host is {words} the clock of the watch")
        return timedelta(seconds=ahead_s)

    @property
    def has_own_cause(self) -> bool:
        return has_own_cause(self.found, self.subject)

    def dependencies(self, failing: Mapping[str, str]) -> Iterator[Dependency]:
        """The services that its facts lead to. `failing`: those that fail at the same time, with
        their ports."""
        errors = self.error_texts
        for each in find_dependencies(self.found, self.subject, failing, errors):
            if points_to(each, self.subject, errors):
                yield each

    def waits_for(self, other: "ServiceCollector") -> bool:
        """Whether it uses another service, and so only shows the errors of that."""
        return uses(self.found, self.error_texts, other.subject)

    def lines(self) -> Iterator[EscalationLine]:
        found, subject = self.found, self.subject
        if subject.service:
            yield from process_lines(found, subject)
        yield from self._errors
        yield from port_lines(found, subject)
        yield from named_lines(found, "\n".join(self.error_texts))
        yield from disk_lines(found)
        yield from consumer_lines(found, subject.kind)
        yield from change_lines(found, subject.service, self.began_at)
        for text in self._unchecked()[:MAX_UNCHECKED]:
            yield EscalationLine(about="unchecked", text=text)

    def commands(self, *, broken: bool = False) -> list[NextCommand]:
        """`broken`: its configuration would prevent a start."""
        found, subject = self.found, self.subject
        supervisors = HostSupervisors(found.listing.units, self._daemons, self._root_commands)
        changed = changed_files(found, subject.service, self.began_at)
        return next_commands(found, subject, supervisors, self.error_texts, changed, broken=broken)

    def _unchecked(self) -> list[str]:
        found, service = self.found, self.subject.service
        notes = [
            each
            for each in found.listing.notes
            if " runs under " not in each or same_service(each.partition(" ")[0], service)
        ]
        texts = [*self._notes, *notes, *found.unchecked]
        units = found.listing.find(service)
        if len(kinds := dict.fromkeys(each.kind for each in units)) > 1:
            texts.append(f"which of its supervisors owns it: {', '.join(kinds)}")
        if service and not units and not notes and not self._notes:
            texts.append(f"no supervisor knows {service}: how it is started is not known")
        missing = found.of("missing") and not found.of("log")
        return [*texts, *(["no journalctl on this host"] if missing else [])]
