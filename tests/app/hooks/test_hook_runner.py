"""Hooks are run for events of every process: in order, few at once, under the policy."""

import json
from pathlib import Path

import anyio
import pytest
from hook_home import add_hook, hook_settings, running_hooks, told, trust, wait_for_ended

from hermes.core.events.incidents import IncidentClosed, IncidentOpened
from hermes.core.events.jobs import JobDue
from hermes.core.events.operations import HealthChecked, HookCursorMoved
from hermes.core.events.tools import ToolApproved, ToolRequested
from hermes.memory.store import open_journal

pytestmark = pytest.mark.anyio

PYTHON_HANDLER = """\
import asyncio, json, os
from pathlib import Path
async def handle(event_type, context):
    await asyncio.sleep(0)
    Path({log!r}).write_text(json.dumps([event_type, context["incident"], dict(os.environ)]))
    print("written")
"""
NO_HOOKS = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {name: no-hooks}
spec:
  match: {any: [{tool: run_hook}]}
  decide: {effect: deny}
"""


def opened(number: int, run: str = "") -> IncidentOpened:
    run = run or f"incident-{number}"
    return IncidentOpened(run=run, incident=str(number), title=f"t{number}", severity="P2")


async def test_a_python_handler_gets_the_event_and_almost_no_variables(tmp_path: Path) -> None:
    log = tmp_path / "said.json"
    add_hook(tmp_path, "page", "['incident:opened']", PYTHON_HANDLER.format(log=str(log)))
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal:
        await journal.append(opened(7))
        [ended] = await wait_for_ended(journal, 1)
        events = [each.event async for each in journal.read()]
    assert (ended.outcome, ended.output.strip(), ended.event) == (
        "ran", "written", "incident:opened",
    )  # fmt: skip
    name, incident, variables = json.loads(log.read_text())
    assert (name, incident) == ("incident:opened", "7")
    assert set(variables) <= {"PATH", "HOME", "LANG", "HERMES_TREE", "LC_CTYPE"}
    [requested] = [each for each in events if isinstance(each, ToolRequested)]
    [approved] = [each for each in events if isinstance(each, ToolApproved)]
    assert requested.origin == "hook" and requested.actor == approved.by != ""


async def test_events_from_before_the_trust_and_of_other_names_run_nothing(tmp_path: Path) -> None:
    add_hook(tmp_path, "page", "['incident:opened']")
    async with open_journal(hook_settings(tmp_path).store) as journal:
        await journal.append(opened(1))
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal:
        closed = IncidentClosed(run="incident-1", incident="1", outcome="resolved")
        await journal.append(closed, opened(2))
        await wait_for_ended(journal, 1)
    assert [each["context"]["incident"] for each in told(tmp_path, "page")] == ["2"]


async def test_a_policy_can_forbid_hooks(tmp_path: Path) -> None:
    add_hook(tmp_path, "page", "['incident:opened']")
    (tmp_path / "home/policies").mkdir()
    (tmp_path / "home/policies/own.yaml").write_text(NO_HOOKS)
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal:
        await journal.append(opened(1))
        [ended] = await wait_for_ended(journal, 1)
    assert ended.outcome == "denied" and "no-hooks" in ended.detail
    assert told(tmp_path, "page") == []


async def test_a_hook_that_fails_or_hangs_is_recorded_and_the_next_event_comes(
    tmp_path: Path,
) -> None:
    add_hook(tmp_path, "bad", "['incident:opened']", "#!/bin/sh\necho oops\nexit 3\n")
    add_hook(tmp_path, "slow", "['job:due']", "#!/bin/sh\nsleep 60\n", "timeout: 0.2\n")
    await trust(tmp_path, "bad", "slow")
    async with running_hooks(tmp_path) as journal:
        due = JobDue(run="schedule", job="j", occurrence="j@1", due=opened(0).at)
        await journal.append(opened(1), opened(2), due)
        found = await wait_for_ended(journal, 3)
    outcomes = sorted((each.hook, each.outcome, each.detail) for each in found)
    assert outcomes == [
        ("bad", "failed", "exit code 3"),
        ("bad", "failed", "exit code 3"),
        ("slow", "timed-out", "ended after 0.2 s"),
    ]
    assert found[0].output.strip() == "oops"


async def test_a_changed_hook_does_not_run_until_it_is_trusted_again(tmp_path: Path) -> None:
    place = add_hook(tmp_path, "page", "['incident:opened']")
    add_hook(tmp_path, "other", "['incident:*']", more="order: 5\n")
    await trust(tmp_path, "page", "other")
    async with running_hooks(tmp_path) as journal:
        await journal.append(opened(1))
        await wait_for_ended(journal, 2)
        (place / "handler").write_text((place / "handler").read_text() + "# more\n")
        await journal.append(opened(2))
        await wait_for_ended(journal, 3)  # of the other hook, which comes later
        assert len(told(tmp_path, "page")) == 1
        await trust(tmp_path, "page")
        await journal.append(opened(3))
        await wait_for_ended(journal, 5)
    assert [each["context"]["incident"] for each in told(tmp_path, "page")] == ["1", "3"]


async def test_hooks_of_one_event_run_by_order_and_events_of_one_run_one_by_one(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    handler = f'#!/bin/sh\necho "+$0" >> {log}\nsleep 0.05\necho "-$0" >> {log}\n'
    add_hook(tmp_path, "a", "['incident:*']", handler, "order: 2\n")
    add_hook(tmp_path, "z", "['incident:*']", handler, "order: 1\n")
    await trust(tmp_path, "a", "z")
    async with running_hooks(tmp_path) as journal:
        await journal.append(opened(1, "incident-x"), opened(2, "incident-x"))
        found = await wait_for_ended(journal, 4)
    assert [each.hook for each in found] == ["z", "a", "z", "a"]
    assert [each.number for each in found] == sorted(each.number for each in found)
    lines = log.read_text().splitlines()
    assert [each[0] for each in lines] == ["+", "-"] * 4


async def test_at_most_four_run_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    handler = f"#!/bin/sh\necho + >> {log}\nsleep 0.1\necho - >> {log}\n"
    add_hook(tmp_path, "page", "['incident:*']", handler)
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal:
        await journal.append(*map(opened, range(9)))
        await wait_for_ended(journal, 9)
    level, most = 0, 0
    for line in log.read_text().split():
        level += 1 if line == "+" else -1
        most = max(most, level)
    assert level == 0 and most <= 4


async def test_two_processes_do_not_run_the_same_hook(tmp_path: Path) -> None:
    add_hook(tmp_path, "page", "['health:failed']")
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal, running_hooks(tmp_path):
        for _ in range(3):
            await journal.append(HealthChecked(run="watch", ok=False))
        await wait_for_ended(journal, 3)
        await journal.append(opened(1))
        await anyio.wait_all_tasks_blocked()
    numbers = [each["number"] for each in told(tmp_path, "page")]
    assert len(numbers) == len({*numbers}) == 3


async def test_a_process_continues_after_the_cursor_of_the_one_before(tmp_path: Path) -> None:
    add_hook(tmp_path, "page", "['incident:opened']")
    await trust(tmp_path, "page")
    async with running_hooks(tmp_path) as journal:
        numbers = await journal.append(opened(1), opened(2))
        await wait_for_ended(journal, 2)
    async with open_journal(hook_settings(tmp_path).store) as journal:
        [skipped] = await journal.append(opened(3))
        await journal.append(HookCursorMoved(run="hooks", cursors=(("page", skipped),)))
        [after] = await journal.append(opened(4))
    async with running_hooks(tmp_path) as journal:
        await wait_for_ended(journal, 3)
    assert sorted(each["number"] for each in told(tmp_path, "page")) == [*numbers, after]
