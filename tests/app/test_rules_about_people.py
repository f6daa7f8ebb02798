"""Rules about people look at who asked in the turn, not at the user of the process."""

import json
import os
from pathlib import Path

import pytest

from hermes.app import open_application
from hermes.app.people import user_name
from hermes.core.actions import Action, Approval
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolDecided
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio

RULE = """
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {{name: {name}}}
spec:
  match: {{any: [{clause}]}}
  decide: {decide}
"""


class Refusing:
    """Somebody at the terminal who always says no."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequested] = []

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval:
        self.asked.append(request)
        return Approval(approved=False, by=request.requester)


def home_with(tmp_path: Path, *rules: str, people: str = "", calls: int = 1) -> LoadedSettings:
    home = tmp_path / "home"
    (home / "policies").mkdir(parents=True)
    (home / "policies" / "mine.yaml").write_text("---".join(rules))
    (home / "config.yaml").write_text(people)
    command = {"name": "terminal", "arguments": {"command": "touch made"}}
    replies = [{"calls": [{"id": f"c{n}", **command}]} for n in range(calls)]
    script = home / "script.jsonl"
    script.write_text("".join(json.dumps(each) + "\n" for each in [*replies, {"text": "done"}] * 4))
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"], "HOME": str(home)},
        overrides={"model.default": f"scripted:{script}"},
    )


async def verdicts(loaded: LoadedSettings, work: Path, *speakers: str) -> list[tuple[str, str]]:
    async with open_application(loaded, directory=work, origin="chat") as application:
        talk = await application.begin(by=speakers[0])
        for who in speakers:
            await talk.say("go", by=who)
        read = application.journal.read(run=talk.run, kinds=("tool.decided",))
        found = [recorded.event async for recorded in read]
    return [(each.verdict, each.rule) for each in found if isinstance(each, ToolDecided)]


async def test_a_rule_names_people_and_those_without_a_name(tmp_path: Path) -> None:
    loaded = home_with(
        tmp_path,
        RULE.format(
            name="not-bob",
            clause='{program: touch, actor: {name: ["bob", "telegram:*"]}}',
            decide="{effect: deny}",
        ),
    )
    found = await verdicts(loaded, tmp_path, "alice", "bob", "telegram:7")
    assert [rule == "not-bob" for _, rule in found] == [False, True, True]


async def test_a_rate_limit_counts_each_person(tmp_path: Path) -> None:
    loaded = home_with(
        tmp_path,
        RULE.format(
            name="once-each",
            clause="{program: touch}",
            decide="{effect: allow, rate_limit: {key: actor, max: 1, per: 1h}}",
        ),
    )
    found = await verdicts(loaded, tmp_path, "alice", "bob", "alice")
    assert [verdict for verdict, _ in found] == ["allow", "allow", "ask"]


async def test_whoever_asked_in_the_turn_is_the_requester_and_barred(tmp_path: Path) -> None:
    loaded = home_with(
        tmp_path,
        RULE.format(
            name="four-eyes",
            clause="{program: touch}",
            decide="{effect: ask, approvers: {count: 1, from: [oncall], not: [requester]}}",
        ),
        people="people:\n  alice: {telegram: 1, groups: [oncall]}\n  bob: {telegram: 2}\n"
        "policy: {groups: {oncall: [carol]}}\n",
    )
    person = Refusing()
    async with open_application(
        loaded, directory=tmp_path, origin="chat", approver=person
    ) as application:
        talk = await application.begin(by="bob")
        await talk.say("go", by="bob")
        await talk.say("go", by="alice")
    assert [request.requester for request in person.asked] == ["bob", "alice"]
    assert [request.barred for request in person.asked] == [("bob",), ("alice",)]
    assert person.asked[0].approvers == ("carol", "alice")


@pytest.mark.parametrize(
    ("people", "expected"),
    [
        ("", "{user}"),
        ("people: {alice: {unix: '{user}'}}", "alice"),
        ("people: {alice: {unix: somebody-else}}", "unix:{user}"),
    ],
)
async def test_a_run_at_the_terminal_is_that_of_the_user_as_a_person(
    tmp_path: Path, people: str, expected: str
) -> None:
    loaded = home_with(tmp_path, people=people.replace("{user}", user_name()))
    async with open_application(loaded, directory=tmp_path) as application:
        talk = await application.begin()
        [started] = [each async for each in application.journal.read(run=talk.run)][:1]
    assert isinstance(started.event, RunStarted)
    assert started.event.by == expected.replace("{user}", user_name())
