"""Maintenance windows: what is silenced, and when."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase

from hermes.core.events.incidents import AlertRaised
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.core.messages import Value
from hermes.sre.triage.topology import alert_location


class MaintenanceWindow(Value, kw_only=True, frozen=True):
    id: str
    target: str
    begins: datetime
    until: datetime
    by: str = ""
    reason: str = ""

    def open_at(self, now: datetime) -> bool:
        return self.begins <= now < self.until

    def covers(self, alert: AlertRaised) -> bool:
        """The target is `label=value`, or a service, host, namespace or probe, with wildcards."""
        return target_covers(self.target, dict(alert.labels), alert.check)

    @property
    def why(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"maintenance of {self.target} until {self.until:%Y-%m-%d %H:%M} UTC{reason}"


def target_covers(target: str, labels: Mapping[str, str], check: str = "") -> bool:
    name, equals, value = target.partition("=")
    if equals:
        return name in labels and fnmatchcase(labels[name], value)
    location = alert_location(labels)
    names = (location.service, location.host, location.namespace, labels.get("instance", ""), check)
    return any(fnmatchcase(each, target) for each in names if each)


class MaintenanceCalendar:
    """The maintenance windows that have not ended."""

    def __init__(self) -> None:
        self._windows: dict[str, MaintenanceWindow] = {}

    def apply(self, event: MaintenanceAdded | MaintenanceEnded) -> None:
        if isinstance(event, MaintenanceEnded):
            self._windows.pop(event.window, None)
            return
        self._windows[event.window] = MaintenanceWindow(
            id=event.window,
            target=event.target,
            begins=event.begins,
            until=event.until,
            by=event.by,
            reason=event.reason,
        )

    def covering(self, alert: AlertRaised, now: datetime) -> MaintenanceWindow | None:
        """The window that covers this alert; the longest where several do."""
        found = [each for each in self.open_windows(now) if each.covers(alert)]
        return max(found, key=lambda each: (each.until, each.id), default=None)

    def open_windows(self, now: datetime) -> list[MaintenanceWindow]:
        return [each for each in self._windows.values() if each.open_at(now)]

    def current_and_coming(self, now: datetime) -> list[MaintenanceWindow]:
        """Windows that are open or will open, the next to end first."""
        left = [each for each in self._windows.values() if each.until > now]
        return sorted(left, key=lambda each: (each.until, each.id))

    def find(self, id: str) -> MaintenanceWindow | None:
        return self._windows.get(id)

    def forget(self, now: datetime) -> None:
        over = [id for id, each in self._windows.items() if each.until <= now]
        for id in over:
            del self._windows[id]


def build_calendar(events: Iterable[object]) -> MaintenanceCalendar:
    calendar = MaintenanceCalendar()
    for event in events:
        if isinstance(event, MaintenanceAdded | MaintenanceEnded):
            calendar.apply(event)
    return calendar
