"""A proved cause is described so that a person knows every file, line and value of it."""

import pytest

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


def described(*causes: Revert, unit: str = "shop.service") -> CauseDescription:
    return describe_causes(causes, "mira", unit, CONTENTS.get)


def test_causes_in_two_files_are_both_named_with_their_lines() -> None:
    found = described(
        changed("/etc/shop.conf", "workers = 4\n", "workers = 15\n"),
        changed("/etc/limits.conf", "pool = 64\n", "pool = 27\n"),
    )
    assert found.component == "shop.service: /etc/shop.conf, line 1 and /etc/limits.conf, line 1"
    assert found.mechanism == (
        "in /etc/shop.conf ‘workers = 4’ was replaced by ‘workers = 15’; "
        "in /etc/limits.conf ‘pool = 64’ was replaced by ‘pool = 27’; changed by mira"
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
    assert found.mechanism == (
        "‘Environment=REGION=eu’ was removed; changed by mira; "
        "other changed lines remain: line 1 ‘Environment=SIZE=50’"
    )
    assert found.value == "Environment=REGION=eu"


def test_lines_that_are_not_shown_are_counted() -> None:
    found = described(changed("/etc/shop.conf", "a\nb\nc\nd\n", "a\n"), unit="")
    assert found.mechanism == "‘b’ | ‘c’ (and 1 more line) was removed; changed by mira"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("    name: a\n", "name: a\n", "the indentation of ‘name: a’ was changed: 4 spaces before"),
        ("wait 8s;\n", "wait 8s\n", "‘wait 8s;’ was replaced by ‘wait 8s’; changed by mira"),
        ("port 80\n", "port 80\r\n", "‘port 80’ was replaced by ‘port 80\\x0d’: only white space"),
    ],
)
def test_a_difference_that_is_hard_to_see_is_made_visible(
    before: str, after: str, said: str
) -> None:
    assert said in described(changed("/etc/shop.conf", before, after)).mechanism


def test_long_lines_are_shown_from_where_they_differ() -> None:
    line = "word " * 40
    found = described(changed("/etc/shop.conf", f"{line}end 1\n", f"{line}end 2\n"))
    assert "end 1’ was replaced by ‘…" in found.mechanism
    assert "end 2’;" in found.mechanism


def test_other_lines_of_the_same_edit_are_named_as_left_in_place() -> None:
    before = "class: a\nx: 1\nprice: 1\ny: 2\nlimit: 1\n"
    after = "class: b\nx: 1\nprice: 2\ny: 2\nlimit: 2\n"
    found = described(changed("/srv/prices.yaml", before, after, part=1))
    assert found.mechanism.endswith(
        "other changed lines remain: line 1 ‘class: b’, line 5 ‘limit: 2’"
    )


def test_a_service_without_systemd_has_its_own_name() -> None:
    found = described(changed("/etc/shop.conf", "a = 1\n", "a = 2\n"), unit="shop")
    assert found.component == "shop: /etc/shop.conf, line 1"
