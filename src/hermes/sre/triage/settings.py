"""What an operator can decide about triage: what belongs together, what is noise, what is grave."""

from typing import Literal

import msgspec

Weight = Literal["critical", "normal", "minor"]


class GroupSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.group`: when two alerts are one trouble."""

    window: float = 60.0
    """Seconds after the last alert of an incident in which related ones join it."""
    longest: float = 600.0
    """Seconds after its opening in which anything new may join an incident."""
    delay: float = 0.5
    """Seconds that a first alert waits for others, so that the cause gives the name."""
    batch: float = 1.0
    """Seconds between two counts of a storm."""
    by_host: bool = False
    """Whether two services of one host are one trouble; an alert about the host always is."""
    by_namespace: bool = False
    """The same for a namespace."""
    storm: int = 25
    """Incidents of one alarm within the window after which all further ones of it are one."""
    depends_on: dict[str, tuple[str, ...]] = {}
    """Which service needs which: `web: [db, cache]`."""


class FlapSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.flapping`."""

    times: int = 4
    """Raised again so often within `window`: it flaps."""
    window: float = 900.0
    """Seconds."""
    calm: float = 600.0
    """Seconds without a change after which flapping is over."""
    steady: float = 120.0
    """Seconds that one which flaps must fire without a break to be an outage all the same."""


class TriageSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage`."""

    group: GroupSettings = GroupSettings()
    flapping: FlapSettings = FlapSettings()
    services: dict[str, Weight] = {}
    """How much a service matters: `shop: critical`. Patterns are allowed; others are normal."""
    pierce: bool = False
    """Whether an alert labelled as data at risk opens an incident even in maintenance."""
    settle: float = 300.0
    """Seconds that monitors have to see that an incident is over."""
    release: float = 60.0
    """Seconds after a fix in which alerts that had joined may end; then they are incidents."""
    recovery: float = 30.0
    """Seconds without a failure after which the recovery of an escalated incident is reported."""
    hush: float = 14_400.0
    """Seconds for which what was found to be no incident is not taken up again."""
    reopen: float = 1_800.0
    """Seconds after its end within which an alert that comes back names the incident before."""
    days: float = 14.0
    """Within these, the same trouble is counted as having come back."""
    keep: float = 86_400.0
    """Seconds for which an alert that is over and belongs to nothing is remembered."""
    most: int = 20_000
    """Alerts that are remembered at the same time."""
