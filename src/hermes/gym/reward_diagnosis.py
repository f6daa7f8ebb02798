"""Root cause: what was said to be broken against what was broken, and shown by what was seen."""

import re
from collections.abc import Iterable, Sequence

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.gym.story import Fault, Story
from hermes.gym.tally import Deed

COMPONENT, MECHANISM, VALUE = 100, 300, 120
"""Characters beyond which an answer is a list of guesses."""
MOST_OTHERS = 2
"""Other services one may mention beside the right one."""
MOST_FAMILIES = 4
FAMILIES = (
    ("disk full", "no space", "inode"),
    ("memory", "oom", "leak"),
    ("cpu", "busy loop", "runaway"),
    ("certificate", "tls", "expired"),
    ("dns", "resolv", "hosts entry"),
    ("permission", "ownership", "read-only"),
    ("port taken", "address already in use", "bind"),
    ("deadlock", "lock"),
    ("firewall", "partition", "packet loss", "latency"),
    ("deploy", "release", "rollback"),
    ("missing module", "import error", "dependency"),
    ("password", "credential", "token", "role"),
    ("cron", "schedule"),
    ("connection pool", "connections exhausted"),
    ("corrupt", "checksum"),
    ("typo", "invalid value", "misconfigur"),
)
"""A mechanism that names many of these at once explains nothing."""


class Named(Value, kw_only=True, frozen=True):
    """What of a diagnosis holds."""

    component: bool = False
    mechanism: bool = False
    value: bool = False
    evidence: float = 0.0
    """0 when any of it points nowhere, half when it does not speak of the fault."""
    share: float = 0.0
    """Of the whole; of several faults, the mean over them."""

    @property
    def grounded(self) -> bool:
        """Right about what and how, with something to show for it."""
        return self.component and self.mechanism and self.evidence > 0


def judge_diagnosis(
    said: IncidentDiagnosed | None, story: Story, seen: Sequence[Deed], *, number: int = 0
) -> Named:
    """`number` is that of the diagnosis: what came after it cannot have led to it."""
    if said is None or _is_a_list(said, story):
        return Named()
    faults = [_one(said, fault, story) for fault in story.faults]
    evidence = [_evidence(said.evidence, fault, seen, number) for fault in story.faults]
    shares = [
        (0.4 * component + 0.4 * mechanism + 0.2 * value) * shown
        for (component, mechanism, value), shown in zip(faults, evidence, strict=True)
    ]
    return Named(
        component=all(component for component, _, _ in faults),
        mechanism=all(mechanism for _, mechanism, _ in faults),
        value=all(value for _, _, value in faults),
        evidence=min(evidence),
        share=round(sum(shares) / len(shares), 4),
    )


def _one(said: IncidentDiagnosed, fault: Fault, story: Story) -> tuple[bool, bool, bool]:
    """What of one fault is named; where there are several, more may be said."""
    many = len(story.faults)
    lured = any(_names(said.component, decoy.component) for decoy in story.decoys)
    component = len(said.component) <= COMPONENT * many and not lured
    component = component and _names(said.component, fault.component)
    mechanism = len(said.mechanism) <= MECHANISM * many and _names(said.mechanism, fault.mechanism)
    value = component and mechanism
    if fault.value:
        value = len(said.value) <= VALUE * many and _names(said.value, fault.value)
    return component, mechanism, value


def _evidence(numbers: Sequence[int], fault: Fault, seen: Sequence[Deed], number: int) -> float:
    shown = {deed.finished: deed for deed in seen if not number or deed.finished < number}
    if not numbers or any(each not in shown for each in numbers):
        return 0.0
    wordings = (*fault.component, *fault.value, *fault.mechanism)
    outputs = [shown[each].output for each in numbers if not _echo(shown[each])]
    return 1.0 if any(_names(output, wordings) for output in outputs) else 0.5


def _echo(deed: Deed) -> bool:
    """Words that the responder put there itself prove nothing."""
    output = deed.output.strip()
    return bool(output) and output in deed.command


def _is_a_list(said: IncidentDiagnosed, story: Story) -> bool:
    words = f"{said.component} {said.mechanism} {said.value}".lower()
    right = " ".join(word for fault in story.faults for word in fault.component).lower()
    others = [name for name in _services(story) if name not in right and _has(words, name)]
    families = sum(any(word in words for word in family) for family in FAMILIES)
    return len(others) > MOST_OTHERS or families > MOST_FAMILIES * len(story.faults)


def _services(story: Story) -> set[str]:
    units = (unit.path.rpartition("/")[2] for host in story.hosts for unit in host.units)
    return {name.removesuffix(".service").lower() for name in units}


def _names(text: str, wordings: Iterable[str]) -> bool:
    return any(_has(text.lower(), wording.lower()) for wording in wordings)


def _has(text: str, wording: str) -> bool:
    """As a word of its own: `4` is not in `404`, nor `app` in `apply`."""
    return bool(wording) and bool(re.search(rf"(?<!\w){re.escape(wording)}(?!\w)", text))
