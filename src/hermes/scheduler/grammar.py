"""Reads schedules in words. What it does not understand as a whole is refused, never guessed.

The grammar has three parts: a phrase for days, a list of clock times, and a time zone. What a
phrase leaves open is assumed and named. The meaning that people see is derived from the result by
`cron.describe_schedule`, so that a mistake here can be seen.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta

from msgspec.structs import replace

from hermes.core.errors import ScheduleError
from hermes.core.events.jobs import JobSchedule
from hermes.core.messages import Value
from hermes.scheduler.cron import check_cron, find_zone, next_time, read_cron
from hermes.scheduler.wording import (
    CLOCK,
    DAY,
    MONTH,
    ORDINAL_END,
    month_number,
    plain_words,
    read_clock,
    split_list,
    weekday_number,
)

ASSUMED_HOUR = 9
MIN_INTERVAL_S, MAX_INTERVAL_S = 60.0, 366 * 86_400.0
MAX_TIMES_A_DAY = 288
_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_AMOUNT = re.compile(
    r"(?P<count>\d+(?:\.\d+)?|an?|half(?: an?)?)? ?"
    r"(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)"
)
_COMPACT = re.compile(r"(\d+)h ?(\d+)m(?:in)?")
_ZONE = re.compile(r"(?P<rest>.+?)(?: in)? (?P<zone>[A-Za-z_]+/[A-Za-z_/+-]+|UTC|GMT)(?: time)?")
_ISO = re.compile(
    r"(?:at |on )?(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:(?:t| at | )(?P<clock>\d{1,2}:\d{2}(?::\d{2})?)(?P<offset>z|[+-]\d{2}:?\d{2})?)?"
)
_WINDOW = re.compile(
    r"(?:(?P<before>.+?),? )?every (?P<step>[^,]+?) (?:between|from) "
    rf"(?P<first>{CLOCK}) (?:and|to|until) (?P<last>{CLOCK})(?:,? (?P<after>.+))?"
)
_AT_END = re.compile(
    r"(?P<days>.+?),? (?:at (?P<times>.+)|"
    r"(?P<clock>\d{1,2}:\d\d(?: ?[ap]m)?|\d{1,2} ?[ap]m|noon|midnight))"
)
_AT_START = re.compile(
    rf"(?:at )?(?P<times>{CLOCK}(?:(?:, and |, ?| and ){CLOCK})*),? "
    r"(?P<days>every .+|daily|today|tomorrow|on .+|weekdays|weekends)"
)


class ScheduleReading(Value, frozen=True):
    """The meaning of a phrase, and which parts of it were assumed."""

    schedule: JobSchedule
    assumptions: tuple[str, ...] = ()


class _Days(Value, frozen=True):
    """The last three fields of a cron expression, and the days between two of them."""

    fields: str
    every_days: int = 1
    assumed: str = ""


def read_phrase(text: str, now: datetime, zone: str) -> ScheduleReading | None:
    """Read a phrase, a cron expression or a date; None when it is not understood as a whole.

    Raises `ScheduleError` for one that is understood and cannot be used.
    """
    words = " ".join(text.split()).removesuffix(".")
    if given := _ZONE.fullmatch(words):
        words, zone = given["rest"], find_zone(given["zone"]).key
    if cron := read_cron(words):
        return ScheduleReading(JobSchedule(text=text, zone=zone, crons=(cron,)))
    now = now.astimezone(find_zone(zone))
    phrase, notes = plain_words(words.lower())
    for read in (_read_date, _read_delay, _read_day, _read_interval, _read_window, _read_calendar):
        found = read(phrase, now)
        if found is not None:
            schedule, assumptions = found
            made = replace(schedule, text=text, zone=zone)
            if next_time(made, now) is None:
                raise ScheduleError(f"{text!r} is in the past")
            return ScheduleReading(made, tuple(filter(None, [*notes, *assumptions])))
    return None


_Found = tuple[JobSchedule, list[str]] | None


def _read_date(phrase: str, now: datetime) -> _Found:
    match = _ISO.fullmatch(phrase)
    if match is None:
        return None
    try:
        day = date.fromisoformat(match["day"])
        clock = time.fromisoformat((match["clock"] or f"{ASSUMED_HOUR:02}:00").zfill(5))
    except ValueError as error:
        raise ScheduleError(f"{phrase!r} is no date: {error}") from error
    if match["offset"]:
        offset = match["offset"].upper()
        return _once(datetime.fromisoformat(f"{day}T{clock}{offset}")), []
    at, assumption = _local_moment(day, clock, now)
    assumed = "" if match["clock"] else f"at {ASSUMED_HOUR:02}:00"
    return _once(at), [assumption, assumed]


def _read_delay(phrase: str, now: datetime) -> _Found:
    seconds = _seconds(phrase.removeprefix("in ")) if phrase.startswith("in ") else None
    if seconds is None:
        return None
    if not 0 < seconds <= MAX_INTERVAL_S:
        raise ScheduleError(f"{phrase!r} is not within a year from now")
    return _once(now.astimezone(UTC) + timedelta(seconds=seconds)), []


def _read_day(phrase: str, now: datetime) -> _Found:
    """Today, tomorrow, a day of this week or a date, at one time."""
    days, clocks, assumptions = _split_times(phrase)
    if days == "today" and assumptions == [_ASSUMED_TIME]:
        return None
    day = _find_day(days, now.date())
    if day is None or not clocks:
        return None
    if len(clocks) != 1:
        raise ScheduleError(f"{phrase!r} names several times; add a job for each")
    at, assumption = _local_moment(day, clocks[0], now)
    return _once(at), [*assumptions, assumption]


def _find_day(name: str, today: date) -> date | None:
    if name in ("today", "tomorrow"):
        return today + timedelta(days=name == "tomorrow")
    if name in ("day after tomorrow", "the day after tomorrow"):
        return today + timedelta(days=2)
    if this := re.fullmatch(rf"(?:on )?this (?P<day>{DAY})", name):
        later = (weekday_number(this["day"]) - 1) % 7 - today.weekday()
        # Said on a Tuesday, "this Monday" may be yesterday or in six days.
        return today + timedelta(days=later) if later > 0 else None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", name):
        try:
            return date.fromisoformat(name)
        except ValueError as error:
            raise ScheduleError(f"{name!r} is no date: {error}") from error
    return None


def _read_interval(phrase: str, now: datetime) -> _Found:
    if hourly := re.fullmatch(r"(?:every hour|hourly)(?: at :(\d{2}))?", phrase):
        assumed = "" if hourly[1] else "on the full hour"
        return _calendar([f"{int(hourly[1] or 0)} * * * *"], _Days("* * *"), now, [assumed])
    seconds = _seconds(phrase.removeprefix("every ")) if phrase.startswith("every ") else None
    if seconds is None or phrase.endswith(("d", "day", "days")):
        return None
    if not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise ScheduleError(f"{phrase!r} is refused: an interval has at least a minute")
    anchor = now.replace(microsecond=0).astimezone(UTC)
    assumed = f"counted from now, {now:%H:%M}; the time of day moves when the clock changes"
    return JobSchedule(text="", zone="", every_s=seconds, anchor=anchor), [assumed]


def _read_window(phrase: str, now: datetime) -> _Found:
    match = _WINDOW.fullmatch(phrase)
    step = _seconds(match["step"]) if match else None
    if match is None or step is None:
        return None
    if match["before"] and match["after"]:
        return None
    clocks = [read_clock(match["first"]), read_clock(match["last"])]
    days = _read_days(match["before"] or match["after"] or "every day")
    if clocks[0] is None or clocks[1] is None or days is None or step % 60:
        return None
    first, last = (each.hour * 60 + each.minute for each in clocks if each is not None)
    minutes = range(first, last + 1, int(step // 60) or 1)
    if not 2 <= len(minutes) <= MAX_TIMES_A_DAY:
        raise ScheduleError(
            f"{phrase!r} has {len(minutes)} times a day; write it within one day, like: "
            "every 30 minutes between 09:00 and 17:00"
        )
    crons = _group_times([time(each // 60, each % 60) for each in minutes], days.fields)
    ends = f"the last at {minutes[-1] // 60:02}:{minutes[-1] % 60:02}"
    return _calendar(crons, days, now, [ends])


def _read_calendar(phrase: str, now: datetime) -> _Found:
    name, clocks, assumptions = _split_times(phrase)
    days = _read_days(name)
    if days is None or not clocks:
        return None
    return _calendar(_group_times(clocks, days.fields), days, now, assumptions)


def _calendar(crons: list[str], days: _Days, now: datetime, assumptions: list[str]) -> _Found:
    for each in crons:
        check_cron(each)
    found = JobSchedule(text="", zone=str(now.tzinfo), crons=tuple(crons))
    if days.every_days > 1:
        found = replace(found, every_days=days.every_days, anchor=next_time(found, now))
    return found, [days.assumed, *assumptions]


def _once(at: datetime) -> JobSchedule:
    return JobSchedule(text="", zone="", at=at.astimezone(UTC))


def _group_times(clocks: list[time], fields: str) -> list[str]:
    """Times of one day as cron expressions: a cron expression has the same minutes in each hour."""
    hours_by_minute: dict[int, list[int]] = {}
    for each in sorted(set(clocks)):
        hours_by_minute.setdefault(each.minute, []).append(each.hour)
    return [
        f"{minute} {','.join(map(str, hours))} {fields}"
        for minute, hours in hours_by_minute.items()
    ]


_ASSUMED_TIME = f"at {ASSUMED_HOUR:02}:00"


def _split_times(phrase: str) -> tuple[str, list[time], list[str]]:
    """The phrase without its times, the times, and what was assumed; no times: refuse it."""
    match = _AT_END.fullmatch(phrase) or _AT_START.fullmatch(phrase)
    if match is None:
        return phrase, [time(ASSUMED_HOUR)], [_ASSUMED_TIME]
    texts = split_list(match.groupdict().get("clock") or match["times"])
    clocks = [read_clock(each) for each in texts]
    if None in clocks:
        return phrase, [], []
    bare = [each for each in texts if re.fullmatch(r"[1-9]|1[0-2]", each)]
    if bare != sorted(bare, key=int):  # "at 9 and 5": the second may be in the afternoon
        return phrase, [], []
    assumed = [f"{each} is {int(each):02}:00, in the 24-hour clock" for each in bare]
    return match["days"], [each for each in clocks if each is not None], assumed


def _seconds(text: str) -> float | None:
    if compact := _COMPACT.fullmatch(text):
        return int(compact[1]) * 3600.0 + int(compact[2]) * 60.0
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    count = match["count"] or "1"
    if not match["count"] and match["unit"] not in ("minute", "hour", "day"):
        return None
    if count.startswith("half"):
        return 0.5 * _UNITS[match["unit"][0]]
    return (1.0 if count in ("a", "an") else float(count)) * _UNITS[match["unit"][0]]


def _local_moment(day: date, clock: time, now: datetime) -> tuple[datetime, str]:
    at = datetime.combine(day, clock, now.tzinfo)
    if at.astimezone(UTC).astimezone(now.tzinfo).replace(tzinfo=None) != at.replace(tzinfo=None):
        raise ScheduleError(f"{at:%Y-%m-%d %H:%M} does not exist there: the clock is set forward")
    twice = at.utcoffset() != at.replace(fold=1).utcoffset()
    return at.astimezone(UTC), "the first of two such times: the clock is set back" if twice else ""


def _read_days(phrase: str) -> _Days | None:
    return next((found for found in _day_readings(phrase) if found is not None), None)


def _day_readings(phrase: str) -> Iterator[_Days | None]:
    for pattern, build in _DAY_PATTERNS:
        if match := pattern.fullmatch(phrase):
            yield build(match)


def _named_weekdays(match: re.Match[str]) -> _Days | None:
    numbers = [weekday_number(each) for each in re.findall(DAY, match["names"])]
    single = not match["every"] and not match["names"].endswith("s")
    return None if single else _Days(f"* * {','.join(map(str, sorted(set(numbers))))}")


def _weekday_range(match: re.Match[str]) -> _Days:
    first, last = weekday_number(match["first"]), weekday_number(match["last"])
    numbers = sorted((first + step) % 7 for step in range((last - first) % 7 + 1))
    return _Days(f"* * {','.join(map(str, numbers))}")


def _weeks(match: re.Match[str]) -> _Days:
    weeks = int(match["weeks"] or 2)
    return _Days(f"* * {weekday_number(match['day'])}", every_days=7 * weeks)


def _month_days(match: re.Match[str]) -> _Days:
    numbers = sorted({int(each) for each in re.findall(r"\d+", match["numbers"])})
    if not 1 <= numbers[0] <= numbers[-1] <= 31:
        raise ScheduleError(f"{match[0]!r}: a month has no such day")
    short = "months without such a day are left out" if numbers[-1] > 28 else ""
    return _Days(f"{','.join(map(str, numbers))} * *", assumed=short)


def _nth_weekday(match: re.Match[str]) -> _Days:
    nth = "L" if match["nth"] == "last" else f"#{_NTH[match['nth']]}"
    return _Days(f"* * {weekday_number(match['day'])}{nth}")


def _year_day(match: re.Match[str]) -> _Days:
    return _Days(f"{int(match['number'])} {month_number(match['month'])} *")


def _days_except(match: re.Match[str]) -> _Days | None:
    if "weekend" in match["left_out"]:
        left_out = {0, 6}
    else:
        left_out = {weekday_number(each) for each in re.findall(DAY, match["left_out"])}
    kept = sorted(set(range(1, 6) if match["kind"] == "weekday" else range(7)) - left_out)
    return _Days(f"* * {','.join(map(str, kept))}") if kept else None


def _day_stride(match: re.Match[str]) -> _Days | None:
    days = int(match["days"] or 2)
    return _Days("* * *", every_days=days) if 1 < days <= 366 else None


_NUMBER = rf"\d{{1,2}}{ORDINAL_END}"
_NUMBERS = rf"(?P<numbers>{_NUMBER}(?:(?:, and |, | and )(?:the )?{_NUMBER})*)"
_ON_THE = r"(?:(?:on )?the |on |every )?"
_DAY_LIST = rf"{DAY}(?:(?:, and |, ?| and )(?:every )?{DAY})*"
_OF_MONTH = r" of (?:every|each|the) month"
_DAY_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Days | None]], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (r"every day|daily", lambda _: _Days("* * *")),
        (r"(?:every|on) (?:weekday|workday)s?|weekdays", lambda _: _Days("* * 1-5")),
        (r"(?:every|on) weekends?|weekends", lambda _: _Days("* * 0,6")),
        (r"every (?:(?P<days>\d+) days|other day)", _day_stride),
        (r"every week|weekly", lambda _: _Days("* * 1", assumed="on Monday")),
        (
            rf"(?:weekly|every week) on (?P<first>{DAY})(?P<last>)",
            lambda m: _Days(f"* * {weekday_number(m['first'])}"),
        ),
        (rf"every (?:(?P<weeks>[2-9]) weeks on|other) (?P<day>{DAY})", _weeks),
        (rf"(?:every |on )?(?P<first>{DAY})(?: to | through |-)(?P<last>{DAY})", _weekday_range),
        (
            rf"(?P<every>every )?(?:on )?(?P<names>{_DAY_LIST})",
            _named_weekdays,
        ),
        (r"every month|monthly", lambda _: _Days("1 * *", assumed="on the 1st")),
        (rf"(?:every month|monthly) on the {_NUMBERS}", _month_days),
        (rf"{_ON_THE}{_NUMBERS}{_OF_MONTH}", _month_days),
        (rf"{_ON_THE}last day{_OF_MONTH}", lambda _: _Days("L * *")),
        (rf"{_ON_THE}last (?:weekday|workday){_OF_MONTH}", lambda _: _Days("LW * *")),
        (rf"{_ON_THE}(?P<nth>{'|'.join(_NTH)}|last) (?P<day>{DAY}){_OF_MONTH}", _nth_weekday),
        (
            r"every quarter|quarterly",
            lambda _: _Days(
                "1 1,4,7,10 *", assumed="on the 1st of January, April, July and October"
            ),
        ),
        (
            rf"every (?P<kind>day|weekday) (?:except|but)(?: on)? "
            rf"(?P<left_out>{_DAY_LIST}|(?:the )?weekends?)",
            _days_except,
        ),
        (rf"every (?P<number>\d{{1,2}}){ORDINAL_END} of {MONTH}", _year_day),
        (rf"every {MONTH} (?P<number>\d{{1,2}}){ORDINAL_END}?", _year_day),
        (rf"(?:every year|yearly) on {MONTH} (?P<number>\d{{1,2}}){ORDINAL_END}?", _year_day),
    )
)
