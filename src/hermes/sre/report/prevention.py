"""What would keep it from coming back, read from what happened; no model is asked."""

import re
from collections.abc import Sequence

from hermes.core.events.incidents import ReportWritten
from hermes.core.protocols import Recorded
from hermes.sre.incident import Incident
from hermes.sre.report.markdown import one_line, words
from hermes.sre.report.statements import QUIET, cause_of
from hermes.sre.report.times import Recurrence, lasting, ordinal, times_of
from hermes.sre.report.told import Refused, of_kind

SLOW = 300.0
"""Seconds to notice something, beyond which a probe is missing."""
MOST = 6
_HINTS: tuple[tuple[str, str], ...] = (
    (r"no space|disk|inode|/dev/shm|\bfull\b",
     "Cap or rotate what fills the disk, and let a probe warn before it is full."),
    (r"certificate|\btls\b|x509|\bexpir",
     "Renew it by a job, and let a probe warn weeks before the end."),
    (r"memory|\boom\b|\bleak|\brss\b",
     "Set a limit that fits the real need, and watch how the memory grows."),
    (r"\bcpu\b|runaway|busy loop", "Limit what one service may take of the processor."),
    (r"connections?\b.*(exhaust|too many|limit)|too many (clients|connections)|\bpool\b",
     "Size the pool of the clients below the limit of the server, with a time-out."),
    (r"deadlock|\block\b|idle in transaction", "Keep transactions short and set a lock time-out."),
    (r"\bindex\b|slow quer|sequential scan", "Check plans of new queries before they go live."),
    (r"password|token|credential|secret|rotat",
     "Rotate credentials where they are used in the same step, and try them afterwards."),
    (r"\bdns\b|resolv|unknown host|/etc/hosts",
     "Keep names in one place and check that they resolve."),
    (r"firewall|iptables|\bnft\b|partition|unreachable",
     "Keep network rules under version control and test the paths that services need."),
    (r"upstream|proxy_pass|bad gateway", "Check that upstreams answer before a proxy is reloaded."),
    (r"permission|owner|chown|chmod|denied", "Set owner and mode by the deployment, not by hand."),
    (r"deploy|release|rollback|version",
     "Let a release prove itself on one host before the others."),
    (r"config|setting|typo|syntax|\bvariable\b|\bedit",
     "Check a configuration before it is loaded, and keep it under version control."),
    (r"module|dependency|import|package",
     "Pin dependencies and start the service once in the build."),
    (r"port\b.*(taken|in use)|address already in use",
     "Give each service a port of its own, written down."),
    (r"cron|schedul|\bjob\b", "Let a job report its end, and alarm when it does not."),
    (r"queue|backlog|consumer|lag\b",
     "Watch the length of the queue, not only whether it is served."),
    (r"crash|killed|exited|failed state|restart",
     "Let the supervisor start it again, and alarm on repeated restarts."),
)  # fmt: skip
_PREVENTION = re.compile(
    r"^#{1,4}[^\n]*(?:prevention|follow.up|lessons)[^\n]*\n(.+?)(?=^#{1,4}\s|\Z)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


def hints(incident: Incident, again: Recurrence, refused: Sequence[Refused]) -> list[str]:
    """Sentences of our own; nothing in them comes from outside."""
    found = [*_of_course(incident, again, refused), *_of_mechanism(incident)]
    if not found:
        found = ["Nothing in the journal points at a particular prevention."]
    return list(dict.fromkeys(found))[:MOST]


def said(records: Sequence[Recorded]) -> str:
    """What a model wrote about it, where one did; the section marks it as such."""
    for event in reversed(of_kind(records, ReportWritten)):
        if not event.path and not event.trouble and (match := _PREVENTION.search(event.text)):
            return words(one_line(match.group(1), 500), 500)
    return ""


def _of_mechanism(incident: Incident) -> list[str]:
    """From a cause that was found: the words of an alert are symptoms."""
    diagnosis = incident.diagnosis
    if incident.status == "recovered" or (diagnosis and diagnosis.verdict in QUIET):
        return []
    if diagnosis is None or cause_of(incident) != "found":
        return ["The cause is not known: find it first."]
    text = " ".join((diagnosis.component, diagnosis.mechanism, diagnosis.value)).lower()
    return [hint for pattern, hint in _HINTS if re.search(pattern, text)][:2]


def _of_course(incident: Incident, again: Recurrence, refused: Sequence[Refused]) -> list[str]:
    found = []
    diagnosis, times = incident.diagnosis, times_of(incident)
    if again.times > 1:
        found.append(
            f"It is the {ordinal(again.times)} time in {again.days} days: look for a cause that "
            "the work on the earlier ones did not remove."
        )
    if diagnosis is not None and diagnosis.verdict == "no-incident":
        found.append("Correct the check that raised the alert: no fault was found.")
    if diagnosis is not None and diagnosis.verdict == "recovered":
        found.append("Find out why it failed for a while; it may come back.")
    if times.detect is not None and times.detect > SLOW:
        found.append(f"It took {lasting(times.detect)} to be detected: add a probe for it.")
    if refused:
        found.append("Decide beforehand, by a rule, what may be done without asking.")
    if any(change.taken_back == "failed" for change in incident.changes):
        found.append("A change could not be undone: look at the host by hand.")
    if incident.gaps:
        found.append("Run the watch under a supervisor: the work on the incident was interrupted.")
    return found
