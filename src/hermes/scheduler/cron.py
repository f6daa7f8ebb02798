"""When a schedule is due: times by cron expressions, by a fixed interval, or once.

The only user of cronsim, which fires a daily job exactly once on both nights in which the clock
changes. It reads six fields as seconds first, so only five are let through.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from hermes.core.errors import ScheduleError
from hermes.core.events.jobs import JobSchedule
from hermes.plumbing.units import format_duration, ordinal

CRON_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_NAME = "sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_FIELD = rf"(?:[0-9*/,#-]|{_NAME}|LW?)+"
_FIELDS = re.compile(rf"{_FIELD}(?: {_FIELD}){{3,}}", re.IGNORECASE)


def read_cron(words: str) -> str:
    """The expression in its five fields; empty when the words are no cron expression.

    Raises `ScheduleError` for one that cannot be used.
    """
    text = words.removeprefix("cron ").strip()
    if text.startswith("@"):
        if text.lower() not in CRON_NICKNAMES:
            known = ", ".join(CRON_NICKNAMES)
            raise ScheduleError(f"{text} names no time; there are: {known}")
        return CRON_NICKNAMES[text.lower()]
    if not _FIELDS.fullmatch(text):
        if words.startswith("cron "):
            raise ScheduleError(f"{text!r} is not cron; it has five fields, like: 0 9 * * 1-5")
        return ""
    count = len(text.split())
    if count != 5:
        raise ScheduleError(
            f"{text!r} has {count} fields; cron has five: minute, hour, day of the month, month, "
            "day of the week, like: 0 9 * * 1-5"
        )
    check_cron(text)
    return text


def check_cron(expression: str) -> None:
    """Raises `ScheduleError` when the expression is wrong or never due."""
    try:
        next(CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        problem = str(error).lower()
        raise ScheduleError(f"{expression!r} is not cron: {problem}") from error
    except StopIteration as error:
        raise ScheduleError(f"{expression!r} is never due") from error


def find_zone(name: str) -> ZoneInfo:
    """Raises `ScheduleError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(
            f"{name!r} is no time zone that is known here; write it like Europe/Berlin or UTC"
        ) from error


def next_time(schedule: JobSchedule, after: datetime) -> datetime | None:
    """The first due time later than `after`, in UTC; None when there is none any more."""
    return next(due_times(schedule, after), None)


def next_times(schedule: JobSchedule, after: datetime, count: int) -> list[datetime]:
    hour = after.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    known = _times_of_hour(schedule, hour, 2 * count)
    later = [each for each in known if each > after]
    if len(later) >= count or len(known) < 2 * count:
        return later[:count]
    return list(islice(due_times(schedule, after), count))


@lru_cache(maxsize=2_048)
def _times_of_hour(schedule: JobSchedule, hour: datetime, count: int) -> tuple[datetime, ...]:
    """A page with a thousand jobs asks for the same times again and again."""
    return tuple(islice(due_times(schedule, hour), count))


def due_times(schedule: JobSchedule, after: datetime) -> Iterator[datetime]:
    """All due times later than `after`, in UTC, in order."""
    if schedule.at is not None:
        if schedule.at > after:
            yield schedule.at.astimezone(UTC)
    elif schedule.every_s:
        yield from _interval_times(schedule, after)
    else:
        yield from _calendar_times(schedule, after)


def _interval_times(schedule: JobSchedule, after: datetime) -> Iterator[datetime]:
    assert schedule.anchor is not None  # set with every interval
    every = timedelta(seconds=schedule.every_s)
    anchor = schedule.anchor.astimezone(UTC)
    count = max(1, (after - anchor) // every + 1)
    while True:
        yield anchor + every * count
        count += 1


def _calendar_times(schedule: JobSchedule, after: datetime) -> Iterator[datetime]:
    zone = find_zone(schedule.zone)
    crons = [_cron_times(each, zone, after) for each in schedule.crons]
    first_day = schedule.anchor.astimezone(zone).date() if schedule.anchor else None
    heads = [next(times, None) for times in crons]
    last: datetime | None = None
    while any(head is not None for head in heads):
        due = min(head for head in heads if head is not None)
        for at, head in enumerate(heads):
            if head == due:
                heads[at] = next(crons[at], None)
        if first_day is not None:
            days = (due.astimezone(zone).date() - first_day).days
            if days < 0 or days % schedule.every_days:
                continue
        if due != last:
            yield due
        last = due


def _cron_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    before = after.astimezone(UTC)
    for due in CronSim(expression, after.astimezone(zone)):
        # In the hour that the clock repeats, cronsim can name a time that is already over.
        if (found := due.astimezone(UTC)) > before:
            before = found
            yield found


def period_s(schedule: JobSchedule, due: datetime) -> float:
    """Seconds from this due time to the next; of one that comes once, a day."""
    following = next_time(schedule, due)
    return (following - due).total_seconds() if following is not None else 86_400.0


@lru_cache(maxsize=2_048)
def describe_schedule(schedule: JobSchedule) -> str:
    """Return what the schedule means, derived from what is stored and not from the words."""
    zone = find_zone(schedule.zone)
    if schedule.at is not None:
        return f"once, on {schedule.at.astimezone(zone):%A %Y-%m-%d at %H:%M:%S}".removesuffix(
            ":00"
        )
    if schedule.every_s:
        assert schedule.anchor is not None
        since = f"{schedule.anchor.astimezone(zone):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
        length = re.sub(r" 0 (?:s|min|h)$", "", format_duration(schedule.every_s))
        if since.endswith(":00") and 3600 % schedule.every_s == 0:  # the same minutes of each hour
            return f"every {length}"
        return f"every {length}, counted from {since}"
    texts = [CronSim(each, datetime(2024, 1, 1, tzinfo=UTC)).explain() for each in schedule.crons]
    meaning = "; ".join(each[:1].lower() + each[1:] for each in texts)
    meaning = re.sub(r"\b(\d+)th\b", lambda day: ordinal(int(day[1])), meaning)  # 31th, by cronsim
    if schedule.anchor is not None:
        first = schedule.anchor.astimezone(zone)
        meaning += f", only every {schedule.every_days} days from {first:%A %Y-%m-%d} on"
    return meaning
