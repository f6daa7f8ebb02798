"""A table that forgets its oldest entries."""

from hermes.plumbing.limited_table import LimitedTable


def test_the_oldest_entries_are_forgotten() -> None:
    table = LimitedTable[int, str](20)
    for number in range(1_000):
        table[number] = str(number)
        known = [each for each in range(number + 1) if each in table]
        assert known == list(range(known[0], number + 1))
        assert min(18, number + 1) <= len(known) <= 20
    assert (table.get(999), table.get(0)) == ("999", None)


def test_an_entry_that_is_set_again_keeps_its_age() -> None:
    table = LimitedTable[str, int](2)
    table["old"], table["new"], table["old"] = 1, 2, 3
    table["newest"] = 4
    assert (table.get("old"), table.get("new"), table.get("newest")) == (None, 2, 4)
