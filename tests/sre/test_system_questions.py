"""What Prometheus and databases show is a finding with the event of its query, before any model."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigation_setup import InvestigationSetup, concludes, finds

from hermes.core.actions import Action, Decision
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import (
    OutgoingRequest,
    RemoteTarget,
    Risk,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolSpec,
)
from hermes.core.protocols import ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel
from hermes.sre.responders.host_facts import collect_facts, system_collectors
from hermes.sre.responders.investigation import read_only_executor
from hermes.sre.system_questions import (
    MAX_TOTAL_CHARS,
    METRIC_QUERIES,
    PROBLEM_TOOLS,
    QUERY_TOOL,
    measure_systems,
    system_questions,
)
from hermes.tools.executor import Executor

pytestmark = pytest.mark.anyio
DOWN = "1 series\ninstance=db:9187, job=postgres: 0"


class Metrics:
    """Stands in for the tool of Prometheus; tests/web asks a real one."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers
        self.definition = ToolDefinition(name=QUERY_TOOL, digest="d")
        self.spec = ToolSpec(name=QUERY_TOOL, description="", parameters={}, risk=Risk.READ)

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        return OutgoingRequest(method="GET", url="http://prometheus:9090/q", configured=True)

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        return RemoteTarget(kind="prometheus", host="prometheus")

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return self._answers.get(str(arguments["query"]), "no series match")


def test_nothing_is_asked_where_no_prometheus_is_configured() -> None:
    assert system_questions((), {"orders": "postgres"}) == ()
    assert system_collectors({"terminal"}, {}) == ()
    assert len(system_collectors({QUERY_TOOL}, {})) == len(METRIC_QUERIES)


@pytest.mark.command
async def test_findings_name_the_event_of_their_query(tmp_path: Path) -> None:
    setup = InvestigationSetup()
    async with setup.folder(tmp_path) as crew:
        means = crew.dependencies
        executor = read_only_executor(means.executor.with_tool(Metrics({"up == 0": DOWN})))
        wanted = system_collectors(executor.classed_reads, {})
        facts = await collect_facts(wanted, means, executor, "run/facts", crew.settings)
        [fact] = facts
        assert (fact.layer, fact.command) == ("service", "up == 0")
        assert "job=postgres" in fact.output
        shown = setup.journal.events[fact.seq - 1]
        assert isinstance(shown, ToolFinished)
        assert "job=postgres" in shown.result.content


@pytest.mark.command
async def test_models_begin_with_what_was_measured_and_may_ask_more(tmp_path: Path) -> None:
    service = ScriptedModel([finds("postgres does not answer", "up == 0")], name="service")
    cause = {
        "component": "postgres",
        "mechanism": "down",
        "value": "0",
        "evidence": ["up == 0"],
        "check": "true",
    }
    synthesis = ScriptedModel([concludes("person", cause)], name="synthesis")
    setup = InvestigationSetup({"service": service, "synthesis": synthesis})
    async with setup.folder(tmp_path) as crew:
        executor = crew.dependencies.executor.with_tool(Metrics({"up == 0": DOWN}))
        crew = replace(crew, dependencies=replace(crew.dependencies, executor=executor))
        await crew.investigate(await setup.opened(), ())
    prompt = "\n".join(message.text for message in service.seen[0])
    assert "targets that do not answer" in prompt
    assert "job=postgres" in prompt
    [diagnosed] = setup.events(IncidentDiagnosed)
    assert diagnosed.evidence


async def measured(
    answers: Mapping[str, str], status: str = "ok", databases: Mapping[str, str] | None = None
) -> tuple[Any, int]:
    journal, asked = InMemoryJournal(), list[str]()

    async def execute(call: ToolCall) -> ToolResult:
        asked.append(str(call.arguments.get("query") or call.arguments["connection"]))
        content = answers.get(asked[-1], "no series match")
        result = ToolResult(
            call_id=call.id, content=content, status="ok" if status == "ok" else "error"
        )
        await journal.append(ToolFinished(run="run", result=result))
        return result

    tools = {QUERY_TOOL, *PROBLEM_TOOLS.values()}
    lines, _ = await measure_systems(execute, tools, journal, "run", databases)
    return lines, len(asked)


async def test_an_escalation_tells_what_was_measured() -> None:
    [line], _ = await measured({"up == 0": DOWN})
    assert line.about == "metric"
    assert line.text == "targets that do not answer: instance=db:9187, job=postgres: 0"
    assert line.evidence == (2,)


async def test_an_escalation_tells_what_is_wrong_in_each_configured_database() -> None:
    answers = {
        "orders": "session 7 waits 90 s for a lock of session 3\n9 of 10 connections are used",
        "cache": "Could not connect to Redis\n[exit code 1]",
        "shop": "[no output]",
    }
    kinds = {"orders": "postgres", "cache": "redis", "shop": "mysql"}
    lines, _ = await measured(answers, databases=kinds)
    assert [(each.about, each.text) for each in lines] == [
        (
            "database",
            "database orders (postgres): session 7 waits 90 s for a lock of session 3; "
            "9 of 10 connections are used",
        ),
        ("database", "database cache (redis): Could not connect to Redis"),
    ]
    assert all(each.evidence for each in lines)


async def test_a_database_that_cannot_be_asked_does_not_end_the_questions() -> None:
    _, asked = await measured({}, status="error", databases={"a": "redis", "b": "postgres"})
    assert asked == 3


async def test_all_findings_together_stay_short() -> None:
    many = "900 series\n" + "\n".join(f"instance=host-{n}: 0" for n in range(900))
    lines, _ = await measured({each.query: many for each in METRIC_QUERIES})
    assert sum(len(line.text) for line in lines) < MAX_TOTAL_CHARS + 1500


async def test_a_prometheus_that_does_not_answer_is_asked_once() -> None:
    assert await measured({}, status="error") == ([], 1)


class Denying:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="ask", rule="asks", effects=("network-local",))


@pytest.mark.command
async def test_a_rule_may_keep_investigators_from_asking(tmp_path: Path) -> None:
    setup = InvestigationSetup()
    async with setup.folder(tmp_path) as crew:
        means = crew.dependencies
        tools = {QUERY_TOOL: Metrics({"up == 0": DOWN})}
        executor = read_only_executor(Executor(tools, Denying(), setup.approver, means.bus))
        wanted = system_collectors(executor.classed_reads, {})
        assert await collect_facts(wanted, means, executor, "run/facts", crew.settings) == ()
