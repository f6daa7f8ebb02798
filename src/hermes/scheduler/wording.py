"""Rewrites what people say into the words of the grammar, where it can mean only one thing.

"every evening at 8" becomes "every day at 20:00". What may mean two things stays as it is, so that
the grammar refuses it.
"""

import re
from collections.abc import Callable
from datetime import time

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
DAY = r"(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:day)?s?"
MONTH = rf"(?P<month>{'|'.join(f'{each[:3]}(?:{each[3:]})?' for each in MONTHS)})"
ORDINAL_END = r"(?:st|nd|rd|th)"
CLOCK = r"(?:\d{1,2}(?::\d{2})?(?: ?[ap]m| o'clock)?|noon|midnight)"
_CLOCK_PARTS = re.compile(r"(\d{1,2})(?::(\d{2}))? ?(am|pm|o'clock)?")
_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
    "forty": 40, "forty-five": 45, "sixty": 60, "ninety": 90,
}  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth", "nineteenth", "twentieth", "twenty-first", "twenty-second", "twenty-third",
    "twenty-fourth", "twenty-fifth", "twenty-sixth", "twenty-seventh", "twenty-eighth",
    "twenty-ninth", "thirtieth", "thirty-first",
)  # fmt: skip
_HOURS_OF_PART = {
    "morning": range(1, 12),
    "afternoon": range(12, 19),
    "evening": range(17, 24),
    "night": range(20, 24),
    "tonight": range(18, 24),
    # "saturday at 1 in the night" may be two nights; on every day it is one.
    "any night": (20, 21, 22, 23, 0, 1, 2, 3, 4),
}
_PART_FIRST = re.compile(
    r"(?:(?P<days>.+?) (?P<part>morning|afternoon|evening|night)|(?P<tonight>tonight)) "
    r"at (?P<times>.+)"
)
_PART_LAST = re.compile(
    r"(?P<clock>\d{1,2}(?::\d{2})?)(?: o'clock)? "
    r"(?:in the (?P<part>morning|afternoon|evening)|at (?P<night>night))"
)
_TIMES_A_DAY = re.compile(r"(?P<count>twice|\d+ times) (?:a|every|per) day at (?P<times>.+)")
_PAST_HOUR = re.compile(
    r"(?:(?P<half>half past)|(?:a )?quarter (?P<side>past|to)) (?P<hour>\d{1,2})"
    r"(?P<end> ?[ap]m| in the| at night)?"
)


def read_clock(text: str) -> time | None:
    """A time of day; None for other words."""
    if text in ("noon", "midnight"):
        return time(12 if text == "noon" else 0)
    match = _CLOCK_PARTS.fullmatch(text)
    if match is None:
        return None
    hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, minute) if hour < 24 and minute < 60 else None


def split_list(text: str) -> list[str]:
    """The parts of "9, 13:30 and at 17"."""
    return re.split(r"(?:, and |, ?| and )(?:at )?", text)


def weekday_number(name: str) -> int:
    """Return the number of a weekday as in cron: Sunday is 0."""
    return next(at for at, day in enumerate(WEEKDAYS) if day.startswith(name[:3]))


def month_number(name: str) -> int:
    return 1 + next(at for at, each in enumerate(MONTHS) if each.startswith(name[:3]))


def plain_words(phrase: str) -> tuple[str, list[str]]:
    """The phrase in the words of the grammar, and what was assumed about it."""
    for pattern, replacement in _REWRITES:
        phrase = pattern.sub(replacement, phrase)
    notes = [
        f"{each[0].strip()} is {_past_hour(each)}, in the 24-hour clock"
        for each in _PAST_HOUR.finditer(phrase)
        if not each["end"]
    ]
    phrase = _PAST_HOUR.sub(lambda m: _past_hour(m) + (m["end"] or ""), phrase)
    phrase = _PART_LAST.sub(_rewrite_clock_with_part, phrase)
    if part := _PART_FIRST.fullmatch(phrase):
        phrase = _rewrite_part_of_day(part)
    if (counted := _TIMES_A_DAY.fullmatch(phrase)) and _count(counted["count"]) == len(
        split_list(counted["times"])
    ):
        phrase = f"every day at {counted['times']}"
    return phrase, notes


def _past_hour(match: re.Match[str]) -> str:
    hour = int(match["hour"])
    if match["half"]:
        return f"{hour:02}:30"
    return f"{hour:02}:15" if match["side"] == "past" else f"{hour - 1:02}:45"


def _count(text: str) -> int:
    return 2 if text == "twice" else int(text.split()[0])


def _clock_in_part(text: str, part: str) -> str:
    """The time within that part of the day; empty when it is not exactly one."""
    clock = read_clock(text)
    if clock is None:
        return ""
    hours = {clock.hour}
    if re.fullmatch(r"[1-9](:\d\d)?|1[0-2](:\d\d)?", text):
        hours.add((clock.hour + 12) % 24)
    found = [each for each in hours if each in _HOURS_OF_PART[part]]
    return f"{found[0]:02}:{clock.minute:02}" if len(found) == 1 else ""


def _rewrite_clock_with_part(match: re.Match[str]) -> str:
    part = match["part"] or "any night"
    return _clock_in_part(match["clock"], part) or match[0]


def _rewrite_part_of_day(match: re.Match[str]) -> str:
    part, days = match["part"] or "tonight", match["days"] or "today"
    if days in ("every", "this"):
        days = "every day" if days == "every" else "today"
        part = "any night" if part == "night" and days == "every day" else part
    clocks = [_clock_in_part(each, part) for each in split_list(match["times"])]
    return f"{days} at {' and '.join(clocks)}" if all(clocks) else match[0]


def _to_date(match: re.Match[str]) -> str:
    return f"{match['year']}-{month_number(match['month']):02}-{int(match['day']):02}"


def _half_more(match: re.Match[str]) -> str:
    return f"{int(match[1] or 1) * 60 + 30} minutes"


def _ordinal(match: re.Match[str]) -> str:
    return f"{_ORDINALS.index(match[1]) + 1}th of"


_REWRITES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\beach\b", "every"),
        (r"\b([ap])\.m\b\.?", r"\1m"),
        (r"(?:^|(?<=[ :]))(?:" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")(?= |$)",
         lambda m: str(_NUMBERS[m[0]])),
        (rf"\b({'|'.join(sorted(_ORDINALS, key=len, reverse=True))}) of\b", _ordinal),
        (r"\bonce (?:an?|every|per) (hour|day|week|month|year)\b", r"every \1"),
        (r"^nightly\b", "every night"),
        (r"\bevery (?:business|working) day\b", "every weekday"),
        (r"\bevery (?:fortnight|other week) on\b", "every 2 weeks on"),
        (r"\bevery second day\b", "every 2 days"),
        (r"\bevery third day\b", "every 3 days"),
        (rf"\bevery (\d+){ORDINAL_END} day\b(?! of)", r"every \1 days"),
        (r"\bevery quarter(?: of an)? hour\b", "every 15 minutes"),
        (r"\bevery hour on the hour\b", "every hour at :00"),
        (r"\bevery hour (?:at half past|on the half hour)$", "every hour at :30"),
        (r"\bevery hour at (?:a )?quarter past$", "every hour at :15"),
        (r"\bevery hour at (?:a )?quarter to$", "every hour at :45"),
        (r"^(?:at )?([1-5]?\d) minutes (?:past|after) every hour$",
         lambda m: f"every hour at :{int(m[1]):02}"),
        (r"^(.+) from now$", r"in \1"),
        (r"^in (a|\d+) weeks?$", lambda m: f"in {7 * (1 if m[1] == 'a' else int(m[1]))} days"),
        (r"^every other hour\b", "every 2 hours"),
        (r"^hourly (?=between|from)", "every hour "),
        (r"^(every .+?) on (.+?) (between|from) (.+)$", r"\1 \3 \4 on \2"),
        (r"\ban hour and a half\b", "90 minutes"),
        (r"\b(\d+) and a half hours\b", _half_more),
        (r"\b(\d+|an) hours? (?:and )?(\d+) min(?:ute)?s?\b",
         lambda m: f"{1 if m[1] == 'an' else m[1]}h{m[2]}m"),
        (r"^(?:at )?(?:the )?end of (?:every|the) month\b", "on the last day of every month"),
        (rf"(?:^on |^)(?:the )?(?P<day>\d{{1,2}}){ORDINAL_END}?(?: of)? {MONTH},? "
         r"(?P<year>\d{4})\b", _to_date),
        (rf"(?:^on |^){MONTH} (?P<day>\d{{1,2}}){ORDINAL_END}?,? (?P<year>\d{{4}})\b", _to_date),
    )
)  # fmt: skip
