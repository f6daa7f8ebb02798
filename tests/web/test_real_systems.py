"""The bundled toolset `prometheus` against a real Prometheus, Alertmanager and VictoriaMetrics."""

import shutil
import time
import urllib.request
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from monitors import LOCAL, MISSING, Monitors, answers, fetch, free, monitors, running, until

from hermes.app.systems import BUNDLED_TOOLS_FOLDER
from hermes.core.bus import Bus
from hermes.core.errors import ToolError
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Tool, ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.plumbing.addresses import guard_for
from hermes.sre.system_questions import METRIC_QUERIES
from hermes.tools.request_tool import SystemEndpoint
from hermes.tools.yaml_tools import load_tool_folder

pytestmark = pytest.mark.anyio
VICTORIA = "victoria-metrics"


class Asker:
    """Calls the tools of one address."""

    def __init__(self, tools: dict[str, Any], context: ToolContext) -> None:
        self._tools, self._context = tools, context

    async def __call__(self, name: str, /, **arguments: Any) -> str:
        tool: Tool = self._tools[name]
        return await tool(self._context, arguments)


def tools_for(**urls: str) -> dict[str, Any]:
    endpoints = {
        name: SystemEndpoint(name=name, url=url, guard=guard_for(urls.values()))
        for name, url in urls.items()
    }
    loaded = load_tool_folder(BUNDLED_TOOLS_FOLDER, systems=endpoints, only=("prometheus",))
    assert not loaded.problems
    return dict(loaded.tools)


def context(folder: Path) -> ToolContext:
    async def nothing(call: ToolCall) -> ToolResult:
        raise AssertionError

    return ToolContext(
        run="run",
        environment=LocalEnvironment(folder, {}),
        publish=Bus(InMemoryJournal()).publish,
        call=nothing,
        artifacts=FileArtifacts(folder / "artifacts"),
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitors]:
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    with monitors(tmp_path_factory.mktemp("monitors")) as made:
        made.measure(orders=700, mails=3)
        until(lambda: "orders" in made.known_to_alertmanager(), made.folder)
        yield made


@pytest.fixture
async def ask(world: Monitors, tmp_path: Path) -> AsyncGenerator[Asker, None]:
    tools = tools_for(prometheus=world.prometheus, alertmanager=world.alertmanager)
    yield Asker(tools, context(tmp_path))


async def test_metrics_are_read(ask: Asker) -> None:
    text = await ask("prometheus_query", query="shop_queue_length")
    assert "2 series" in text
    assert "queue=orders: 700" in text and "queue=mails: 3" in text
    ranged = await ask("prometheus_query_range", query="shop_queue_length", start="now-5m")
    assert "last 700" in ranged and "artifact" in ranged
    assert "queue=orders" in await ask("prometheus_series", match="shop_queue_length")
    assert "queue" in await ask("prometheus_labels")
    assert "mails, orders" in await ask("prometheus_labels", label="queue")
    assert "host" in await ask("prometheus_targets", state="up")
    assert await ask("prometheus_targets", state="down") == "nothing found"
    assert "QueueStuck | firing" in await ask("prometheus_rules", state="firing")


async def test_the_fixed_queries_of_investigations_are_understood(ask: Asker) -> None:
    found = {}
    for each in METRIC_QUERIES:
        found[each.name] = await ask("prometheus_query", query=each.query)
    assert "alertname=QueueStuck" in found.pop("alerts that fire in Prometheus")
    assert set(found.values()) == {"no series match"}


async def test_what_prometheus_refuses_is_told(ask: Asker) -> None:
    with pytest.raises(ToolError, match=r"it answers 400 .*parse error"):
        await ask("prometheus_query", query="up{")
    assert await ask("prometheus_query", query="nothing_there") == "no series match"
    with pytest.raises(ToolError, match="start must be before end"):
        await ask("prometheus_query_range", query="up", start="now", end="now-1h")


async def test_an_alert_is_silenced_and_the_silence_is_undone(world: Monitors, ask: Asker) -> None:
    assert "QueueStuck | active" in await ask("alertmanager_alerts", filter=["queue=orders"])
    matchers = ["alertname=QueueStuck", "queue=orders"]
    said = await ask("alertmanager_silence", matchers=matchers, minutes=5, reason="being fixed")
    assert "[to undo: alertmanager_unsilence" in said
    [silence] = fetch(f"{world.alertmanager}/api/v2/silences")
    assert silence["comment"] == "being fixed"
    until(partial(suppressed, world), world.folder)
    assert "QueueStuck | suppressed" in await ask("alertmanager_alerts")
    await ask("alertmanager_unsilence", id=silence["id"])
    [ended] = fetch(f"{world.alertmanager}/api/v2/silences")
    assert ended["status"]["state"] == "expired"


def suppressed(world: Monitors) -> bool:
    alerts = fetch(f"{world.alertmanager}/api/v2/alerts")
    return any(each["status"]["state"] == "suppressed" for each in alerts)


def send(url: str, text: str) -> None:
    urllib.request.urlopen(url, text.encode(), timeout=5).close()


@pytest.mark.skipif(not shutil.which(VICTORIA), reason=f"not installed: {VICTORIA}")
async def test_victoria_metrics_is_asked_the_same_way(tmp_path: Path) -> None:
    [port] = free(1)
    url = f"http://{LOCAL}:{port}"
    command = [
        VICTORIA,
        f"-storageDataPath={tmp_path / 'data'}",
        f"-httpListenAddr={LOCAL}:{port}",
        "-search.latencyOffset=0s",
    ]
    with running(command, tmp_path / "victoria.log"):
        until(partial(answers, f"{url}/health"), tmp_path)
        now_ms = int(time.time() * 1000)
        lines = "".join(f'disk_used{{host="db"}} {n} {now_ms - n * 1000}\n' for n in range(30))
        send(f"{url}/api/v1/import/prometheus", lines)
        until(
            lambda: bool(fetch(f"{url}/api/v1/query?query=disk_used")["data"]["result"]), tmp_path
        )
        asker = Asker(tools_for(prometheus=url), context(tmp_path))
        assert "host=db" in await asker("prometheus_query", query="disk_used")
        ranged = await asker("prometheus_query_range", query="disk_used", start="now-2m")
        assert "1 series" in ranged and "last " in ranged
        assert "db" in await asker("prometheus_labels", label="host")
        for each in METRIC_QUERIES:
            assert await asker("prometheus_query", query=each.query) == "no series match"
        with pytest.raises(ToolError, match="it answers 4"):
            await asker("prometheus_query", query="disk_used{")
