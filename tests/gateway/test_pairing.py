"""Codes that let unknown people in: short-lived, few, hard to guess, and never kept in clear."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.core.errors import HermesError
from hermes.gateway.pairing import CODE_ALPHABET, PairingCodes


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, **length: float) -> None:
        self.now += timedelta(**length)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def codes(tmp_path: Path, clock: Clock) -> PairingCodes:
    return PairingCodes(tmp_path / "pairing", clock=clock)


def test_a_code_lets_in_exactly_the_person_who_got_it_and_only_once(codes: PairingCodes) -> None:
    ann, ben = codes.offer("telegram", "1", shown="Ann"), codes.offer("telegram", "2")
    assert f"hermes pairing approve telegram {ann.code}" in ann.text
    assert codes.redeem("telegram", ann.code.lower()).id == "1"
    with pytest.raises(HermesError, match="no such code"):
        codes.redeem("telegram", ann.code)
    with pytest.raises(HermesError, match="no such code"):
        codes.redeem("slack", ben.code)
    assert [each.id for each in codes.pending()] == ["2"]


def test_codes_have_eight_characters_of_32_that_do_not_look_alike(codes: PairingCodes) -> None:
    code = codes.offer("telegram", "1").code
    assert len(code) == 8
    assert len(set(CODE_ALPHABET)) == 32
    assert set(code) <= set(CODE_ALPHABET)
    assert not set("IO01") & set(CODE_ALPHABET)


def test_a_code_is_valid_for_an_hour(codes: PairingCodes, clock: Clock) -> None:
    first = codes.offer("telegram", "1").code
    clock.wait(minutes=59)
    second = codes.offer("telegram", "2").code
    clock.wait(minutes=1)
    with pytest.raises(HermesError):
        codes.redeem("telegram", first)
    assert codes.redeem("telegram", second).id == "2"


def test_a_person_gets_one_code_in_ten_minutes_and_no_further_words(
    codes: PairingCodes, clock: Clock
) -> None:
    first = codes.offer("telegram", "1")
    assert codes.offer("telegram", "1").text == ""
    clock.wait(minutes=10)
    again = codes.offer("telegram", "1")
    assert again.code not in ("", first.code)
    with pytest.raises(HermesError):
        codes.redeem("telegram", first.code)


def test_at_most_three_wait_on_a_channel(codes: PairingCodes, clock: Clock) -> None:
    assert all(codes.offer("telegram", str(id)).code for id in range(3))
    fourth = codes.offer("telegram", "4")
    assert (fourth.code, "too many people wait" in fourth.text) == ("", True)
    assert codes.offer("telegram", "4").text == ""
    assert codes.offer("slack", "4").code
    clock.wait(hours=1)
    assert codes.offer("telegram", "4").code


def test_five_wrong_codes_lock_the_channel_for_an_hour(codes: PairingCodes, clock: Clock) -> None:
    clock.wait(minutes=1)
    for _ in range(5):
        with pytest.raises(HermesError, match="no such code"):
            codes.redeem("telegram", "AAAAAAAA")
    code = codes.offer("telegram", "1").code
    with pytest.raises(HermesError, match="too many wrong codes"):
        codes.redeem("telegram", code)
    assert codes.redeem("slack", codes.offer("slack", "1").code).id == "1"
    clock.wait(hours=1)
    late = codes.offer("telegram", "1").code
    assert codes.redeem("telegram", late).id == "1"


def test_a_right_code_forgives_the_wrong_ones(codes: PairingCodes) -> None:
    code = codes.offer("telegram", "1").code
    for _ in range(4):
        with pytest.raises(HermesError):
            codes.redeem("telegram", "AAAAAAAA")
    codes.redeem("telegram", code)
    for _ in range(4):
        with pytest.raises(HermesError, match="no such code"):
            codes.redeem("telegram", "AAAAAAAA")


def test_only_salted_hashes_are_kept_where_only_the_owner_reads(
    codes: PairingCodes, tmp_path: Path
) -> None:
    code = codes.offer("telegram", "1").code
    folder = tmp_path / "pairing"
    file = folder / "telegram.json"
    assert code not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    file.chmod(0o644)
    codes.offer("telegram", "2")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_process_sees_the_same_codes_and_a_damaged_file_has_none(
    codes: PairingCodes, clock: Clock, tmp_path: Path
) -> None:
    code = codes.offer("telegram", "1").code
    other = PairingCodes(tmp_path / "pairing", clock=clock)
    assert other.redeem("telegram", code).id == "1"
    (tmp_path / "pairing" / "telegram.json").write_text("{")
    assert other.pending() == []
    assert other.offer("telegram", "2").code


@pytest.mark.parametrize("channel", ["../etc", "", "a/b"])
def test_the_name_of_a_channel_is_no_path(codes: PairingCodes, channel: str) -> None:
    with pytest.raises(HermesError, match="there is no channel"):
        codes.redeem(channel, "AAAAAAAA")
