"""Phrases for schedules and their first times, written before the grammar: right or refused.

It is Tuesday, 2026-11-17, 10:20 in Berlin. A phrase without times must be refused: it is
ambiguous, or it means something that cannot be scheduled.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from hermes.core.errors import ScheduleError
from hermes.scheduler.cron import next_times
from hermes.scheduler.phrases import parse_schedule

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 17, 10, 20, tzinfo=BERLIN)

PHRASES: tuple[tuple[str, str], ...] = (
    # every so often
    ("every 45 minutes", "11-17 11:05, 11-17 11:50, 11-17 12:35"),
    ("every 5 min", "11-17 10:25, 11-17 10:30"),
    ("every minute", "11-17 10:21, 11-17 10:22"),
    ("every 2 hours", "11-17 12:20, 11-17 14:20"),
    ("Every 90 minutes.", "11-17 11:50, 11-17 13:20"),
    ("every 1h30m", "11-17 11:50, 11-17 13:20"),
    ("every half hour", "11-17 10:50, 11-17 11:20"),
    ("every half an hour", "11-17 10:50, 11-17 11:20"),
    ("every 90 seconds", "11-17 10:21, 11-17 10:23"),
    ("every 10 seconds", ""),
    ("every hour", "11-17 11:00, 11-17 12:00"),
    ("hourly", "11-17 11:00, 11-17 12:00"),
    ("every hour at :15", "11-17 11:15, 11-17 12:15"),
    ("every few minutes", ""),
    ("every couple of hours", ""),
    ("every 0 minutes", ""),
    ("every -5 minutes", ""),
    ("every 2 months", ""),
    ("every 5", ""),
    ("every minutes", ""),
    # days
    ("every day at 9", "11-18 09:00, 11-19 09:00"),
    ("daily at 08:30", "11-18 08:30, 11-19 08:30"),
    ("daily", "11-18 09:00, 11-19 09:00"),
    ("every day", "11-18 09:00, 11-19 09:00"),
    ("at 7pm every day", "11-17 19:00, 11-18 19:00"),
    ("9am every day", "11-18 09:00, 11-19 09:00"),
    ("every day at 12am", "11-18 00:00, 11-19 00:00"),
    ("every day at noon", "11-17 12:00, 11-18 12:00"),
    ("every day at midnight", "11-18 00:00, 11-19 00:00"),
    ("every day at 9 and 17", "11-17 17:00, 11-18 09:00, 11-18 17:00"),
    ("every day at 9:00, 13:30 and 17:45", "11-17 13:30, 11-17 17:45, 11-18 09:00"),
    ("twice a day", ""),
    ("twice a day at 9 and 21", "11-17 21:00, 11-18 09:00"),
    ("every day at 25:00", ""),
    ("every day at 13pm", ""),
    ("every day at 9:75", ""),
    ("every morning", ""),
    ("every evening at 8", "11-17 20:00, 11-18 20:00"),
    ("every day at half past nine", "11-18 09:30, 11-19 09:30"),
    ("every weekday at 9", "11-18 09:00, 11-19 09:00, 11-20 09:00, 11-23 09:00"),
    ("on weekdays at 18:00", "11-17 18:00, 11-18 18:00"),
    ("weekdays at 6pm", "11-17 18:00, 11-18 18:00"),
    ("every workday at 7:15", "11-18 07:15, 11-19 07:15"),
    ("every weekend at 10", "11-21 10:00, 11-22 10:00, 11-28 10:00"),
    ("every monday at 9", "11-23 09:00, 11-30 09:00"),
    ("mondays at 9:30", "11-23 09:30, 11-30 09:30"),
    ("monday at 9", ""),
    ("on monday at 9", ""),
    ("every mon, wed and fri at 8", "11-18 08:00, 11-20 08:00, 11-23 08:00"),
    ("every tuesday and thursday at 17:00", "11-17 17:00, 11-19 17:00"),
    ("monday to friday at 9", "11-18 09:00, 11-19 09:00"),
    ("every monday through friday at 9", "11-18 09:00, 11-19 09:00"),
    ("mon-fri at 9", "11-18 09:00, 11-19 09:00"),
    ("every friday to monday at 9", "11-20 09:00, 11-21 09:00, 11-22 09:00, 11-23 09:00"),
    ("every week", "11-23 09:00, 11-30 09:00"),
    ("weekly on sunday at 20:00", "11-22 20:00, 11-29 20:00"),
    ("every day except sunday at 9", "11-18 09:00, 11-19 09:00"),
    ("every weekday but friday at 9", "11-18 09:00, 11-19 09:00, 11-23 09:00"),
    ("every 2 days at 6", "11-18 06:00, 11-20 06:00, 11-22 06:00"),
    ("every other day at 18:00", "11-17 18:00, 11-19 18:00"),
    ("every 2 weeks on monday at 9", "11-23 09:00, 12-07 09:00, 12-21 09:00"),
    ("every other friday at 16:00", "11-20 16:00, 12-04 16:00"),
    ("every 2 weeks", ""),
    ("biweekly", ""),
    # months and years
    ("every month on the 1st at 6:00", "12-01 06:00, 01-01 06:00"),
    ("on the 15th of every month at 9", "12-15 09:00, 01-15 09:00"),
    ("monthly", "12-01 09:00, 01-01 09:00"),
    ("monthly on the 31st at 9", "12-31 09:00, 01-31 09:00, 03-31 09:00"),
    ("every month on the 32nd at 9", ""),
    ("on the last day of every month at 23:00", "11-30 23:00, 12-31 23:00"),
    ("every first monday of the month at 9", "12-07 09:00, 01-04 09:00"),
    ("on the first monday of every month at 9", "12-07 09:00, 01-04 09:00"),
    ("on the last friday of every month at 15:00", "11-27 15:00, 12-25 15:00"),
    ("on the 1st and 15th of every month at 9", "12-01 09:00, 12-15 09:00"),
    ("every quarter", "01-01 09:00, 04-01 09:00, 07-01 09:00"),
    ("every year on march 3 at 12:00", "03-03 12:00"),
    ("every 3rd of march at 12:00", "03-03 12:00"),
    ("every year on february 30", ""),
    # inside a part of the day
    ("every 30 minutes between 9 and 17", "11-17 10:30, 11-17 11:00"),
    ("every 2 hours between 8:00 and 18:00 on weekdays", "11-17 12:00, 11-17 14:00, 11-17 16:00"),
    ("every hour from 9 to 17", "11-17 11:00, 11-17 12:00"),
    ("every 7 hours between 9 and 10", ""),
    ("every 30 minutes between 22 and 6", ""),
    # once
    ("in 20 minutes", "11-17 10:40"),
    ("in 2 hours", "11-17 12:20"),
    ("in 1h30m", "11-17 11:50"),
    ("in an hour", "11-17 11:20"),
    ("in half an hour", "11-17 10:50"),
    ("in 3 days", "11-20 10:20"),
    ("in a while", ""),
    ("today at 17:00", "11-17 17:00"),
    ("today at 9", ""),
    ("tomorrow at 9", "11-18 09:00"),
    ("tomorrow", "11-18 09:00"),
    ("at 8am tomorrow", "11-18 08:00"),
    ("tonight", ""),
    ("next monday at 9", ""),
    ("at 17:00", ""),
    ("2026-11-18T09:00", "11-18 09:00"),
    ("2026-11-18 09:00", "11-18 09:00"),
    ("at 2026-11-18 09:00", "11-18 09:00"),
    ("on 2026-12-24 at 18:00", "12-24 18:00"),
    ("2026-11-18T09:00:00Z", "11-18 10:00"),
    ("2026-11-18T09:00+05:30", "11-18 04:30"),
    ("2026-11-18", "11-18 09:00"),
    ("2026-11-16 09:00", ""),
    ("2027-03-28 02:30", ""),
    ("2026-02-30 09:00", ""),
    ("18.11.2026 09:00", ""),
    ("11/18/2026 at 9", ""),
    # zones
    ("every day at 9 UTC", "11-18 10:00, 11-19 10:00"),
    ("every weekday at 9 in America/New_York", "11-17 15:00, 11-18 15:00"),
    ("every day at 9:00 Europe/London time", "11-18 10:00, 11-19 10:00"),
    ("every day at 9 EST", ""),
    ("every day at 9 in Berlin", ""),
    ("every day at 9 in Europe/Nowhere", ""),
    # cron
    ("0 */6 * * *", "11-17 12:00, 11-17 18:00"),
    ("30 2 * * 1-5", "11-18 02:30, 11-19 02:30"),
    ("cron 0 9 * * MON", "11-23 09:00, 11-30 09:00"),
    ("@daily", "11-18 00:00, 11-19 00:00"),
    ("@reboot", ""),
    ("0 9 * * * *", ""),
    ("0 0 9 * * 1", ""),
    ("* * * *", ""),
    ("61 * * * *", ""),
    ("0 9 31 2 *", ""),
    # not a schedule
    ("", ""),
    ("whenever the disk is full", ""),
    ("when it rains", ""),
    ("every full moon", ""),
    ("every day at 9 until christmas", ""),
    ("every day at 9, but not tomorrow", ""),
    ("every 5 minutes for an hour", ""),
    ("sometimes", ""),
    ("every day at nine", "11-18 09:00, 11-19 09:00"),
    ("every day at 9 or 10", ""),
)


@pytest.mark.parametrize(("phrase", "times"), PHRASES, ids=[each for each, _ in PHRASES])
def test_a_phrase_is_right_or_refused(phrase: str, times: str) -> None:
    if not times:
        with pytest.raises(ScheduleError):
            parse_schedule(phrase, NOW, "Europe/Berlin")
        return
    expected = times.split(", ")
    schedule = parse_schedule(phrase, NOW, "Europe/Berlin").schedule
    found = next_times(schedule, NOW, len(expected))
    assert [f"{each.astimezone(BERLIN):%m-%d %H:%M}" for each in found] == expected
