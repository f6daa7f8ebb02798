"""One human has one name, by ids that the platform never changes."""

import pytest

from hermes.core.actions import approval_objection
from hermes.core.errors import SettingsError
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.people import (
    PairingApproved,
    PairingRevoked,
    PersonAdded,
    PersonRemoved,
)
from hermes.core.people import (
    People,
    PeopleHistory,
    PersonSettings,
    name_problem,
    parse_actor,
    resolve_people,
)

ALICE = {"alice": PersonSettings(unix="al", telegram=123, groups=("oncall",))}


def people(section: dict[str, PersonSettings] | None = None, *events: object) -> People:
    history = PeopleHistory()
    for event in events:
        history.apply(event)
    return resolve_people(section or {}, history)


def added(name: str, *ids: tuple[str, str], groups: tuple[str, ...] = ()) -> PersonAdded:
    return PersonAdded(run="people", name=name, ids=ids, groups=groups)


def test_a_person_has_the_same_name_at_every_entry_point() -> None:
    known = people(ALICE, added("alice", ("slack", "U1")))
    assert [
        known.name_of("unix", "al"),
        known.name_of("telegram", "123"),
        known.name_of("slack", "U1"),
    ] == ["alice", "alice", "alice"]
    assert known.name_of("discord", "123") == ""


def test_whoever_has_no_name_acts_by_channel_and_id() -> None:
    known = people(ALICE)
    assert known.actor_of("telegram", "9") == "telegram:9"
    assert known.actor_of("unix", "bob") == "unix:bob"
    assert known.actor_of("unix", "alice") == "unix:alice"  # the user, not the person


def test_without_people_a_user_of_this_machine_is_called_by_the_user_name() -> None:
    assert people().actor_of("unix", "bob") == "bob"
    assert people().objection("bob") == ""
    assert people().actor_of("telegram", "9") == "telegram:9"


@pytest.mark.parametrize("who", ["telegram:9", "unix:bob", "bob"])
def test_as_soon_as_there_are_people_nobody_else_answers(who: str) -> None:
    problem = people(ALICE).objection(who)
    assert "hermes people add NAME" in problem
    assert people(ALICE).objection("alice") == ""


def test_somebody_without_a_name_never_approves_and_may_withdraw_what_they_asked_for() -> None:
    request = ApprovalRequested(
        run="r", approval="ask-1", call_id="c", tool="terminal", shown="x", requester="telegram:9"
    )
    assert "hermes people add NAME telegram:9" in approval_objection(
        request, "telegram:9", approved=True
    )
    assert approval_objection(request, "telegram:9", approved=False) == ""


def test_the_file_wins_over_commands() -> None:
    known = people(
        ALICE,
        added("bob", ("telegram", "123"), ("slack", "U2")),
        added("alice", ("telegram", "666"), groups=("admins",)),
    )
    assert known.name_of("telegram", "123") == "alice"
    assert known.name_of("telegram", "666") == ""
    assert known.name_of("slack", "U2") == "bob"
    assert known.with_groups({}) == {"oncall": ("alice",)}


def test_groups_of_people_join_those_of_the_policy() -> None:
    known = people(ALICE, added("bob", ("slack", "U2"), groups=("oncall", "dba")))
    assert known.with_groups({"oncall": ("carol", "alice")}) == {
        "oncall": ("carol", "alice", "bob"),
        "dba": ("bob",),
    }


def test_an_id_has_one_owner_and_two_in_the_file_are_an_error() -> None:
    with pytest.raises(SettingsError, match="telegram:123 is already an id of alice"):
        people({**ALICE, "bob": PersonSettings(telegram="123")})
    later = people({}, added("bob", ("slack", "U2")), added("carol", ("slack", "U2")))
    assert later.name_of("slack", "U2") == "carol"


def test_a_pairing_lets_somebody_in_and_gives_a_name_only_when_told() -> None:
    plain = PairingApproved(run="people", channel="telegram", id="7")
    named = PairingApproved(run="people", channel="slack", id="U7", name="dora")
    known = people({}, plain, named)
    assert known.is_paired("telegram", "7")
    assert known.actor_of("telegram", "7") == "telegram:7"
    assert known.name_of("slack", "U7") == "dora"
    gone = people({}, plain, named, PairingRevoked(run="people", channel="slack", id="U7"))
    assert not gone.is_paired("slack", "U7")
    assert gone.name_of("slack", "U7") == ""


def test_a_removed_person_has_no_ids() -> None:
    known = people({}, added("bob", ("slack", "U2")), PersonRemoved(run="people", name="bob"))
    assert not known


@pytest.mark.parametrize("name", ["", "a b", "telegram:1", "requester", "nobody", "a,b", "x" * 65])
def test_names_that_would_be_mistaken_for_something_else_are_refused(name: str) -> None:
    assert name_problem(name)


def test_an_id_is_written_with_its_channel() -> None:
    assert parse_actor("email:A@Example.org") == ("email", "a@example.org")
    assert parse_actor("whatsapp:+4917") == ("whatsapp", "4917")
    assert parse_actor("matrix:@a:example.org") == ("matrix", "@a:example.org")
    for wrong in ("alice", "telegram:", "pigeon:3"):
        with pytest.raises(SettingsError):
            parse_actor(wrong)
