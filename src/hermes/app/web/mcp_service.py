"""What Hermes offers to other programs over MCP: incidents, memory, skills, rules, tasks.

The caller is a program: its words are not those of a person, and it cannot answer approvals.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from hermes import __version__
from hermes.app.application import Application, open_application
from hermes.app.incidents.views import find_incident, summarize_incident, view_incident
from hermes.app.mcp.servers import INSTALL_HINT
from hermes.core.actions import Action
from hermes.core.errors import HermesError, SettingsError, ToolError
from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import alert_fingerprint, clean_labels, visible_line, visible_text
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.core.protocols import Tool, ToolContext
from hermes.core.run_ids import new_id
from hermes.plumbing.http_service import HttpReply, HttpRequest
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import (
    STATE_KINDS,
    complete_incidents,
    list_incidents,
    read_earlier_incidents,
    read_incident_records,
)
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.timeline import build_timeline
from hermes.tools.action_description import describe_action
from hermes.tools.declare import FunctionTool, about, tool

MAX_LISTED = 50
WATCH_RUN = "watch"


class McpService:
    """The tools of the service. Raises `HermesError`."""

    def __init__(self, application: Application) -> None:
        deps = replace(application.agent_dependencies, origin="mcp", by="", ask=None)
        self._application = replace(application, agent_dependencies=deps)
        self.tools: dict[str, FunctionTool] = {
            each.spec.name: each for each in (*self._reading(), *self._acting())
        }

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        found = self.tools.get(name)
        if found is None:
            raise ToolError(f"there is no tool {name!r}; there are: {', '.join(self.tools)}")
        context: Any = None
        return await found(context, arguments)

    async def incident_titles(self) -> dict[str, str]:
        """Of the latest incidents, by their ids."""
        known = await list_incidents(self._application.journal, drills=False, kinds=STATE_KINDS)
        return {each.details.incident: each.details.title for each in known[::-1][:MAX_LISTED]}

    async def incident_report(self, id: str) -> str:
        run = (await find_incident(self._application.journal, id)).run
        records = await read_incident_records(self._application.journal, run)
        earlier = await read_earlier_incidents(self._application.journal, records)
        return render_report(records, earlier=earlier)

    def _reading(self) -> list[FunctionTool]:
        application, journal = self._application, self._application.journal

        @tool(risk=Risk.READ)
        async def incident_list(context: Any, status: Literal["", "open", "closed"] = "") -> str:
            """List incidents, the latest first."""
            known = await list_incidents(journal, drills=False, kinds=STATE_KINDS)
            wanted = {"": (True, False), "open": (True,), "closed": (False,)}[status]
            found = [each for each in known if bool(each.unresolved) in wanted][::-1]
            shown = await complete_incidents(journal, found[:MAX_LISTED])
            return _json([summarize_incident(each) for each in shown])

        @tool(risk=Risk.READ)
        async def incident_show(context: Any, id: str) -> str:
            """Show one incident: cause, changes, checks. ID may be `last`."""
            return _json(await view_incident(journal, id))

        @tool(risk=Risk.READ)
        async def incident_timeline(context: Any, id: str) -> str:
            """The timeline of one incident."""
            run = (await find_incident(journal, id)).run
            rows = build_timeline(await read_incident_records(journal, run))
            return "\n".join(f"{each.at.isoformat()}  {each.text}" for each in rows)

        @tool(risk=Risk.READ)
        async def memory_search(context: Any, query: str) -> str:
            """Search what earlier sessions said and did, by words."""
            search = application.memory.session_recall
            if search is None:
                return "nothing was said yet"
            return _json(await search.recall(query))

        @tool(risk=Risk.READ)
        async def skill_list(context: Any) -> str:
            """List the skills: proven ways to do things."""
            return await self._own_tool("skills_list", {})

        @tool(risk=Risk.READ)
        async def skill_view(context: Any, name: str) -> str:
            """Read one skill."""
            return await self._own_tool("skill_view", {"name": name})

        @tool(risk=Risk.READ)
        async def policy_check(
            context: Any, tool: str, arguments: Annotated[dict[str, Any], about("of that tool")]
        ) -> str:
            """What the rules say about a call, without running it."""
            return self._judge(tool, arguments)

        @tool(risk=Risk.READ)
        async def drill_list(context: Any) -> str:
            """List the drills: outages that can be played in a box."""
            from hermes.gym.scenario import scenario_catalog

            return "\n".join(sorted(scenario_catalog().folders))

        return [
            *(incident_list, incident_show, incident_timeline, memory_search),
            *(skill_list, skill_view, policy_check, drill_list),
        ]

    def _acting(self) -> list[FunctionTool]:
        application = self._application

        @tool(risk=Risk.CHANGE)
        async def alert_raise(
            context: Any,
            title: str,
            service: str,
            severity: Literal["P0", "P1", "P2", "P3"] = "P2",
            labels: dict[str, str] | None = None,
        ) -> str:
            """Report a problem; a running watch handles it at once."""
            shown, named = visible_line(title), visible_line(service, 100)
            if not shown:
                raise HermesError("describe the problem in a few words")
            alert = AlertRaised(
                run=WATCH_RUN,
                fingerprint=f"mcp:{alert_fingerprint(named, shown.lower())}",
                title=shown,
                text=visible_text(title)[:4_000],
                source="mcp",
                labels=clean_labels({**(labels or {}), "service": named}, "service"),
                severity=severity,
            )
            number = (await application.bus.publish(alert))[-1]
            return f"alert {number} was recorded"

        @tool(risk=Risk.DESTROY)
        async def ask(context: Any, task: str) -> str:
            """Let the agent work on a task, under its rules. What needs approval asks people."""
            conversation = await application.begin(task=task)
            try:
                return await conversation.say(task)
            finally:
                with anyio.CancelScope(shield=True):  # also when the client hangs up
                    await application.release(conversation.run)

        return [alert_raise, ask]

    async def _own_tool(self, name: str, arguments: dict[str, Any]) -> str:
        found: Tool | None = self._application.tooling.catalogue.tools.get(name)
        if found is None:
            raise ToolError(f"{name} is not among the tools of this installation")

        async def refuse(call: ToolCall) -> ToolResult:
            return ToolResult(call_id=call.id, content="one tool at a time", status="error")

        deps = self._application.agent_dependencies
        context = ToolContext(
            run=new_id("mcp"),
            environment=deps.environment,
            publish=self._application.bus.publish,
            call=refuse,
            artifacts=deps.artifacts,
            origin="mcp",
        )
        return await found(context, arguments)

    def _judge(self, name: str, arguments: dict[str, Any]) -> str:
        found = self._application.tooling.catalogue.tools.get(name)
        if found is None:
            raise ToolError(f"there is no tool {name!r}")
        environment = self._application.agent_dependencies.environment
        action = Action(
            call=ToolCall("check", name, arguments),
            risk=found.spec.risk,
            run="mcp-check",
            origin="mcp",
            environment=environment.name,
            target=environment.target,
            isolated=environment.isolated,
        )
        decision = self._application.policy.decide(describe_action(action, found))
        return _json(
            {
                "verdict": decision.verdict,
                "rule": decision.rule,
                "reason": decision.reason,
                "effects": decision.effects,
            }
        )


def _json(value: object) -> str:
    encoded = msgspec.json.encode(value, enc_hook=str)
    return msgspec.json.format(encoded, indent=1).decode()


def make_server(service: McpService) -> Any:
    """Raises `SettingsError` when the library is not installed."""
    try:
        from hermes.integrations.mcp.server import build_server
    except ImportError as error:
        raise SettingsError(f"{INSTALL_HINT} ({error})") from error
    specs = [each.spec for each in service.tools.values()]
    return build_server(
        specs, service.call, service.incident_titles, service.incident_report, __version__
    )


async def serve_stdio(loaded: LoadedSettings, folder: Path) -> None:
    """`hermes mcp serve`: until the client closes our input."""
    async with open_application(loaded, origin="mcp", directory=folder) as application:
        server = make_server(McpService(application))
        from hermes.integrations.mcp.server import serve_over_stdio

        await serve_over_stdio(server)


class HttpMcpService:
    """`/mcp` on the web port. The library is loaded with the first request."""

    def __init__(
        self, application: Application, group: TaskGroup, hosts: Collection[str] = ()
    ) -> None:
        self._application, self._group, self._hosts = application, group, hosts
        self._opening = anyio.Lock()
        self._endpoint: Any = None

    async def respond(self, request: HttpRequest) -> HttpReply:
        async with self._opening:
            if self._endpoint is None:
                server = make_server(McpService(self._application))
                self._endpoint = await self._group.start(self._serve, server)
        reply: HttpReply = await self._endpoint.respond(request)
        return reply

    async def _serve(self, server: Any, *, task_status: TaskStatus[Any]) -> None:
        from hermes.integrations.mcp.server import HttpEndpoint

        async with HttpEndpoint(server, self._hosts).opened() as endpoint:
            task_status.started(endpoint)
            await anyio.sleep_forever()
