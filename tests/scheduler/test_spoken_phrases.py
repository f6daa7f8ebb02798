"""Phrases as people say them, written before the grammar was extended: right or refused with help.

It is Tuesday, 2026-11-17, 10:20 in Berlin. A refused phrase names what its suggestion must contain,
after a question mark.
"""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from hermes.core.errors import ScheduleError
from hermes.scheduler.cron import due_times, next_times
from hermes.scheduler.phrases import parse_schedule

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 17, 10, 20, tzinfo=BERLIN)

PHRASES: tuple[tuple[str, str], ...] = (
    ("at noon every second tuesday", "?every other tuesday"),
    ("every second friday at 10", "?on the second friday of every month"),
    ("every weekday at 9am", "11-18 09:00, 11-19 09:00"),
    ("on the first of the month at 6:30", "12-01 06:30, 01-01 06:30"),
    ("on the fifteenth of every month at 10", "12-15 10:00"),
    ("the 15th of each month at 10:00", "12-15 10:00, 01-15 10:00"),
    ("every 15 minutes between 9 and 17 on weekdays", "11-17 10:30, 11-17 10:45"),
    ("every 10 mins from 8am to 6pm, mon-fri", "11-17 10:30, 11-17 10:40"),
    ("every hour between 8:00 and 18:00 every weekday", "11-17 11:00, 11-17 12:00"),
    ("on weekdays every 15 minutes between 9 and 17", "11-17 10:30, 11-17 10:45"),
    ("every 30 minutes during business hours", "?between 09:00 and 17:00"),
    ("in twenty minutes", "11-17 10:40"),
    ("in two hours", "11-17 12:20"),
    ("in an hour and a half", "11-17 11:50"),
    ("in 1 hour and 30 minutes", "11-17 11:50"),
    ("2 hours from now", "11-17 12:20"),
    ("tomorrow at 8", "11-18 08:00"),
    ("tomorrow morning at 8", "11-18 08:00"),
    ("tomorrow evening at 7", "11-18 19:00"),
    ("tomorrow noon", "11-18 12:00"),
    ("tonight at 10", "11-17 22:00"),
    ("tonight", "?tonight at"),
    ("the day after tomorrow at 9", "11-19 09:00"),
    ("this friday at 16:00", "11-20 16:00"),
    ("next friday at 9", "?this friday at 9"),
    ("friday at 9", "?every friday at 9"),
    ("24 december 2026 at 18:00", "12-24 18:00"),
    ("dec 24, 2026 6pm", "12-24 18:00"),
    ("on december 24 at 18:00", "?every year on december 24"),
    ("last friday of the month 17:00", "11-27 17:00, 12-25 17:00"),
    ("first monday of each month at 9", "12-07 09:00, 01-04 09:00"),
    ("on the last weekday of the month at 17:00", "11-30 17:00, 12-31 17:00"),
    ("at the end of every month at 18:00", "11-30 18:00, 12-31 18:00"),
    ("weekdays 9:00", "11-18 09:00, 11-19 09:00"),
    ("every day 18:30", "11-17 18:30, 11-18 18:30"),
    ("sundays 3am", "11-22 03:00, 11-29 03:00"),
    ("on sundays at 3 in the morning", "11-22 03:00, 11-29 03:00"),
    ("every day at 6 in the evening", "11-17 18:00, 11-18 18:00"),
    ("every morning at 7:30", "11-18 07:30, 11-19 07:30"),
    ("every evening at 8", "11-17 20:00, 11-18 20:00"),
    ("every night at 2", "11-18 02:00, 11-19 02:00"),
    ("every night at 11", "11-17 23:00, 11-18 23:00"),
    ("nightly at 03:00", "11-18 03:00, 11-19 03:00"),
    ("nightly", "?every night at"),
    ("every morning", "?every morning at"),
    ("every friday afternoon at 4", "11-20 16:00, 11-27 16:00"),
    ("every friday afternoon at 9", "?every friday"),
    ("each day at 9", "11-18 09:00, 11-19 09:00"),
    ("each monday at 08:00", "11-23 08:00, 11-30 08:00"),
    ("once a day at 4", "11-18 04:00, 11-19 04:00"),
    ("once a week on friday at 16:00", "11-20 16:00, 11-27 16:00"),
    ("twice a day at 9 and 21", "11-17 21:00, 11-18 09:00"),
    ("three times a day at 9 and 21", "?every day at 9 and 21"),
    ("once an hour", "11-17 11:00, 11-17 12:00"),
    ("every six hours", "11-17 16:20, 11-17 22:20"),
    ("every quarter of an hour", "11-17 10:35, 11-17 10:50"),
    ("every hour at half past", "11-17 10:30, 11-17 11:30"),
    ("10 minutes past every hour", "11-17 11:10, 11-17 12:10"),
    ("every day at half past nine", "11-18 09:30, 11-19 09:30"),
    ("every day at a quarter to six", "11-18 05:45, 11-19 05:45"),
    ("every day at nine", "11-18 09:00, 11-19 09:00"),
    ("every day at 8am and at 8pm", "11-17 20:00, 11-18 08:00"),
    ("at 8 and 20 every day", "11-17 20:00, 11-18 08:00"),
    ("every day except sunday at 9", "11-18 09:00, 11-19 09:00, 11-20 09:00"),
    ("every day except sunday and friday at 9", "11-18 09:00, 11-19 09:00, 11-21 09:00"),
    ("every weekday except friday at 9", "11-18 09:00, 11-19 09:00, 11-23 09:00"),
    ("every monday and every thursday at 9", "11-19 09:00, 11-23 09:00"),
    ("mon, wed and fri at 7:00", "?every mon, wed and fri at 7:00"),
    ("every 2nd day at 6", "11-18 06:00, 11-20 06:00"),
    ("every fortnight on monday at 9", "11-23 09:00, 12-07 09:00"),
    ("fortnightly", "?every 2 weeks on monday"),
    ("every 3rd of march at 12:00", "03-03 12:00"),
    ("every january 1 at 00:05", "01-01 00:05"),
    ("every 3 months on the 1st at 6", "?0 6 1 */3 *"),
    ("at 17:00", "?every day at 17:00"),
    ("every day at 9 EST", "?America/New_York"),
    ("every day at 9am Berlin time", "?Europe/Berlin"),
    ("at 9 and 5 on weekdays", "?write"),
    ("every 15 minutes on weekdays between 9 and 17", "11-17 10:30, 11-17 10:45"),
    ("hourly between 9 and 17", "11-17 11:00, 11-17 12:00"),
    ("every other hour", "11-17 12:20, 11-17 14:20"),
    ("in 2 weeks", "12-01 10:20"),
    ("every saturday night at 1", "?every saturday at 22:00"),
    ("this monday at 9", "?every monday"),
    ("every day at 9 until christmas", "?every day at 9"),
    ("every 5 minutes for an hour", "?every 5 minutes"),
)  # fmt: skip


@pytest.mark.parametrize(("phrase", "times"), PHRASES, ids=[each for each, _ in PHRASES])
def test_a_spoken_phrase_is_right_or_refused_with_a_suggestion(phrase: str, times: str) -> None:
    if times.startswith("?"):
        with pytest.raises(ScheduleError) as refused:
            parse_schedule(phrase, NOW, "Europe/Berlin")
        assert times[1:] in str(refused.value)
        return
    expected = times.split(", ")
    schedule = parse_schedule(phrase, NOW, "Europe/Berlin").schedule
    found = next_times(schedule, NOW, len(expected))
    assert [f"{each.astimezone(BERLIN):%m-%d %H:%M}" for each in found] == expected


@pytest.mark.parametrize(
    "phrase",
    [
        "* * * * *",
        "*/20 2,3 * * *",
        "30 2 * * *",
        "every 2 days at 6",
        "every 45 minutes",
        "0 9 1 1 *",
    ],
)
def test_times_for_a_page_are_those_of_the_clock(phrase: str) -> None:
    """Also in the nights in which the clock changes, and for what is over."""
    schedule = parse_schedule(phrase, NOW, "Europe/Berlin").schedule
    begin = datetime(2027, 3, 27, 23, 0, tzinfo=BERLIN)
    for minutes in range(0, 600, 7):
        after = (begin + timedelta(minutes=minutes)).astimezone(UTC)
        assert next_times(schedule, after, 5) == list(islice(due_times(schedule, after), 5))
    past = parse_schedule("in 20 minutes", NOW, "Europe/Berlin").schedule
    assert next_times(past, NOW + timedelta(hours=1), 5) == []
