import pytest

from hermes.plumbing.units import format_duration, format_size, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("1.5h", 5400), ("7d", 604_800), ("2w", 1_209_600)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_milliseconds_are_not_minutes() -> None:
    assert parse_duration("250ms") == 0.25
    assert parse_duration("1m250ms") == 60.25


@pytest.mark.parametrize("text", ["", "5", "h", "5 m", "-5m", "5y", "5m!", "٣m!"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "unknown"),
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (42.4, "42 s"),
        (59.7, "1 min 0 s"),
        (185, "3 min 5 s"),
        (7440, "2 h 4 min"),
        (266_400, "3 d 2 h"),
    ],
)
def test_durations_are_printed_for_people(seconds: float | None, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 KiB"),
        (900 << 10, "900 KiB"),
        (1 << 20, "1.0 MiB"),
        (96 << 20, "96 MiB"),
        (int(3.25 * (1 << 30)), "3.2 GiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_sizes_are_printed_for_people(size: int, shown: str) -> None:
    assert format_size(size) == shown
