"""Hooks as files and their events: what is refused, what un-trusts, which names there are."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.core.channels import Address, InboundMessage
from hermes.core.events import EVENT_TYPES, Event
from hermes.core.events.chats import ChatHandled, ChatReceived, ChatSessionEnded
from hermes.core.events.incidents import (
    IncidentAcknowledged,
    IncidentClosed,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
)
from hermes.core.events.jobs import JobDue
from hermes.core.events.operations import (
    HOOKS_RUN,
    GatewayStarted,
    HealthChecked,
    HookTrusted,
    HookUntrusted,
)
from hermes.core.events.runs import MessageAdded, RunStarted, TurnEnded
from hermes.core.events.skills import SkillChanged
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.gateway.hook_events import (
    KINDS_BY_NAME,
    HookEventReader,
    event_name,
    event_name_problem,
    kinds_of,
)
from hermes.gateway.hook_files import HookTrust, list_hooks, read_hook
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def make_hook(home: Path, name: str = "page-me", text: str = "events: ['incident:*']\n") -> Path:
    folder = home / "hooks" / name
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text(text)
    (folder / "handler").write_text("#!/bin/sh\n")
    for each in (folder.parent, folder, folder / "handler"):
        each.chmod(0o755)
    (folder / "HOOK.yaml").chmod(0o644)
    return folder


def test_a_hook_is_a_folder_with_a_manifest_and_a_handler(tmp_path: Path) -> None:
    make_hook(tmp_path, text="events: ['incident:*', 'job:due']\ntimeout: 5s\norder: 2\n")
    [hook] = list_hooks(tmp_path)
    assert (hook.name, hook.problem, hook.timeout_s, hook.order) == ("page-me", "", 5.0, 2)
    assert hook.wants("incident:opened") and hook.wants("job:due") and not hook.wants("job:ended")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("events: []", "events is empty"),
        ("description: x", "events is missing"),
        ("events: ['incident:open']", "did you mean incident:opened?"),
        ("events: ['job:due']\ntimeout: 10m", "at most 60 s"),
        ("events: ['job:due']\nname: other", "use its folder"),
        ("events: ['job:due']\nveto: true", "veto is not known here"),
        ("events: [", "not valid YAML"),
    ],
)
def test_a_wrong_manifest_is_explained(tmp_path: Path, text: str, why: str) -> None:
    make_hook(tmp_path, text=text)
    assert why in read_hook(tmp_path, "page-me").problem


def test_files_that_others_can_change_are_refused(tmp_path: Path) -> None:
    folder = make_hook(tmp_path)
    (folder / "handler").chmod(0o775)
    assert "chmod go-w" in read_hook(tmp_path, "page-me").problem
    (folder / "handler").chmod(0o755)
    (tmp_path / "hooks").chmod(0o777)
    assert "chmod go-w" in read_hook(tmp_path, "page-me").problem


def test_a_link_is_refused_because_it_may_show_something_else_later(tmp_path: Path) -> None:
    folder = make_hook(tmp_path)
    (folder / "more").symlink_to("/etc/hostname")
    assert "is a link" in read_hook(tmp_path, "page-me").problem


def test_a_handler_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    folder = make_hook(tmp_path)
    (folder / "handler").chmod(0o644)
    assert "chmod +x" in read_hook(tmp_path, "page-me").problem
    (folder / "handler").unlink()
    assert "neither handler.py nor" in read_hook(tmp_path, "page-me").problem


def trusted(tmp_path: Path) -> HookTrust:
    trust = HookTrust()
    digest = read_hook(tmp_path, "page-me").digest
    trust.apply(7, HookTrusted(run=HOOKS_RUN, hook="page-me", digest=digest, by="alice"))
    return trust


@pytest.mark.parametrize("change", ["content", "mode", "new file", "name"])
def test_every_change_of_a_file_takes_the_trust_away(tmp_path: Path, change: str) -> None:
    folder = make_hook(tmp_path)
    (folder / "lib").write_text("x")
    (folder / "lib").chmod(0o644)
    trust = trusted(tmp_path)
    assert trust.objection(read_hook(tmp_path, "page-me")) == ""
    match change:
        case "content":
            (folder / "handler").write_text("#!/bin/sh\nrm -rf /\n")
        case "mode":
            (folder / "lib").chmod(0o755)
        case "new file":
            (folder / "sitecustomize.py").touch()
        case _:
            (folder / "lib").rename(folder / "lib.py")
    assert "changed" in trust.objection(read_hook(tmp_path, "page-me"))


def test_trust_ends_by_a_person(tmp_path: Path) -> None:
    make_hook(tmp_path)
    trust = trusted(tmp_path)
    trust.apply(8, HookUntrusted(run=HOOKS_RUN, hook="page-me", by="bob"))
    assert trust.objection(read_hook(tmp_path, "page-me")) == "not trusted: by bob"


def test_every_name_comes_from_events_that_exist() -> None:
    assert {kind for kinds in KINDS_BY_NAME.values() for kind in kinds} <= {*EVENT_TYPES}
    assert kinds_of(("command:new",)) == {"chat.handled"}
    assert kinds_of(("*",)) == {kind for kinds in KINDS_BY_NAME.values() for kind in kinds}
    assert event_name_problem("session:begin") and not event_name_problem("command:status")


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (GatewayStarted(run="gateway"), "gateway:startup"),
        (RunStarted(run="r", origin="chat"), "session:start"),
        (RunStarted(run="r", origin="subagent"), ""),
        (ChatSessionEnded(run="r", session="s"), "session:reset"),
        (ChatSessionEnded(run="r", session="s", reason="idle"), "session:end"),
        (IncidentOpened(run="r", incident="i", title="t", severity="P1"), "incident:opened"),
        (IncidentAcknowledged(run="r", incident="i", by="a"), "incident:updated"),
        (IncidentClosed(run="r", incident="i", outcome="resolved"), "incident:closed"),
        (IncidentClosed(run="r", incident="i", outcome="escalated"), "incident:updated"),
        (JobDue(run="schedule", job="j", occurrence="j@", due=NOW), "job:due"),
        (SkillChanged(run="r", skill="s", digest="d", state="validated"), "skill:learned"),
        (SkillChanged(run="r", skill="s", digest="d", state="trusted", before="validated"), ""),
        (SkillChanged(run="r", skill="s", digest="d", state="draft"), ""),
        (HealthChecked(run="watch", ok=False), "health:failed"),
        (HealthChecked(run="watch", ok=True), ""),
    ],
)
def test_the_name_of_an_event(event: Event, name: str) -> None:
    assert event_name(event) == name


async def read_last(*events: Event) -> Any:
    journal = InMemoryJournal()
    await journal.append(*events)
    recorded = [each async for each in journal.read()]
    return await HookEventReader(journal).read(recorded[-1])


async def test_a_step_has_the_name_of_its_tool_and_the_result() -> None:
    call = ToolCall("c1", "terminal", {"command": "ls"})
    found = await read_last(
        RunStarted(run="r", origin="chat", by="alice"),
        ToolRequested(run="r", call=call),
        ToolFinished(run="r", result=ToolResult(call_id="c1", status="ok", content="a b")),
    )
    assert (found.name, found.number) == ("agent:step", 3)
    context = found.context
    assert (context["tool"], context["result"], context["status"]) == ("terminal", "a b", "ok")
    assert (context["origin"], context["person"], context["number"]) == ("chat", "alice", 3)


async def test_the_end_of_a_turn_has_the_answer() -> None:
    found = await read_last(
        MessageAdded(run="r", message=Message(role="assistant", text="all is well")),
        TurnEnded(run="r", turn=1, outcome="answered"),
    )
    assert (found.name, found.context["response"]) == ("agent:end", "all is well")


ESCALATED = IncidentClosed(run="r", incident="i", outcome="escalated")
RECOVERED = IncidentRecovered(run="r", incident="i", recovered_at=NOW)
REOPENED = IncidentReopened(run="r", incident="i", by="ann")


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ([ESCALATED], "incident:closed"),
        ([], "incident:updated"),
        ([ESCALATED, REOPENED], "incident:updated"),
        ([ESCALATED, IncidentClosed(run="r", incident="i", outcome="closed")], "incident:updated"),
    ],
)
async def test_a_recovery_closes_an_incident_only_after_an_escalation(
    before: list[Event], name: str
) -> None:
    assert (await read_last(*before, RECOVERED)).name == name


async def test_a_command_of_a_chat_has_its_own_name() -> None:
    message = InboundMessage(
        key="7", address=Address("telegram", "1"), sender="1", text="/Status@bot now"
    )
    found = await read_last(
        ChatReceived(run="r", message=message, session="telegram:1", to="telegram:1", person="al"),
        ChatHandled(run="r", keys=("telegram:7",), outcome="command"),
    )
    assert found.name == "command:status"
    assert (found.context["arguments"], found.context["person"]) == ("now", "al")


async def test_what_hooks_do_is_told_to_no_hook() -> None:
    result = ToolResult(call_id="c1", status="ok", content="")
    assert await read_last(ToolFinished(run=HOOKS_RUN, result=result)) is None
