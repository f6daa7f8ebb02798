"""Every registered tool reaches the world through executor and policy, and there is no other way.

A tool that is added later is walked by itself: it is found where tools are registered.
"""

import ast
import inspect
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from recorded_tools import RecordedTool, RecordingEnvironment, Records, arguments_for, tools_of
from recorded_tools import walk as walk_tool

import hermes
from hermes.app import open_application
from hermes.core import plugins
from hermes.core.actions import Action, Approval, Decision
from hermes.core.errors import ToolError
from hermes.core.events.tools import ProcessStarted, ToolDecided, ToolFinished, ToolStarted
from hermes.core.messages import Risk
from hermes.core.protocols import ToolContext
from hermes.settings.load import LoadedSettings, load
from hermes.tools.declare import tool

pytestmark = pytest.mark.anyio
SOURCE = Path(hermes.__file__).parent

KEYS = {name: "no-real-key" for name in ("OPENAI_API_KEY", "BRAVE_API_KEY", "FAL_KEY")}
"""With them every tool is offered that needs a key."""
NOTHING = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {name: nothing-at-all}
spec:
  match: {any: [{}]}
  decide: {effect: deny}
"""
DECLARED = """\
name: disk_use
description: How full a folder is.
risk: read
command: du -sh {{folder}}
parameters:
  folder: {type: string, description: the folder}
"""
SEVERAL_MODELS = """\
model:
  vision: openai:gpt-4o
  mixtures:
    both: {references: [openai:gpt-4o, openai:gpt-4o-mini], aggregator: openai:gpt-4o}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/tools").mkdir(parents=True)
    (tmp_path / "home/tools/disk_use.yaml").write_text(DECLARED)
    (tmp_path / "home/config.yaml").write_text(SEVERAL_MODELS)
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def settings(home: Path, calls: list[dict[str, Any]]) -> LoadedSettings:
    script = home.parent / "script.jsonl"
    replies: list[dict[str, Any]] = [{"calls": [call]} for call in calls]
    script.write_text("".join(f"{json.dumps(reply)}\n" for reply in [*replies, {"text": "done"}]))
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"], "HOME": str(home), **KEYS},
        overrides={
            "model.default": f"scripted:{script}",
            "tools.toolsets": ",".join(["all", *plugins.plugin_names("tools")]),
            "tools.web.search": "duckduckgo",
        },
    )


async def test_a_rule_that_denies_everything_stops_every_tool(home: Path) -> None:
    (home / "policies").mkdir()
    (home / "policies/nothing.yaml").write_text(NOTHING)
    work = home.parent / "work"
    async with open_application(settings(home, []), directory=work) as house:
        conversation = await house.begin()
        specs = conversation._session.specs
    # There is no earlier session to search yet.
    always = {*tools_of()} - {"session_search"}
    assert {spec.name for spec in specs} >= {*always, "delegate", "disk_use"}
    calls = [
        {"id": f"{spec.name}-{number}", "name": spec.name, "arguments": arguments}
        for spec in specs
        for number, arguments in enumerate(arguments_for(spec))
    ]
    async with open_application(settings(home, calls), directory=work) as house:
        conversation = await house.begin()
        await conversation.say("go")
        events = [one.event async for one in house.journal.read()]
    decided = {event.call_id: event.verdict for event in events if isinstance(event, ToolDecided)}
    assert decided == {call["id"]: "deny" for call in calls}
    finished = [event.result for event in events if isinstance(event, ToolFinished)]
    assert {result.status for result in finished} == {"denied"}
    assert not [event for event in events if isinstance(event, ToolStarted | ProcessStarted)]
    assert not list(work.iterdir())
    assert not (home / "MEMORY.md").exists()


@pytest.mark.parametrize("name", tools_of())
async def test_a_tool_touches_nothing_before_the_policy_has_decided(name: str) -> None:
    found = tools_of()[name]
    for arguments in arguments_for(found.spec):
        records = Records()
        status = await walk_tool(found, arguments, records)
        assert records.decided == [name], "it never came to the policy"
        assert records.too_early == []
        assert records.elsewhere == []
        assert status in ("ok", "error")
        records = Records(allows=False)
        assert await walk_tool(found, arguments, records) == "denied"
        assert records.touched == []


async def test_a_tool_that_touches_the_place_while_it_is_asked_what_it_would_do_is_found() -> None:
    records = Records()
    place = RecordingEnvironment(records)

    class Hasty:
        spec = tools_of()["terminal"].spec

        def command(self, arguments: Mapping[str, Any]) -> str:
            records.touch("run", "rm -rf /")
            return "true"

        async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
            return "done"

    await walk_tool(Hasty(), {"command": "true"}, records, place)
    assert records.too_early == ["run rm -rf /"]


async def test_a_tool_that_calls_another_by_itself_is_found() -> None:
    records = Records()
    other = RecordedTool(tools_of()["terminal"], records)

    @tool(risk=Risk.READ)
    async def shortcut(context: ToolContext) -> str:
        """Around the executor."""
        return await other(context, {"command": "true"})

    await walk_tool(shortcut, {}, records)
    assert records.elsewhere == [f"terminal was called by {Path(__file__).name}"]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


PLACES = {"environment", "_environment", "place", "here", "box"}
TOUCHES = {"run", "write", "start"}
MAY_TOUCH = {
    "tools/": "tools, which only the executor calls",
    "environments/": "the places themselves",
    "gym/": "breaks and fixes its own throw-away boxes; an agent in them takes the road",
    "app/skills/hub.py": "reads the repository that a person named with git, into its own folder",
    "app/skills/exchange.py": "clones the repository that a person named into a folder made for it",
    "acp/editor_files.py": "an environment itself: the files of an editor, then those below it",
    "app/changes/cause_revert.py": "stores what a file was; the revert itself takes the road",
    "declared/collectors/": "fixed scripts that record the state of a host and only read",
    "app/skills/gym_replay.py": "looks at a throw-away box of the gym",
    "skills/scanner/": "a sandbox of its own, with bait, for skills that nobody vouches for",
    "skills/compiler/": "a sandbox of its own for drafts, and for skills, which are tools",
    "app/skills/workshop.py": "unpacks allowed wheels with known hashes; runs none of them",
    "sre/probes/": "looks that only read: own kinds, and commands that the policy took for reading",
    "cli/admin/environments.py": "runs `true` to see whether a place opens",
    "testing/environments.py": "the contract suite that authors of environments run in their tests",
}
BY_ITSELF = {"subprocess", "pty", "socket", "socketserver", "urllib", "http", "httpx2", "paramiko"}
HTTP_PLUMBING = {"hermes.plumbing.http_client", "hermes.plumbing.http_server"}
MAY_REACH_OUT = {
    "environments/": "the places themselves",
    "models/": "talks to providers of models and to nobody else",
    "gym/": "breaks and fixes its own throw-away boxes",
    "cli/": "what a person types is theirs to decide: updates, log-ins, a pager",
    "plumbing/": "the HTTP client and server, for those listed here",
    "skills/exchange/index.py": "fetches what a person names; what it is, is scanned",
    "skills/exchange/publish_server.py": "serves what a person publishes, and runs nothing",
    "memory/postgres/": "the journal's own connection",
    "web/": "listens for people and machines; what they want takes the road",
    "gateway/": "talks to people on their channels",
    "app/service/": "installs the watch where a person asked for it; tells its manager it is up",
    "policy/audit/signer.py": "signs in a child process with a fixed program",
    "integrations/browser/": "the browser of tools, which only the executor calls",
    "integrations/pictures/": "asks the service for pictures that the settings name",
    "app/tools/model_tools.py": "a tool, which only the executor calls; fetches its picture",
    "skills/hub/client.py": "reads hubs of the settings when a person asks; what comes is scanned",
    "integrations/speech/": "sends audio and text to the engine that the settings name",
    "integrations/mcp/": "talks to servers that a person reviewed, and offers ours to programs",
    "integrations/otlp/collector.py": "sends spans to the collector that the settings name",
    "integrations/web/": "what `web_search` and `web_extract` do, which only the executor calls",
    "tools/request_tool.py": "a tool, which only the executor calls; asks configured systems",
    "sre/prometheus.py": "asks the Prometheus that the settings name, and only asks",
}


def touches(tree: ast.Module) -> list[str]:
    """Calls such as `environment.run(...)`, whatever the environment hangs on."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if node.func.attr in TOUCHES and name in PLACES:
            found.append(f"{name}.{node.func.attr}, line {node.lineno}")
    return found


def imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


PARSERS_ONLY = {"urllib.parse", "http.cookies"}


def reaches_out(tree: ast.Module) -> set[str]:
    named = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    harmless = {each.partition(".")[0] for each in named & PARSERS_ONLY}
    return (imports(tree) & BY_ITSELF) - harmless | named & HTTP_PLUMBING


def excused(name: str, exceptions: Mapping[str, str]) -> bool:
    return any(
        name == each or (each.endswith("/") and name.startswith(each)) for each in exceptions
    )


def test_only_tools_run_commands_and_write_files_in_a_place() -> None:
    found = {name: touched for name, tree in modules() if (touched := touches(tree))}
    strangers = {name: lines for name, lines in found.items() if not excused(name, MAY_TOUCH)}
    assert strangers == {}, "commands reach a place through tools/executor.py"
    unused = {each for each in MAY_TOUCH if not any(excused(name, {each: ""}) for name in found)}
    assert unused <= {"gym/", "skills/compiler/"}, "an exception nobody needs any more"


def test_nobody_reaches_the_world_by_themselves() -> None:
    found = {name: used for name, tree in modules() if (used := reaches_out(tree))}
    strangers = {name: used for name, used in found.items() if not excused(name, MAY_REACH_OUT)}
    assert strangers == {}, "through an Environment, or with a reason in MAY_REACH_OUT"


def test_tools_write_no_files_of_this_machine() -> None:
    """A file that a tool changes is in the place where commands run, never simply here."""
    verbs = {"write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "symlink_to"}
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        if name.startswith("tools/") and not name.startswith("tools/environment_programs/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in verbs
    ]
    assert found == []


def test_the_checks_of_the_source_can_fail() -> None:
    bad = ast.parse("import subprocess\nasync def f(c): await c.environment.run('x')")
    assert touches(bad) == ["environment.run, line 2"]
    assert reaches_out(bad) == {"subprocess"}


def test_the_executor_has_one_place_where_a_tool_is_called() -> None:
    text = inspect.getsource(__import__("hermes.tools.executor", fromlist=["Executor"]))
    calls = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tool"
    ]
    assert len(calls) == 1


async def test_code_and_subagents_take_the_same_road(home: Path) -> None:
    """Inner calls of code, and what a subagent does, are decided one by one."""
    work = home.parent / "work"
    inner = "terminal('rm -rf ' + 'precious')"
    calls = [
        {"id": "c1", "name": "execute_code", "arguments": {"code": inner}},
        {"id": "c2", "name": "delegate", "arguments": {"tasks": [{"goal": "tidy up"}]}},
        {"id": "c3", "name": "terminal", "arguments": {"command": "rm -rf precious"}},
    ]
    loaded = settings(home, calls)
    script = home.parent / "script.jsonl"
    script.write_text(script.read_text() + json.dumps({"text": "done"}) + "\n")
    (work / "precious").mkdir()
    asked: list[Action] = []

    async def only_code(action: Action, decision: Decision) -> Approval:
        asked.append(action)
        return Approval(approved=action.call.name == "execute_code", by="test")

    async with open_application(loaded, directory=work, approver=only_code) as house:
        conversation = await house.begin()
        await conversation.say("go")
    assert [(each.call.name, each.origin) for each in asked] == [
        ("execute_code", "cli"),
        ("terminal", "cli"),
        ("terminal", "subagent"),
    ]
    assert (work / "precious").exists()
    assert asked[1].run + "/sub-1" == asked[2].run


def test_arguments_that_do_not_fit_are_said_to() -> None:
    with pytest.raises(ToolError):
        tools_of()["terminal"].validate({"comand": "ls"})  # type: ignore[attr-defined]
