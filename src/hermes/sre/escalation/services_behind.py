"""Follows a failing service to the one behind it that shows why: its facts and its commands."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio
from msgspec.structs import replace

from hermes.core.events.incidents import EscalationLine
from hermes.sre.escalation.change_lines import changed_files
from hermes.sre.escalation.dependencies import Dependency, is_among, is_named
from hermes.sre.escalation.host_lines import WAITING
from hermes.sre.escalation.host_scripts import EscalationSubject
from hermes.sre.escalation.next_commands import MAX_COMMANDS, NextCommand
from hermes.sre.escalation.service_collector import ServiceCollector
from hermes.sre.policies import is_read_only

MAX_BEHIND, MAX_LOOKS = 2, 4
FOLLOW_TIMEOUT_S = 20.0
"""People are not called later because of it."""
MAX_ERRORS_BEHIND = MAX_FILES_BEHIND = 2


@dataclass(frozen=True)
class ServiceBehind:
    """A service to which the facts about another one lead."""

    dependency: Dependency
    collector: ServiceCollector | None = None
    """None where its name is not known."""
    tied: bool = True
    """Whether the other service is known to use it; else it only fails at the same time."""

    @property
    def calls(self) -> frozenset[str]:
        return frozenset() if self.collector is None else frozenset(self.collector.calls)

    @property
    def shows_trouble(self) -> bool:
        other = self.collector
        return self.dependency.down or (
            other is not None and (other.has_own_cause or bool(other.error_texts))
        )

    def lines(self) -> Iterator[EscalationLine]:
        dependency, other = self.dependency, self.collector
        facts = list(other.lines()) if other is not None else []
        states = [each for each in facts if each.about in ("process", "obstacle")]
        head = (
            states[0].text if states else "nobody listens there" if dependency.down else "is open"
        )
        evidence = states[0].evidence if states else tuple(filter(None, (dependency.row.seq,)))
        texts = [(f"{dependency.title}: {head}", evidence)]
        texts += [(e.text, e.evidence) for e in states[1:] if e.about == "obstacle"]
        texts += [(e.text, e.evidence) for e in facts if e.about == "error"][-MAX_ERRORS_BEHIND:]
        texts += [(e.text, e.evidence) for e in facts if e.about == "file"][:MAX_FILES_BEHIND]
        texts += [(e.text, e.evidence) for e in facts if e.about == "port" and WAITING in e.text]
        if other is not None:
            for path in changed_files(other.found, dependency.service, other.began_at)[:1]:
                texts.append((f"{path} was written shortly before", ()))
        about = "dependency" if self.tied else "failing"
        for text, numbers in texts:
            yield EscalationLine(about=about, text=text, evidence=numbers)


async def find_services_behind(
    first: ServiceCollector,
    make: Callable[[EscalationSubject], ServiceCollector],
    failing: Mapping[str, str],
) -> Sequence[ServiceBehind]:
    """Follow what a service waits for, up to the one that shows why. `failing`: the services that
    fail at the same time, with their ports."""
    found: list[ServiceBehind] = []
    with anyio.move_on_after(FOLLOW_TIMEOUT_S):
        await _follow(first, make, failing, found)
    return found


async def _follow(
    first: ServiceCollector,
    make: Callable[[EscalationSubject], ServiceCollector],
    failing: Mapping[str, str],
    found: list[ServiceBehind],
) -> None:
    current, seen = first, [first.subject.service]
    while len(found) < MAX_BEHIND and not current.has_own_cause:
        for each in current.dependencies(failing):
            if is_among(each.service, seen) or len(seen) > MAX_LOOKS:
                continue
            seen.append(each.service)
            if not each.service:
                if each.down:
                    found.append(ServiceBehind(each))
                    return
                continue  # its process is not visible without root
            other = make(each.subject(current.error_texts))
            await other.collect(first.began_at, listing=first.found.listing)
            named = is_named(each, current.error_texts)
            behind = ServiceBehind(each, other, tied=named or bool(each.source))
            fails = behind.shows_trouble or is_among(each.service, failing)
            if (fails or named) and not other.waits_for(current):
                found.append(behind)
                current = other
                break
        else:
            return


def service_lines(
    first: ServiceCollector, behind: Sequence[ServiceBehind], *, broken: bool
) -> Iterator[EscalationLine]:
    yield from first.lines()
    for service in behind:
        yield from service.lines()
    for each in _choose_commands(first, behind, broken=broken):
        yield EscalationLine(about="command", text=f"{each.command}  # {each.what}")


def _choose_commands(
    first: ServiceCollector, behind: Sequence[ServiceBehind], *, broken: bool
) -> Iterator[NextCommand]:
    """Those of the last service that shows trouble, after a look at one that its errors name."""
    offered, last, own = [first.commands(broken=broken)], 0, first
    for each in behind:
        if each.collector is None:
            break
        service = each.dependency.service
        commands = each.collector.commands()
        offered.append([replace(e, what=f"{service}: {e.what}") for e in commands])
        if each.shows_trouble:
            last, own = len(offered) - 1, each.collector
    looks = [each for each in offered[last] if is_read_only(each.command)]
    for commands in offered[last + 1 : last + 2]:
        looks = [*[each for each in commands if is_read_only(each.command)][:1], *looks]
    ends = [each for each in offered[last] if each not in looks][-1:]
    if first.error_texts and not own.has_own_cause and any(each.restart for each in ends):
        # A restart of what its errors are about may interrupt more than its own.
        ends = [each for each in offered[0] if not is_read_only(each.command)][-1:]
    yield from looks[: MAX_COMMANDS - len(ends)]
    yield from ends
