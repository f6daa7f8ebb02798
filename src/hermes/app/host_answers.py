"""Answers of a chat without a capable model: what checks and the journal say, and nothing else.

A question is matched by its words to checks and incidents. The checks are run, and each line names
the check that said it. Whatever they cannot answer is refused: the small bundled model, which
would invent an answer, is never asked about this host.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hermes.app.health import Asked, health_now
from hermes.core.errors import StoreError
from hermes.core.messages import Completion, Message, ToolSpec, Value
from hermes.core.protocols import Journal
from hermes.core.remembering import HOUSE
from hermes.settings.load import Loaded
from hermes.sre.health import Looked
from hermes.sre.incident import Incident
from hermes.sre.probes.probe import HOST_KINDS, Probe
from hermes.sre.report.reading import listed

SETUP = "run `hermes setup` to choose one"
CANNOT = (
    f"I cannot answer that without a capable model; {SETUP}. Without one I only know what checks "
    "and the journal say about services, disks, memory, load, certificates, logs and incidents."
)
LIMITS = (
    "This is all that the checks and the journal say. To explain, investigate or change something "
    f"I need a capable model; {SETUP}."
)
SHOWN_CHECKS = 20
SHOWN_INCIDENTS = 5
SERVICE_KINDS = ("port", "http", "unit", "answers", "postgres", "mysql", "redis", "sqlite")
"""Kinds of probes that can say whether a service works."""
TOPICS: Mapping[tuple[str, ...], str] = {
    ("disk", "inodes"): "disk disks space storage full filesystem filesystems inode inodes",
    ("memory",): "memory ram swap oom",
    ("cpu", "load", "processes", "zombies"): "cpu load busy processor processors zombies",
    ("tls", "certificate"): "certificate certificates cert certs tls ssl expire expires",
    ("log",): "log logs",
    SERVICE_KINDS: "service services port ports listening reachable",
}
"""Kinds of probes, and the words of a question that ask for them."""
INCIDENT_WORDS = "incident incidents outage outages alert alerts escalated escalation happened"
HEALTH_WORDS = "health healthy status state wrong problem problems trouble failing fails broken"
_GENERIC = """
    a an and any are check checks everything file for host how in is it log machine my not of on or
    root running server system that the there this tmp to up var what which with you
"""
GENERIC_WORDS = frozenset(_GENERIC.split())
"""Words that name no service, although parts of the names of probes may be called so."""
_WORD = re.compile(r"[a-z0-9][a-z0-9_.@-]*[a-z0-9]|[a-z0-9]")
_SUBJECT = re.compile(
    r"\b(?:is|are|why is|has)\s+(?:the\s+|my\s+|our\s+)?(?P<name>[a-z][a-z0-9_.@-]*)\s+(?:\w+\s+)?"
    r"(?:running|run|up|down|alive|healthy|ok|okay|working|reachable|listening|fine|slow|broken"
    r"|dead|stopped|started|crashed)\b"
)
STATES = {True: "fine", False: "FAILING", None: "unknown"}


class Checked(Value, kw_only=True, frozen=True):
    """What a round of checks said, and about what each check is."""

    looked: tuple[Looked, ...]
    probes: tuple[Probe, ...]
    refused: tuple[str, ...] = ()

    def lines(self, wanted: Callable[[Probe], bool]) -> list[str]:
        """A line per check, failing ones first."""
        known = {probe.name: probe for probe in self.probes}
        found = [each for each in self.looked if each.name in known and wanted(known[each.name])]
        found.sort(key=lambda each: (each.ok is True, each.ok is None))
        more = len(found) - SHOWN_CHECKS
        lines = [_line(each) for each in found[:SHOWN_CHECKS]]
        return [*lines, f"- and {more} more: `hermes health --all`"] if more > 0 else lines


class HostAnswers:
    """A `Model` without a language model."""

    window = 100_000

    def __init__(self, name: str, loaded: Loaded, folder: Path, journal: Journal) -> None:
        self.name = name
        self._loaded = loaded
        self._folder = folder
        self._journal = journal

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        asked = [
            message.text
            for message in messages
            if message.role == "user" and not message.text.startswith(HOUSE)
        ]
        text = await self._answer(asked[-1] if asked else "")
        return Completion(message=Message(role="assistant", text=text), model=self.name)

    async def _answer(self, question: str) -> str:
        words = frozenset(_WORD.findall(question.casefold()))
        subject = _SUBJECT.search(question.casefold())
        name = subject["name"] if subject and subject["name"] not in GENERIC_WORDS else ""
        kinds = frozenset(
            kind for each, of in TOPICS.items() if words & {*of.split()} for kind in each
        )
        wants_incidents = bool(words & {*INCIDENT_WORDS.split()})
        wants_health = bool(words & {*HEALTH_WORDS.split()})
        checked: Checked | None = None
        if not wants_incidents or kinds or name:
            checked = await self._check()
        named = _named(words - GENERIC_WORDS, checked.probes) if checked else frozenset[str]()
        if not (kinds or named or wants_incidents or wants_health or subject):
            return CANNOT
        parts = [*self._from_checks(checked, kinds, name, named)] if checked else []
        if wants_incidents or wants_health or not parts:
            parts.append(await self._incidents())
        return "\n\n".join([*parts, LIMITS])

    def _from_checks(
        self, checked: Checked, kinds: frozenset[str], name: str, named: frozenset[str]
    ) -> Iterator[str]:
        if name or named:
            yield _about(checked, name, named)
        if kinds and (lines := checked.lines(lambda probe: probe.kind in kinds)):
            yield "\n".join(["Checks made just now:", *lines])
        elif kinds and not (name or named):
            yield f"No check on this host is about that ({', '.join(sorted(kinds))}). {_DISCOVER}"
        if not (kinds or name or named):
            yield _summary(checked)
        if checked.refused:
            yield f"{len(checked.refused)} checks were not run: the policy does not allow them."

    async def _check(self) -> Checked:
        asked: Asked
        _, looked, asked = await health_now(self._loaded, self._folder)
        return Checked(looked=tuple(looked), probes=asked.probes, refused=asked.refused)

    async def _incidents(self) -> str:
        try:
            known = await listed(self._journal)
        except StoreError as error:
            return f"The journal cannot be read, so I do not know about incidents: {error}"
        open_ = [each for each in known if each.status in ("open", "escalated")]
        past = [each for each in known if each not in open_]
        lines = [f"Open incidents in the journal: {len(open_) or 'none'}."]
        lines += map(_incident, reversed(open_[-SHOWN_INCIDENTS:]))
        if past:
            lines.append("The latest that are over:")
            lines += map(_incident, reversed(past[-SHOWN_INCIDENTS:]))
        return "\n".join(lines)


_DISCOVER = "`hermes watch --discover` looks for services and writes checks for them."


def _named(words: frozenset[str], probes: Iterable[Probe]) -> frozenset[str]:
    """Names of probes that the question names: by service, or by a part of their own name."""
    found = set()
    for probe in probes:
        if probe.kind in HOST_KINDS:
            continue
        parts = {probe.service.casefold(), probe.name, *probe.name.split("-")} - {probe.kind, ""}
        if words & (parts - GENERIC_WORDS):
            found.add(probe.name)
    return frozenset(found)


def _about(checked: Checked, name: str, named: frozenset[str]) -> str:
    lines = checked.lines(lambda probe: probe.name in named)
    telling = [
        p for p in checked.probes if p.name in named and p.kind in (*SERVICE_KINDS, "command")
    ]
    if not lines:
        return f"No check on this host is about {name}, so I do not know. {_DISCOVER}"
    if name and not telling:
        lines.append(f"No check says whether {name} works, so I do not know. {_DISCOVER}")
    return "\n".join(["Checks made just now:", *lines])


def _summary(checked: Checked) -> str:
    bad = [each for each in checked.looked if not each.ok]
    bad.sort(key=lambda each: each.ok is None)
    fine = len(checked.looked) - len(bad)
    lines = [f"{fine} of {len(checked.looked)} checks made just now are fine."]
    return "\n".join([*lines, *map(_line, bad[:SHOWN_CHECKS])])


def _line(looked: Looked) -> str:
    return f"- {STATES[looked.ok]}: {looked.detail or 'no detail'} [check {looked.name}]"


def _incident(incident: Incident) -> str:
    case = incident.case
    since = f"{case.opened_at:%Y-%m-%d %H:%M} UTC"
    return f"- {case.incident}: {incident.status}, {incident.severity}, since {since}: {case.title}"
