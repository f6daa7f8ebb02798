"""The tools of the browser on the whole way: settings, rules, approvals, a real Chromium."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from browser_pages import PageServer, chromium, needs_chromium, page_server, reference

from hermes.app import open_application
from hermes.app.application import Application
from hermes.app.tools.browsers import list_browser_tools
from hermes.core.actions import Action, Approval, Decision
from hermes.core.errors import ToolError
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.integrations.browser.browsers import open_browsers
from hermes.integrations.browser.launch import PROFILE_PREFIX
from hermes.integrations.browser.session import ChromiumSession
from hermes.plumbing.addresses import AddressGuard
from hermes.settings.load import LoadedSettings, load
from hermes.sre.responders.investigation import read_only_executor
from hermes.tools.toolsets import TOOLSETS

pytestmark = [pytest.mark.anyio, pytest.mark.command]

PAGES = {
    "/": """<h1>Service</h1><p id=out>idle</p><a href=/other>Other</a>
        <button onclick="out.textContent='restarted'">Restart web-7</button>
        <input aria-label=Reason oninput="out.textContent=this.value">
        <button onclick="out.textContent=confirm('Sure?') ? 'yes' : 'no'">Ask</button>""",
}


class Answering:
    """A person who answers every question the same way, and remembers them."""

    def __init__(self) -> None:
        self.says = True
        self.asked: list[str] = []

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        request = action.request
        shown = f"{request.method} {request.url} {request.body}" if request else action.call.name
        self.asked.append(shown)
        return Approval(approved=self.says, by="ann")


class Agent:
    def __init__(self, application: Application, person: Answering) -> None:
        self.application, self.person, self._number = application, person, 0

    async def call(self, name: str, run: str = "run-1", **arguments: object) -> ToolResult:
        parts, self._number = self.application.agent_dependencies, self._number + 1

        async def nothing(call: ToolCall) -> ToolResult:
            raise AssertionError("these tools call no others")

        context = ToolContext(
            run=run,
            environment=parts.environment,
            publish=parts.bus.publish,
            call=nothing,
            artifacts=parts.artifacts,
        )
        call = ToolCall(f"call-{self._number}", f"browser_{name}", dict(arguments))
        return await parts.executor.execute(call, context)

    async def ok(self, name: str, run: str = "run-1", **arguments: object) -> str:
        result = await self.call(name, run, **arguments)
        assert result.status == "ok", result.content
        return result.content


def settings(home: Path, *servers: PageServer, **variables: str) -> LoadedSettings:
    opened = [each.address.removeprefix("http://") for each in servers]
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"], **variables},
        overrides={"tools.private_addresses": ",".join(opened)},
    )


@asynccontextmanager
async def agent_with(home: Path, *servers: PageServer, **variables: str) -> AsyncIterator[Agent]:
    person = Answering()
    async with open_application(
        settings(home, *servers, **variables),
        approver=person,
        directory=home.parent,
        toolsets=["browser"],
    ) as application:
        yield Agent(application, person)


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server(PAGES) as made:
        yield made


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Profiles are made in it; their paths must be short."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    folder.rmdir()


def profiles(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PROFILE_PREFIX}*"))


@needs_chromium
async def test_looking_is_free_and_acting_asks_once_for_each_site_and_session(
    tmp_path: Path, server: PageServer
) -> None:
    with page_server(PAGES) as second:
        async with agent_with(tmp_path / "home", server, second) as agent:
            shown = await agent.ok("navigate", url=server.address)
            await agent.ok("snapshot")
            await agent.ok("scroll", direction="down")
            unknown = await agent.call("click", ref="e999")
            assert unknown.status == "error"
            assert "e999 is not on this page" in unknown.content
            assert agent.person.asked == []
            agent.person.says = False
            refused = await agent.call("click", ref=reference(shown, "Restart"))
            assert refused.status == "denied"
            assert agent.person.asked == [f'click {server.address}/ button "Restart web-7"']
            assert "idle" in await agent.ok("snapshot")
            agent.person.says = True
            assert "restarted" in await agent.ok("click", ref=reference(shown, "Restart"))
            assert "maintenance" in await agent.ok(
                "type", ref=reference(shown, "Reason"), text="maintenance"
            )
            await agent.ok("press", key="Tab")
            assert len(agent.person.asked) == 2
            there = await agent.ok("navigate", url=second.address)
            await agent.ok("click", ref=reference(there, "Restart"))
            assert agent.person.asked[2:] == [f'click {second.address}/ button "Restart web-7"']
            other = await agent.ok("navigate", run="run-2", url=server.address)
            await agent.ok("click", run="run-2", ref=reference(other, "Restart"))
            assert len(agent.person.asked) == 4


@needs_chromium
async def test_a_picture_and_the_dismissal_of_a_dialog_need_no_approval(
    tmp_path: Path, server: PageServer
) -> None:
    async with agent_with(tmp_path / "home", server) as agent:
        shown = await agent.ok("navigate", url=server.address)
        seen = await agent.call("vision", question="What does it look like?")
        assert [picture.media for picture in seen.pictures] == ["image/jpeg"]
        assert agent.person.asked == []
        await agent.ok("click", ref=reference(shown, "Ask"))
        agent.person.asked.clear()
        assert "no" in await agent.ok("dialog", accept=False)
        assert agent.person.asked == []
        unknown = await agent.call("press", key="a")
        assert "there is no key 'a'" in unknown.content
        stale = await agent.call("click", ref="e999")
        assert "references end with their page" in stale.content


@needs_chromium
async def test_each_run_has_a_browser_that_ends_with_it(
    tmp_path: Path, server: PageServer, temporary: Path
) -> None:
    async with agent_with(tmp_path / "home", server, TMPDIR=str(temporary)) as agent:
        conversation = await agent.application.begin("look")
        await agent.ok("navigate", run=conversation.run, url=server.address)
        nothing = await agent.call("snapshot", run="another")
        assert "no page is open" in nothing.content
        await agent.ok("navigate", run="another", url=server.address)
        assert len(profiles(temporary)) == 2
        await agent.application.release(conversation.run)
        assert len(profiles(temporary)) == 1
        assert await agent.ok("close", run="another") == "Closed."
        assert profiles(temporary) == []
        await agent.ok("navigate", run="another", url=server.address)
    assert profiles(temporary) == []


@needs_chromium
async def test_an_idle_browser_is_closed_and_the_next_page_starts_another(tmp_path: Path) -> None:
    closed = anyio.Event()

    @asynccontextmanager
    async def start() -> AsyncIterator[ChromiumSession]:
        async with chromium(tmp_path, AddressGuard()) as session:
            yield session
        closed.set()

    async with open_browsers(start, idle_timeout_s=0.01) as browsers:
        first = await browsers.page("run", start=True)
        with anyio.fail_after(60):
            await closed.wait()
        with pytest.raises(ToolError, match="no page is open"):
            await browsers.page("run")
        assert await browsers.page("run", start=True) is not first


async def test_investigators_only_look(tmp_path: Path) -> None:
    async with agent_with(tmp_path / "home") as agent:
        executor = read_only_executor(agent.application.agent_dependencies.executor)
        names = {spec.name for spec in executor.specs}
    looking = {name for name in TOOLSETS["browser"].tools if name in names}
    acting = set(TOOLSETS["browser"].tools) - looking
    assert acting == {"browser_click", "browser_type", "browser_press", "browser_dialog"} or (
        not looking  # there is no Chromium here
    )


async def test_without_a_program_the_tools_say_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    loaded = settings(tmp_path / "home", PATH=str(tmp_path / "bin"))
    needs = {tool.needs.how for tool in list_browser_tools(loaded).values()}
    assert needs == {"sudo apt-get install chromium"}
    wrong = settings(tmp_path / "home", CHROME_PATH=str(tmp_path / "none"))
    async with open_application(wrong, directory=tmp_path, toolsets=["browser"]) as application:
        absent = {each.tool: each.how for each in application.tooling.catalogue.absent}
        assert "CHROME_PATH names no program" in absent["browser_click"]
        why = {each.tool: each.why for each in application.tooling.catalogue.absent}
        assert why["browser_click"] == f"missing: the program {tmp_path / 'none'}"


async def test_nothing_of_the_browser_is_loaded_without_need(tmp_path: Path) -> None:
    script = (
        "import sys, anyio\n"
        "from pathlib import Path\n"
        "from hermes.app import open_application\n"
        "from hermes.settings.load import load\n"
        "async def main():\n"
        "    async with open_application(load(home=Path(sys.argv[1]))) as application:\n"
        "        print([each for each in sys.modules if 'browser' in each])\n"
        "anyio.run(main)\n"
    )
    done = await anyio.run_process([sys.executable, "-c", script, str(tmp_path)])
    assert done.stdout.decode().strip() == "[]"
