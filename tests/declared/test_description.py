"""A proved cause is described so that a person knows every file, line and value of it."""

from hermes.declared.experiments.description import CauseDescription, describe_causes
from hermes.declared.experiments.put_back import text_parts_of
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import Item, ItemId, StateChange

CONTENTS: dict[str, bytes] = {}


def changed(path: str, before: str, after: str, part: int | None = None) -> Revert:
    """The change of a file, or one part of its text."""
    old, new = (Item(f"{path}:{text}", {"type": "file"}) for text in (before, after))
    CONTENTS.update({old.digest: before.encode(), new.digest: after.encode()})
    suspect = Suspect(change=StateChange(ItemId("file", path), old, new))
    if part is None:
        return Revert(suspect=suspect)
    parts = text_parts_of(suspect.change, CONTENTS.get)
    return Revert(suspect=suspect, parts=(part,), lines=(parts[part].first_after + 1,))


def described(*causes: Revert, unit: str = "shop") -> CauseDescription:
    return describe_causes(causes, "mira", unit, CONTENTS.get)


def test_causes_in_two_files_are_both_named_with_their_lines() -> None:
    found = described(
        changed("/etc/shop.conf", "workers = 4\n", "workers = 15\n"),
        changed("/etc/limits.conf", "pool = 64\n", "pool = 27\n"),
    )
    assert found.component == "shop.service: /etc/shop.conf, line 1 and /etc/limits.conf, line 1"
    assert found.mechanism == (
        "in /etc/shop.conf workers = 4 was replaced by workers = 15; "
        "in /etc/limits.conf pool = 64 was replaced by pool = 27; changed by mira"
    )
    assert found.value == "workers = 15; pool = 27"


def test_where_there_is_no_room_for_all_files_their_number_is_told() -> None:
    long = "/srv/" + "a" * 60
    found = described(
        changed(long, "a = 1\n", "a = 2\n"), changed(f"{long}/b", "b = 1\n", "b = 2\n")
    )
    assert found.component == f"shop.service: {long}, line 1 and 1 more"


def test_a_removed_line_is_called_removed_beside_an_edited_one() -> None:
    before = "Environment=SIZE=20\nEnvironment=REGION=eu\nNice=0\n"
    found = described(changed("/etc/shop.env", before, "Environment=SIZE=50\nNice=0\n", part=1))
    assert found.mechanism == "Environment=REGION=eu was removed; changed by mira"
    assert found.value == "Environment=REGION=eu"


def test_lines_that_are_not_shown_are_counted() -> None:
    found = described(changed("/etc/shop.conf", "a\nb\nc\nd\n", "a\n"), unit="")
    assert found.mechanism == "b | c (and 1 more line) was removed; changed by mira"
