"""The report: a pure function of the records, short enough to be read."""

from collections.abc import Sequence
from datetime import datetime

from hermes.core.events.incidents import IncidentOpened
from hermes.core.protocols import Recorded
from hermes.sre.report.account import Account, account
from hermes.sre.report.remedy import figures, prevention, remediation, verification
from hermes.sre.report.sections import again, cause, gaps, head, impact, times

LONGEST = 20_000
SHORTER = ((60, 20), (30, 10), (16, 5), (8, 3), (4, 1))
"""Moments of the timeline and items of each list, the fewest last."""


def write(
    records: Sequence[Recorded],
    *,
    earlier: Sequence[IncidentOpened] = (),
    now: datetime | None = None,
) -> str:
    """Markdown about the one incident in these records. Raises `HermesError` without one."""
    whole = account(records, earlier=earlier, now=now)
    text = ""
    for moments, items in SHORTER:
        text = _text(whole, moments, items)
        if len(text) <= LONGEST:
            break
    return text


def _text(whole: Account, moments: int, items: int) -> str:
    return (
        head(whole)
        + impact(whole)
        + times(whole, moments)
        + cause(whole, items)
        + gaps(whole, items)
        + remediation(whole, items)
        + verification(whole, items)
        + prevention(whole)
        + again(whole)
        + figures(whole)
        + "\n"
    )
