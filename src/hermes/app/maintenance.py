"""Maintenance windows as people handle them: added, listed and ended, from anywhere."""

from datetime import UTC, datetime, timedelta

from hermes.app.policy import WATCH_RUN
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import HermesError
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.core.foreign_text import visible_line
from hermes.core.protocols import Journal
from hermes.core.run_ids import find_unique, new_id
from hermes.plumbing.units import parse_duration
from hermes.settings.load import LoadedSettings
from hermes.sre.triage.maintenance import MaintenanceWindow, build_calendar

MAX_WINDOW = timedelta(days=90)
MAINTENANCE_EVENTS = ("maintenance.added", "maintenance.ended")
CLOCK_TIME_CHARACTERS = len("22:00")


def parse_window_length(text: str) -> timedelta:
    """`30m`, `1h30m`, `2d`. Raises `ValueError` with what is wrong."""
    try:
        length = timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not like 30m, 1h30m or 2d") from error
    if not timedelta() < length <= MAX_WINDOW:
        raise ValueError(f"must be more than 0 and at most {MAX_WINDOW.days} days")
    return length


def parse_window_begin(text: str) -> datetime:
    """`22:00`, `30m` from now, or a date; empty means now. Raises `ValueError`."""
    now = datetime.now().astimezone()
    if not text:
        return now
    try:
        return now + timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        if len(text) == CLOCK_TIME_CHARACTERS and ":" in text:
            return _next_occurrence(
                datetime.fromisoformat(f"{now:%Y-%m-%d} {text}").astimezone(), now
            )
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not like 22:00, 30m or 2026-03-02T22:00") from error


def _next_occurrence(clock: datetime, now: datetime) -> datetime:
    """A clock time that has passed today means tomorrow."""
    return clock if clock >= now - timedelta(minutes=1) else clock + timedelta(days=1)


async def add_window(
    loaded: LoadedSettings,
    journal: Journal,
    target: str,
    begins: datetime,
    length: timedelta,
    *,
    person: str,
    reason: str = "",
) -> MaintenanceWindow:
    """Suppress alerts of a service, a host, a namespace, a probe, or label=value.

    Raises `HermesError`.
    """
    until = begins + length
    if until <= datetime.now(UTC):
        raise HermesError(f"the window would already be over: it ends at {until:%Y-%m-%d %H:%M}")
    if not visible_line(target) or target.startswith("="):
        raise HermesError("name a target: a service, a host, or label=value")
    event = MaintenanceAdded(
        run=WATCH_RUN,
        window=new_id("maintenance"),
        target=visible_line(target, 200),
        begins=begins.astimezone(UTC),
        until=until.astimezone(UTC),
        by=person,
        reason=visible_line(reason, 500),
    )
    await journal.append(SecretRedactor(loaded).clean_event(event))
    window = build_calendar([event]).find(event.window)
    assert window is not None
    return window


async def end_window(journal: Journal, wanted: str, *, person: str) -> MaintenanceWindow:
    """End it now: an id, its beginning or end, or the target. Raises `HermesError`."""
    window = find_unique(
        await current_windows(journal),
        wanted,
        lambda each: wanted in (each.id, each.target),
        lambda each: bool(wanted) and (each.id.startswith(wanted) or each.id.endswith(wanted)),
        id_of=lambda each: each.id,
        kind="window",
        list_command="hermes maintenance list",
    )
    await journal.append(MaintenanceEnded(run=WATCH_RUN, window=window.id, by=person))
    return window


async def current_windows(journal: Journal) -> list[MaintenanceWindow]:
    """Windows that are open or will open, the next to end first."""
    events = [each.event async for each in journal.read(kinds=MAINTENANCE_EVENTS)]
    return build_calendar(events).current_and_coming(datetime.now(UTC))


def describe_window(window: MaintenanceWindow) -> dict[str, object]:
    now = datetime.now(UTC)
    state = "open" if window.open_at(now) else "to come" if now < window.begins else "over"
    return {
        "window": window.id,
        "target": window.target,
        "state": state,
        "begins": window.begins.isoformat(),
        "until": window.until.isoformat(),
        "by": window.by,
        "reason": window.reason,
    }
