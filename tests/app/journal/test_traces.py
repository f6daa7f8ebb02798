"""Traces reach a collector at least once and without secrets, whatever fails in between."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermes.app.journal.traces import (
    TraceExporter,
    TraceReader,
    read_run_spans,
    traces_address,
)
from hermes.app.run_locks import RunLocks
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.incidents import IncidentClosed, IncidentOpened, PhaseEntered
from hermes.core.events.runs import ModelAnswered, RunStarted, TurnEnded, TurnStarted
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import ToolCall, ToolResult, Usage
from hermes.integrations.otlp.collector import CollectorUnavailable
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio
SPAN_KEYS = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano"}
SPAN_KEYS |= {"endTimeUnixNano", "attributes", "events", "status"}
VALUES = {"stringValue": str, "intValue": str, "doubleValue": float, "boolValue": bool}
SECRET = "tok-Zx81kQpVw93mBd55"


class Collector:
    """Takes only what the OTLP specification allows, and answers as it is told."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.spans: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.problems: list[str] = []

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        self.headers.append(headers)
        if path != "/v1/traces" or headers.get("content-type") != "application/json":
            self.problems.append(f"{path} {headers}")
        status, text = self.answers.pop(0) if self.answers else (200, b"{}")
        if status == 200:
            for held in json.loads(body)["resourceSpans"]:
                names = {each["key"] for each in held["resource"]["attributes"]}
                assert {"service.name", "service.version"} <= names
                for scoped in held["scopeSpans"]:
                    self.spans += map(self.checked, scoped["spans"])
        return status, text

    def checked(self, span: dict[str, Any]) -> dict[str, Any]:
        wrong = set(span) - SPAN_KEYS
        if wrong or not re.fullmatch("[0-9a-f]{32}", span["traceId"]):
            self.problems.append(f"span {wrong} {span}")
        for id in (span["spanId"], span.get("parentSpanId", "0" * 16)):
            if not re.fullmatch("[0-9a-f]{16}", id):
                self.problems.append(f"id {id!r}")
        if not int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]):
            self.problems.append("it ends before it begins")
        for attribute in (
            *span["attributes"],
            *(a for e in span["events"] for a in e["attributes"]),
        ):
            ((kind, value),) = attribute["value"].items()
            if not isinstance(value, VALUES[kind]):
                self.problems.append(f"{attribute}")
        return span

    def named(self, name: str) -> dict[str, Any]:
        (found,) = [each for each in self.spans if each["name"] == name]
        return found


@contextmanager
def listening(collector: Collector) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {key.lower(): value for key, value in self.headers.items()}
            status, text = collector.take(self.path, headers, body)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def loaded(collector: Collector, tmp_path: Path) -> Iterator[LoadedSettings]:
    with listening(collector) as url:
        overrides = {"otlp.url": url, "otlp.token_variable": "OTLP_TOKEN"}
        yield load(home=tmp_path, variables={"OTLP_TOKEN": SECRET}, overrides=overrides)


def exporter(loaded: LoadedSettings, journal: InMemoryJournal) -> TraceExporter:
    return TraceExporter(loaded, Bus(journal), RunLocks(loaded.home / "locks"))


async def begun(loaded: LoadedSettings) -> InMemoryJournal:
    journal = InMemoryJournal()
    await exporter(loaded, journal).send_due()  # traces begin here
    return journal


def call(run: str, id: str, command: str = "df") -> ToolRequested:
    requested = ToolCall(id, "terminal", {"command": command})
    return ToolRequested(run=run, call=requested, command=command)


def done(run: str, id: str) -> ToolFinished:
    return ToolFinished(run=run, result=ToolResult(call_id=id, content="ok"))


async def test_an_incident_with_an_investigator_is_one_trace(
    loaded: LoadedSettings, collector: Collector
) -> None:
    journal = await begun(loaded)
    own = {"run": "i", "incident": "i"}
    await journal.append(
        IncidentOpened(**own, title="t", severity="P1"),
        PhaseEntered(**own, phase="investigate"),
        RunStarted(run="i/host", origin="incident", parent="i"),
        TurnStarted(run="i/host", turn=1),
        ModelAnswered(run="i/host", model="big", usage=Usage(5, 1), seconds=0.5),
        call("i/host", "c1", f"curl -H 'authorization: {SECRET}' http://db"),
    )
    first = exporter(loaded, journal)
    assert (await first.send_due()).spans == 1
    await journal.append(
        done("i/host", "c1"),
        TurnEnded(run="i/host", turn=1, outcome="answered"),
        IncidentClosed(**own, outcome="resolved"),
    )
    sent = await exporter(loaded, journal).send_due()  # as after a restart
    assert (sent.spans, sent.problem) == (4, "")
    assert collector.problems == []
    incident, phase = collector.named("incident"), collector.named("phase investigate")
    turn, tool = collector.named("invoke_agent hermes"), collector.named("execute_tool terminal")
    assert len({each["traceId"] for each in collector.spans}) == 1
    assert phase["parentSpanId"] == incident["spanId"] and turn["parentSpanId"] == phase["spanId"]
    assert tool["parentSpanId"] == collector.named("chat big")["parentSpanId"] == turn["spanId"]
    assert SECRET not in json.dumps(collector.spans)
    assert collector.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert (await exporter(loaded, journal).send_due()).spans == 0
    assert len(await read_run_spans(journal, "i")) == 5


async def test_what_could_not_be_sent_is_sent_later_with_the_same_ids(
    loaded: LoadedSettings, collector: Collector
) -> None:
    journal = await begun(loaded)
    await journal.append(call("r", "c1"), done("r", "c1"))
    collector.answers = [(503, b"busy")]
    sender = exporter(loaded, journal)
    with pytest.raises(CollectorUnavailable, match="503: busy"):
        await sender.send_due()
    assert (await sender.send_due()).spans == 1
    assert (await sender.send_due()).spans == 0
    expected = [
        span async for record in journal.read() for span in await TraceReader(journal).read(record)
    ]
    assert [each["spanId"] for each in collector.spans] == [each.id for each in expected]


async def test_what_is_refused_for_good_is_left_out_and_said(
    loaded: LoadedSettings, collector: Collector
) -> None:
    journal = await begun(loaded)
    await journal.append(call("r", "c1"), done("r", "c1"))
    collector.answers = [(400, b'{"message": "bad span"}')]
    sent = await exporter(loaded, journal).send_due()
    assert (sent.spans, sent.refused) == (0, 1) and "400: bad span" in sent.problem
    await journal.append(call("r", "c2"), done("r", "c2"))
    collector.answers = [(200, b'{"partialSuccess": {"rejectedSpans": 1}}')]
    assert "1 spans were rejected" in (await exporter(loaded, journal).send_due()).problem
    assert len(collector.spans) == 1


async def test_the_past_is_not_sent_and_only_one_process_sends(
    loaded: LoadedSettings, collector: Collector
) -> None:
    journal = InMemoryJournal()
    await journal.append(call("r", "c1"), done("r", "c1"))
    assert (await exporter(loaded, journal).send_once()).spans == 0
    holder = RunLocks(loaded.home / "locks")
    holder.acquire("otlp-traces")
    with pytest.raises(SettingsError, match="another process"):
        await exporter(loaded, journal).send_once()
    holder.close()
    assert (await exporter(loaded, journal).send_once()).spans == 0
    assert collector.spans == []


async def test_a_silent_collector_is_unavailable_and_wrong_settings_are_said(
    tmp_path: Path,
) -> None:
    with listening(Collector()) as url:
        pass  # nobody listens there any more
    loaded = load(home=tmp_path, variables={}, overrides={"otlp.url": url})
    journal = await begun(loaded)
    await journal.append(call("r", "c1"), done("r", "c1"))
    with pytest.raises(CollectorUnavailable):
        await exporter(loaded, journal).send_due()
    for wrong, said in (("", "otlp.url"), ("ftp://x", "http://")):
        with pytest.raises(SettingsError, match=said):
            traces_address(wrong)
    without = load(
        home=tmp_path, variables={}, overrides={"otlp.url": url, "otlp.token_variable": "NO_TOKEN"}
    )
    with pytest.raises(SettingsError, match="NO_TOKEN is missing"):
        exporter(without, journal)
    assert traces_address("https://a/v1/traces") == "https://a/v1/traces"
