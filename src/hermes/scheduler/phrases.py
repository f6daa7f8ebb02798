"""Reads the schedule of a job, and says what to write instead of one that is not understood."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from zoneinfo import available_timezones

from hermes.core.errors import ScheduleError, SchedulePhraseError
from hermes.plumbing.problems import closest_name
from hermes.scheduler.cron import find_zone
from hermes.scheduler.grammar import ScheduleReading, read_phrase
from hermes.scheduler.wording import (
    CLOCK,
    DAY,
    MONTH,
    month_number,
    plain_words,
    read_clock,
    weekday_number,
)

EXAMPLES = (
    "every 45 minutes",
    "every hour",
    "every hour at :15",
    "every day at 09:00",
    "every day at 09:00 and 17:30",
    "every weekday at 09:00",
    "every weekend at 10:00",
    "every monday at 09:00",
    "every mon, wed and fri at 08:00",
    "monday to friday at 09:00",
    "every 2 days at 06:00",
    "every 2 weeks on monday at 09:00",
    "every month on the 1st at 06:00",
    "on the last day of every month at 23:00",
    "on the first monday of every month at 09:00",
    "every quarter at 09:00",
    "every year on march 3 at 12:00",
    "every 30 minutes between 09:00 and 17:00 on weekdays",
    "every day at 09:00 Europe/Berlin",
    "in 20 minutes",
    "today at 17:00",
    "tomorrow at 09:00",
    "2026-12-24 18:00",
    "0 9 * * 1-5",
)
_ABBREVIATED_ZONES = {
    "est": "America/New_York", "edt": "America/New_York", "et": "America/New_York",
    "cst": "America/Chicago", "cdt": "America/Chicago",
    "mst": "America/Denver", "mdt": "America/Denver",
    "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "pt": "America/Los_Angeles",
    "bst": "Europe/London", "cet": "Europe/Berlin", "cest": "Europe/Berlin",
    "eet": "Europe/Athens", "ist": "Asia/Kolkata", "jst": "Asia/Tokyo",
}  # fmt: skip
_HOUR_OF_PART = {"morning": "08", "afternoon": "15", "evening": "20", "night": "22"}
_TIMES = rf"(?P<at> at .+| {CLOCK})?"


def parse_schedule(text: str, now: datetime, zone: str) -> ScheduleReading:
    """Read a phrase, a cron expression or a date.

    Raises `SchedulePhraseError`, which says what to write instead.
    """
    try:
        found = read_phrase(text, now, zone)
    except ScheduleError as error:
        raise SchedulePhraseError(str(error)) from error
    if found is not None:
        return found
    local = now.astimezone(find_zone(zone))
    raise SchedulePhraseError(f"the schedule {text!r} is not understood; {_suggest(text, local)}")


def _suggest(text: str, now: datetime) -> str:
    words = " ".join(text.split()).removesuffix(".")
    phrase = _move_time_to_end(plain_words(words.lower())[0])
    for pattern, suggest in _SUGGESTIONS:
        if (match := pattern.fullmatch(phrase)) and (found := suggest(match, now)):
            return found
    if found := _suggest_zone(words):
        return found
    if understood := _longest_understood(words, now):
        return f"only its beginning is: {understood}"
    return f"write it like: {closest_name(phrase, EXAMPLES, cutoff=0.0)}"


def _move_time_to_end(phrase: str) -> str:
    match = re.fullmatch(rf"at (?P<at>{CLOCK}) (?P<rest>.+)", phrase)
    return f"{match['rest']} at {match['at']}" if match else phrase


def _longest_understood(words: str, now: datetime) -> str:
    """The beginning of the words that is a schedule."""
    parts = words.split()
    for count in range(len(parts) - 1, 1, -1):
        beginning = " ".join(parts[:count]).rstrip(",")
        try:
            if read_phrase(beginning, now, str(now.tzinfo)) is not None:
                return beginning
        except ScheduleError:
            continue
    return ""


def _suggest_zone(words: str) -> str:
    match = re.fullmatch(
        r"(?P<rest>.+?)(?: in)? (?P<place>[A-Za-z]+(?: [A-Z][a-z]+)?)(?: time)?", words
    )
    if match is None:
        return ""
    place = match["place"].replace(" ", "_")
    zone = _ABBREVIATED_ZONES.get(place.lower()) or next(
        (each for each in sorted(available_timezones()) if each.endswith(f"/{place.title()}")), ""
    )
    return f"a zone is written like: {match['rest']} {zone}" if zone else ""


def _two(first: str, second: str) -> str:
    return f"it may mean two things; write: {first}, or: {second}"


def _suggest_nth_weekday(match: re.Match[str], now: datetime) -> str:
    nth, at = match["nth"], match["at"] or " at 09:00"
    often = "every other" if nth in ("second", "2nd") else f"every {nth[0]} weeks on"
    often = "every 3 weeks on" if nth == "third" else often
    return _two(f"{often} {match['day']}{at}", f"on the {nth} {match['day']} of every month{at}")


def _suggest_next_day(match: re.Match[str], now: datetime) -> str:
    at = match["at"] or " at 09:00"
    ahead = ((weekday_number(match["day"]) - 1) % 7 - now.weekday()) % 7 or 7
    days = [now.date() + timedelta(days=each) for each in (ahead, ahead + 7)]
    near = f"this {match['day']}{at}" if days[0].weekday() > now.weekday() else f"{days[0]}{at}"
    return _two(near, f"{days[1]}{at}")


def _suggest_every_day_named(match: re.Match[str], now: datetime) -> str:
    at, days = match["at"] or " at 09:00", match["days"]
    if re.fullmatch(DAY, days):
        ahead = ((weekday_number(days) - 1) % 7 - now.weekday()) % 7 or 7
        return _two(f"every {days}{at}", f"{now.date() + timedelta(days=ahead)}{at}")
    return f"write: every {days}{at}"


def _suggest_year(match: re.Match[str], now: datetime) -> str:
    month, number = month_number(match["month"]), int(match["number"])
    at = match["at"] or " at 09:00"
    try:
        found = date(now.year, month, number)
    except ValueError:
        return ""
    found = found if found >= now.date() else found.replace(year=now.year + 1)
    return _two(f"every year on {match['month']} {number}{at}", f"{found}{at}")


def _suggest_month_stride(match: re.Match[str], now: datetime) -> str:
    at = (match["at"] or "").removeprefix(" at ").strip()
    clock = read_clock(at) or read_clock("9")
    assert clock is not None
    day = int(match["number"] or 1)
    return f"write the months in cron: {clock.minute} {clock.hour} {day} */{match['months']} *"


def _suggest_times(match: re.Match[str], now: datetime) -> str:
    return _two(f"every day at {match['clock']}", f"today at {match['clock']}")


_Suggestion = Callable[[re.Match[str], datetime], str]
_SUGGESTIONS: tuple[tuple[re.Pattern[str], _Suggestion], ...] = tuple(
    (re.compile(pattern), suggest)
    for pattern, suggest in (
        (rf"every (?P<nth>second|third|2nd|3rd|4th) (?P<day>{DAY}){_TIMES}", _suggest_nth_weekday),
        (rf"(?:on )?next (?P<day>{DAY}){_TIMES}", _suggest_next_day),
        (
            rf"(?:on )?(?P<days>{DAY}(?:(?:, and |, ?| and ){DAY})*){_TIMES}",
            _suggest_every_day_named,
        ),
        (rf"(?:on )?{MONTH} (?P<number>\d{{1,2}})(?:st|nd|rd|th)?{_TIMES}", _suggest_year),
        (
            rf"(?:on )?(?:the )?(?P<number>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {MONTH}{_TIMES}",
            _suggest_year,
        ),
        (
            r"every (?P<months>\d+) months(?: on the (?P<number>\d{1,2})(?:st|nd|rd|th))?"
            rf"{_TIMES}",
            _suggest_month_stride,
        ),
        (rf"(?:at )?(?P<clock>{CLOCK})", _suggest_times),
        (
            r"every (?P<part>morning|afternoon|evening|night)",
            lambda m, _: f"add a time, like: every {m['part']} at {_HOUR_OF_PART[m['part']]}:00",
        ),
        (r"tonight", lambda _, __: "add a time, like: tonight at 22:00"),
        (
            r"(?:fortnightly|biweekly|bi-weekly|every (?:2 weeks|fortnight|other week)).*",
            lambda _, __: "name the day, like: every 2 weeks on monday at 09:00",
        ),
        (
            r"(?P<step>every .+?) (?:during|in|within) (?:business|working|office) hours",
            lambda m, _: (
                f"say when they are, like: {m['step']} between 09:00 and 17:00 on weekdays"
            ),
        ),
        (
            r"(?:\d+ times|twice) (?:a|every|per) day(?P<at> at .+)?",
            lambda m, _: f"name the times, like: every day{m['at'] or ' at 9 and 21'}",
        ),
        (
            rf"every (?P<day>{DAY}) (?P<part>morning|afternoon|evening|night)(?: at .+)?",
            lambda m, _: (
                "write the time in 24 hours, like: "
                f"every {m['day']} at {_HOUR_OF_PART[m['part']]}:00"
            ),
        ),
    )
)
