"""Who answers an approval request, from where and how: it counts, or the reason why not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes.app.incidents.actions import (
    acknowledge_incident,
    close_incident,
    mute_incident,
    tell_incident,
)
from hermes.app.incidents.approval_answers import AnswerOutcome, answer_approval, answer_by_message
from hermes.app.incidents.views import view_approvals, view_incident
from hermes.core.channels import Address, AttachedText, InboundMessage, press_data
from hermes.core.errors import HermesError, PolicyDenied, StoreError
from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalAnswered, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import IncidentOpened
from hermes.core.events.people import PairingApproved
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio

CHANNELS = (
    "telegram", "slack", "discord", "whatsapp", "signal", "matrix", "mattermost", "email",
)  # fmt: skip
NUMBERS = {"ann": 1, "ben": 2, "cleo": 3, "paired": 8, "stranger": 9}


def sender_id(channel: str, who: str) -> str:
    """An id as the platform has it: a number, a name with a letter, or an address."""
    forms = {"slack": "U{}", "email": "{}@example.org", "matrix": "@{}:example.org"}
    return forms.get(channel, "{}").format(NUMBERS[who])


SENDERS = {channel: {who: sender_id(channel, who) for who in NUMBERS} for channel in CHANNELS}


def person_line(name: str, groups: str) -> str:
    ids = ", ".join(f"{channel}: '{SENDERS[channel][name]}'" for channel in CHANNELS)
    return f"  {name}: {{unix: {name}, {ids}, groups: [{groups}]}}"


PEOPLE = "\n".join(
    ["people:", person_line("ann", "oncall"), person_line("ben", "oncall"), person_line("cleo", "")]
)
ASKED = "ask-20260304-050607-4f2a1c"
OTHER = "ask-20260304-050607-bbbbbb"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedSettings:
    """Read once for hundreds of tests: nothing changes it."""
    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(PEOPLE)
    return load(home=home, variables={})


def request(**more: Any) -> ApprovalRequested:
    """Ann asked for it; two of her group, and not she, must approve."""
    now = datetime.now(UTC)
    fields: dict[str, Any] = {
        "run": "run-1",
        "approval": ASKED,
        "call_id": "c1",
        "tool": "terminal",
        "shown": "systemctl restart web",
        "hash": "h1",
        "requester": "ann",
        "approvers": ("ann", "ben"),
        "barred": ("ann",),
        "at": now - timedelta(seconds=60),
        "until": now + timedelta(seconds=600),
    }
    return ApprovalRequested(**{**fields, **more})


async def journal_with(*events: Event) -> InMemoryJournal:
    journal = InMemoryJournal()
    pairs = [
        PairingApproved(run="people", channel=channel, id=ids["paired"])
        for channel, ids in SENDERS.items()
    ]
    await journal.append(*pairs, *events)
    return journal


def message(channel: str, who: str, how: str) -> InboundMessage:
    fields: dict[str, Any] = {
        "key": "k",
        "address": Address(channel, "chat"),
        "sender": SENDERS[channel][who],
        "sent_at": datetime.now(UTC),
    }
    words = {"text": "yes 4f2a1c", "quoted": "m1"}
    match how:
        case "press":
            fields |= {"pressed": press_data("once", ASKED)}
        case "voice":
            fields |= words | {"voice": True}
        case "transcript":
            attached = (AttachedText("transcript", "yes 4f2a1c"),)
            fields |= {"attached": attached, "quoted": "m1", "voice": True}
        case "forwarded":
            fields |= {"attached": (AttachedText("forward", "yes 4f2a1c", "ben"),), "quoted": "m1"}
        case "edited":
            fields |= words | {"edited": True}
        case "old":
            fields |= words | {"sent_at": datetime.now(UTC) - timedelta(hours=2)}
        case "sentiment":
            fields |= {"text": "yes, sounds good, go ahead", "quoted": "m1"}
        case _:
            fields |= words
    return InboundMessage(**fields)


WAYS = {
    "press": "",
    "text": "",
    "voice": "a voice message never answers",
    "transcript": "a voice message never answers",
    "forwarded": "somebody else's word",
    "edited": "an edited message never answers",
    "old": "before the question was asked",
}
ROLES = {
    "ben": "",  # an approver
    "ann": "ann asked for it",  # the requester
    "cleo": "cleo is not among those who may answer",  # somebody else
    "paired": "hermes people add NAME",
    "stranger": "may not talk to Hermes here",
}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("who", ROLES)
@pytest.mark.parametrize("how", WAYS)
async def test_an_approval_in_a_chat_counts_or_says_why_not(
    loaded: LoadedSettings, channel: str, who: str, how: str
) -> None:
    journal = await journal_with(request())
    done = await answer_by_message(
        loaded,
        journal,
        message(channel, who, how),
        quoted_approval=ASKED,
        allowed=who != "stranger",
    )
    assert done is not None
    expected = ROLES[who] if who == "stranger" else WAYS[how] or ROLES[who]
    if channel == "email" and not expected:
        expected = "can be forged"
    counted = [event for event in journal.events if isinstance(event, ApprovalAnswered)]
    if expected:
        assert not done.counts
        forged = channel == "email" and "can be forged" in done.text
        assert expected in done.text or forged
        assert counted == []
    else:
        assert done.counts, done.text
        assert [(event.by, event.via, event.approved) for event in counted] == [
            ("ben", channel, True)
        ]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("who", ROLES)
async def test_agreement_in_other_words_is_only_talk(
    loaded: LoadedSettings, channel: str, who: str
) -> None:
    journal = await journal_with(request())
    said = message(channel, who, "sentiment")
    done = await answer_by_message(loaded, journal, said, quoted_approval=ASKED, allowed=True)
    assert done is None


@pytest.mark.parametrize(
    ("quoted", "why"), [("", "quote the question"), (OTHER, "you quoted another question")]
)
async def test_words_answer_only_the_question_that_they_quote(
    loaded: LoadedSettings, quoted: str, why: str
) -> None:
    journal = await journal_with(request(), request(approval=OTHER))
    said = message("telegram", "ben", "text")
    done = await answer_by_message(loaded, journal, said, quoted_approval=quoted, allowed=True)
    assert done is not None
    assert why in done.text


async def answer(
    loaded: LoadedSettings, journal: InMemoryJournal, person: str, **more: Any
) -> AnswerOutcome:
    fields = {"verb": "once", "via": "cli", **more}
    return await answer_approval(loaded, journal, ASKED, person=person, **fields)


@pytest.mark.parametrize("via", ["cli", "web", "telegram"])
@pytest.mark.parametrize(
    ("person", "why"),
    [
        ("ben", ""),
        ("ann", "ann asked for it"),
        ("cleo", "not among those"),
        ("unix:dan", "hermes people add NAME unix:dan"),
        ("telegram:8", "hermes people add NAME telegram:8"),
        ("dan", "not among those"),
    ],
)
async def test_the_same_person_gets_the_same_answer_at_every_entry_point(
    loaded: LoadedSettings, via: str, person: str, why: str
) -> None:
    done = await answer(loaded, await journal_with(request()), person, via=via)
    assert done.counts is (not why)
    assert why in done.text


async def test_two_different_people_are_two_also_from_two_places(loaded: LoadedSettings) -> None:
    journal = await journal_with(request(count=2, approvers=(), barred=("ann",)))
    first = await answer(loaded, journal, "ben", via="telegram")
    again = await answer(loaded, journal, "ben", via="cli")
    second = await answer(loaded, journal, "cleo", via="web")
    assert (first.outcome, again.refusal, second.outcome) == ("waiting", "denied", "recorded")
    assert "two" not in again.text
    assert "2 different people must" in again.text


async def test_an_answer_to_another_action_than_the_one_shown_does_not_count(
    loaded: LoadedSettings,
) -> None:
    journal = await journal_with(request())
    assert "not the one that was shown" in (await answer(loaded, journal, "ben", hash="h0")).text
    assert (await answer(loaded, journal, "ben", hash="h1")).counts


@pytest.mark.parametrize("channel", [each for each in CHANNELS if each != "email"])
@pytest.mark.parametrize(
    ("events", "refusal"),
    [
        (
            [request(), ApprovalSettled(run="run-1", approval=ASKED, outcome="denied", by=("cy",))],
            "settled",
        ),
        ([request(until=datetime.now(UTC) - timedelta(seconds=1))], "over"),
        ([], "unknown"),
    ],
)
async def test_an_old_question_is_over_whoever_answers(
    loaded: LoadedSettings, channel: str, events: list[Event], refusal: str
) -> None:
    pressed = message(channel, "ben", "press")
    journal = await journal_with(*events)
    done = await answer_by_message(loaded, journal, pressed, allowed=True)
    assert done is not None
    assert done.refusal == refusal


async def test_always_is_refused_where_it_may_not_be_permanent(loaded: LoadedSettings) -> None:
    journal = await journal_with(request(effects=("irreversible",)))
    assert "approved each time" in (await answer(loaded, journal, "ben", verb="always")).text


async def test_the_requester_may_take_it_back_and_nobody_unknown_may_deny_for_a_group(
    loaded: LoadedSettings,
) -> None:
    journal = await journal_with(request(requester="telegram:8"))
    assert not (await answer(loaded, journal, "slack:U8", verb="deny")).counts
    assert (await answer(loaded, journal, "telegram:8", verb="deny")).counts


async def test_without_people_every_user_of_this_machine_answers_as_before(tmp_path: Path) -> None:
    plain = load(home=tmp_path, variables={})
    journal = InMemoryJournal()
    await journal.append(request(approvers=(), barred=()))
    assert (await answer(plain, journal, "root")).counts
    await journal.append(request(approval=OTHER, approvers=(), barred=()))
    told = message("telegram", "ben", "press")
    done = await answer_by_message(plain, journal, told, allowed=True)
    assert done is not None
    assert "hermes people add NAME telegram:2" in done.text


INCIDENT = IncidentOpened(
    run="incident-1", incident="incident-1", title="web is down", severity="P1", service="web"
)


async def test_people_acknowledge_mute_and_close_incidents(loaded: LoadedSettings) -> None:
    journal = await journal_with(INCIDENT)
    acked = await acknowledge_incident(loaded, journal, "last", person="ann")
    assert acked.text == "incident-1: acknowledged by ann"
    assert (await view_incident(journal, "last"))["acknowledged_by"] == "ann"
    muted = await mute_incident(loaded, journal, "incident-1", person="ben")
    window = journal.events[-1]
    assert (muted.state, window.kind, getattr(window, "target", "")) == (
        "muted",
        "maintenance.added",
        "web",
    )
    await close_incident(loaded, journal, "incident-1", person="ben", reason="a cable")
    assert (await view_incident(journal, "incident-1"))["state"] == "closed"
    with pytest.raises(HermesError, match="already over"):
        await close_incident(loaded, journal, "incident-1", person="ben")


async def test_a_hint_needs_no_name_and_decides_nothing(loaded: LoadedSettings) -> None:
    journal = await journal_with(INCIDENT)
    before = await view_incident(journal, "last")
    told = await tell_incident(loaded, journal, "last", " the disk\nis new ", person="telegram:8")
    assert (told.state, told.by) == ("told", "telegram:8")
    after = await view_incident(journal, "incident-1")
    same = ("state", "acknowledged_by", "severity", "closed_at")
    assert [after[name] for name in same] == [before[name] for name in same]
    hints = [(each["person"], each["text"]) for each in after["hints"]]
    assert hints == [("telegram:8", "the disk\nis new")]
    with pytest.raises(HermesError, match="hermes incident list"):
        await tell_incident(loaded, journal, "incident-9", "x", person="ann")


@pytest.mark.parametrize("person", ["unix:dan", "telegram:8", "dan"])
async def test_nobody_without_a_name_acts_on_an_incident(
    loaded: LoadedSettings, person: str
) -> None:
    journal = await journal_with(INCIDENT)
    for act in (acknowledge_incident, close_incident, mute_incident):
        with pytest.raises(PolicyDenied, match="hermes people add NAME"):
            await act(loaded, journal, "last", person=person)


async def test_open_requests_are_plain_values(loaded: LoadedSettings) -> None:
    journal = await journal_with(request())
    [shown] = await view_approvals(loaded, journal)
    assert (shown["id"], shown["requester"], shown["approvers"]) == (ASKED, "ann", ["ann", "ben"])


async def test_an_unreadable_journal_is_an_error_and_not_an_unknown_request(
    loaded: LoadedSettings,
) -> None:
    async with open_journal(loaded.store) as journal:
        pass  # closed: it cannot be read any more
    with pytest.raises(StoreError):
        await answer_approval(loaded, journal, ASKED, "once", person="ben", via="cli")


@pytest.mark.parametrize(("count", "rest"), [(1, ""), (2, "; 2 different people must")])
async def test_a_second_yes_of_the_same_person_is_told_plainly(
    loaded: LoadedSettings, count: int, rest: str
) -> None:
    yes = ApprovalAnswered(run="run-1", approval=ASKED, approved=True, by="ben", via="telegram")
    journal = await journal_with(request(count=count), yes)
    again = await answer_approval(loaded, journal, ASKED, "once", person="ben", via="telegram")
    assert (again.counts, again.text) == (False, f"ben has already approved it{rest}")


async def test_an_answer_after_the_deciding_one_is_told_how_it_was_decided(
    loaded: LoadedSettings,
) -> None:
    """The process that asked may need a moment to act on the first answer."""
    yes = ApprovalAnswered(run="run-1", approval=ASKED, approved=True, by="ben", via="telegram")
    journal = await journal_with(request(count=1, barred=()), yes)
    late = await answer_approval(loaded, journal, ASKED, "deny", person="ann", via="telegram")
    assert late.refusal == "settled"
    assert late.text == f"{ASKED} was already settled: approved by ben"
    assert [each for each in journal.events if isinstance(each, ApprovalAnswered)] == [yes]
