"""Each entry of the table of tiers names test files that exist, and each tier has tests."""

from pathlib import Path, PurePosixPath

import pytest

import tiers

TESTS = Path(__file__).parent
FILES = [each.relative_to(TESTS).as_posix() for each in TESTS.rglob("test_*.py")]
ENTRIES = [entry for files in tiers.FILES_BY_TIER.values() for entry in files]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_names_files(entry: str) -> None:
    assert any(each.startswith(entry) for each in FILES)


def test_the_longest_entry_counts() -> None:
    assert tiers.tier_of(PurePosixPath("gym/test_box.py")) == "box"
    assert tiers.tier_of(PurePosixPath("gym/test_docker_boxes.py")) == "daemon"
    assert tiers.tier_of(PurePosixPath("core/test_bus.py")) == "unit"


def test_no_file_is_in_two_tiers() -> None:
    assert len(ENTRIES) == len(set(ENTRIES))
    assert set(tiers.FILES_BY_TIER) < set(tiers.TIERS)
