"""The alerts of probes: how they are raised, resolved, withdrawn, and read from the journal."""

from datetime import UTC, datetime

from msgspec.structs import replace

from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import QUESTION_LABEL, WATCH_RUN, WITHDRAWN_LABEL
from hermes.core.protocols import Environment, Journal
from hermes.sre.probes.evaluation import headline
from hermes.sre.probes.probe import DISCOVERY_LABELS, Probe

PROBE_SOURCE = "probe"
_MAX_TITLE_CHARS, _MAX_TEXT_CHARS = 200, 4000


def alert_fingerprint(probe: Probe, environment: Environment) -> str:
    return f"probe/{environment.target}/{probe.name}"


def probe_alert(
    probe: Probe,
    environment: Environment,
    detail: str,
    *,
    resolved: bool = False,
    since: datetime | None = None,
    question: str = "",
) -> AlertRaised:
    """`question`: what people are asked, where it may be intended."""
    about = probe.service or environment.target
    title = f"{about}: {probe.name} is fine again" if resolved else f"{about}: {headline(detail)}"
    lines = [detail, f"asked by the probe {probe.name} ({probe.kind} {probe.what})".strip()]
    if probe.impact:
        lines.append(probe.impact)
    return AlertRaised(
        run=WATCH_RUN,
        fingerprint=alert_fingerprint(probe, environment),
        title=title[:_MAX_TITLE_CHARS],
        text="\n".join(lines)[:_MAX_TEXT_CHARS],
        source=PROBE_SOURCE,
        labels=_labels(probe, environment) + (((QUESTION_LABEL, question),) if question else ()),
        resolved=resolved,
        check=probe.name,
        severity=probe.severity,
        since=since,
    )


def withdrawn_alert(earlier: AlertRaised) -> AlertRaised:
    """Ends the alert of a removed probe; the state of the service is not known."""
    return replace(
        earlier,
        at=datetime.now(UTC),
        title=f"{earlier.check} is not watched any more"[:_MAX_TITLE_CHARS],
        text="this probe is not asked any more; nothing is known of how it is now",
        labels=(*earlier.labels, (WITHDRAWN_LABEL, "yes")),
        resolved=True,
    )


def _labels(probe: Probe, environment: Environment) -> tuple[tuple[str, str], ...]:
    own = {key: value for key, value in probe.labels.items() if key not in DISCOVERY_LABELS}
    made = {"kind": probe.kind, "service": probe.service, "instance": environment.target}
    return tuple((key, value[:_MAX_TITLE_CHARS]) for key, value in {**own, **made}.items() if value)


async def read_firing_alerts(journal: Journal) -> dict[str, AlertRaised]:
    """The alerts of probes that were raised and not resolved, by fingerprint."""
    found: dict[str, AlertRaised] = {}
    async for recorded in journal.read(kinds=("alert.raised",)):
        event = recorded.event
        if isinstance(event, AlertRaised) and event.source == PROBE_SOURCE:
            if event.resolved:
                found.pop(event.fingerprint, None)
            else:
                found[event.fingerprint] = event
    return found
