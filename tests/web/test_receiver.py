"""The receiver over real sockets, with a real journal."""

import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from monitors import answers, free, held, running, until
from test_reading_alerts import alert, payload

from hermes.app.journal.upkeep import JournalMonitor
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events import DURABLE_KINDS
from hermes.core.events.incidents import AlertRaised
from hermes.core.protocols import Journal
from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.web.alert_server import WatchStatus, serve_alerts
from hermes.web.settings import WebSettings

pytestmark = pytest.mark.anyio
TOKEN = "s3cret-of-the-tests"


@dataclass(frozen=True)
class ReceiverSetup:
    port: int
    journal: Journal

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back until the other side is done."""
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send(data)
            return await drained(stream)

    async def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, Any]:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = [f"{method} {path} HTTP/1.1", "host: x", "connection: close", *lines]
        if body:
            head.append(f"content-length: {len(body)}")
        answer = await self.raw("\r\n".join([*head, "", ""]).encode() + body)
        top, _, text = answer.partition(b"\r\n\r\n")
        plain = b"text/plain" in top
        return int(top.split()[1]), text.decode() if plain else json.loads(text or b"null")

    async def alerts(self) -> list[AlertRaised]:
        read = self.journal.read(kinds=["alert.raised"])
        return [each.event async for each in read if isinstance(each.event, AlertRaised)]


async def drained(stream: anyio.abc.ByteReceiveStream) -> bytes:
    found = b""
    with anyio.fail_after(120):
        while True:
            try:
                found += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return found


@asynccontextmanager
async def open_receiver(
    folder: Path, *, token: str = "", watched: WatchStatus | None = None, **settings: Any
) -> AsyncGenerator[ReceiverSetup, None]:
    chosen = WebSettings(port=0, **settings)
    opening = SqliteJournal.open(folder / "journal.db", timeout_s=0.2)
    async with opening as journal, anyio.create_task_group() as group:
        serve = partial(serve_alerts, Bus(journal), chosen, token=token, watch=watched)
        address = await group.start(serve)
        yield ReceiverSetup(int(address.rpartition(":")[2]), journal)
        group.cancel_scope.cancel()


async def test_a_payload_is_in_the_journal_when_the_sender_hears_yes(tmp_path: Path) -> None:
    assert "alert.raised" in DURABLE_KINDS
    async with open_receiver(tmp_path) as web:
        status, said = await web.ask("POST", "/alerts", payload(alert(), alert(labels=3), alert()))
        assert status == 200 and said["accepted"] == 2
        assert said["refused"][0].startswith("alerts[1]")
        async with SqliteJournal.open(tmp_path / "journal.db") as other:
            assert await other.last() == 2
        status, said = await web.ask("POST", "/alerts/generic", b'{"title": "by hand"}')
        assert (status, said["accepted"]) == (200, 1)
        assert [each.title for each in await web.alerts()][-1] == "by hand"


async def test_a_store_that_fails_makes_the_sender_try_again(tmp_path: Path) -> None:
    async with open_receiver(tmp_path) as web:
        with held(tmp_path / "journal.db"):
            status, said = await web.ask("POST", "/alerts", payload(alert()))
            assert status == 503 and "send it again" in said["error"]
            status, said = await web.ask("GET", "/healthz")
            assert status == 503 and "rejected alerts" in said["wrong"][0]
            assert (await web.ask("GET", "/readyz"))[0] == 503
        assert (await web.ask("POST", "/alerts", payload(alert())))[0] == 200
        assert await web.ask("GET", "/healthz") == (
            200,
            {"ok": True, "wrong": [], "heartbeat": None},
        )
        assert await web.ask("GET", "/readyz") == (200, {"ok": True, "wrong": []})
        assert len(await web.alerts()) == 1


async def test_an_alert_that_is_held_in_memory_is_taken_and_said_not_to_be_stored(
    tmp_path: Path,
) -> None:
    (tmp_path / "home").write_text("a file where the home directory should be")
    async with (
        BufferedJournal.open(tmp_path / "home" / "journal.db") as journal,
        anyio.create_task_group() as group,
    ):
        keeper = JournalMonitor(journal)
        watched = WatchStatus(gauges=keeper.gauges)
        serve = partial(serve_alerts, Bus(journal), WebSettings(port=0), watch=watched)
        web = ReceiverSetup(int((await group.start(serve)).rpartition(":")[2]), journal)
        status, said = await web.ask("POST", "/alerts", payload(alert()))
        assert (status, said["accepted"], said["stored"]) == (202, 1, False)
        status, said = await web.ask("GET", "/healthz")
        assert status == 503 and "continues in memory" in said["wrong"][0]
        _, text = await web.ask("GET", "/metrics")
        assert {"hermes_journal_writable 0", "hermes_journal_held_events 2"} <= set(
            text.splitlines()
        )
        (tmp_path / "home").unlink()
        assert await journal.retry_write()
        status, said = await web.ask("POST", "/alerts", payload(alert()))
        assert status == 200 and "stored" not in said
        assert (await web.ask("GET", "/healthz"))[0] == 200
        assert len(await web.alerts()) == 2
        group.cancel_scope.cancel()


async def test_a_later_event_of_anybody_is_the_all_clear(tmp_path: Path) -> None:
    async with open_receiver(tmp_path) as web:
        with held(tmp_path / "journal.db"):
            await web.ask("POST", "/alerts", payload(alert()))
            assert (await web.ask("GET", "/healthz"))[0] == 503
        assert (await web.ask("GET", "/healthz"))[0] == 503
        await web.journal.append(AlertRaised(run="watch", fingerprint="f", title="t"))
        assert (await web.ask("GET", "/healthz"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/alerts", b"{}", 400, "alerts"),
        ("POST", "/alerts", payload(alert(), version="1"), 400, "version"),
        ("POST", "/alerts", b"", 400, "not an Alertmanager payload"),
        ("POST", "/alerts/generic", b"[]", 400, "not an alert"),
        ("GET", "/alerts", b"", 405, "accepts only POST"),
        ("DELETE", "/metrics", b"", 405, "accepts only GET"),
        ("GET", "/", b"", 404, "/alerts/generic"),
        ("POST", "/alerts", b"x" * 3000, 413, "limited to 2,000 bytes"),
    ],
)
async def test_what_is_refused_is_told_why(
    tmp_path: Path, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    async with open_receiver(tmp_path, largest=2000) as web:
        got, said = await web.ask(method, path, body)
        assert got == status and words in said["error"]
        assert await web.alerts() == []


async def test_a_body_in_pieces_is_counted_too(tmp_path: Path) -> None:
    async with open_receiver(tmp_path, largest=2000) as web:
        head = b"POST /alerts HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        answer = await web.raw(head + b"3e8\r\n" + b"x" * 1000 + b"\r\n" + b"7d0\r\n" + b"x" * 2000)
        assert b" 413 " in answer.split(b"\r\n")[0]
        body = payload(alert())
        piece = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        answer = await web.raw(head.replace(b"host", b"connection: close\r\nhost") + piece)
        assert b" 200 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 40_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    ],
)
async def test_what_is_not_http_ends_the_connection_and_nothing_else(
    tmp_path: Path, data: bytes
) -> None:
    async with open_receiver(tmp_path, patience=1.0) as web:
        assert b"HTTP/1.1 4" in await web.raw(data)
        assert (await web.ask("GET", "/healthz"))[0] == 200


async def test_slow_peers_are_cut_off_and_hold_up_nobody(tmp_path: Path) -> None:
    async with open_receiver(tmp_path, patience=0.5, idle=3) as web:
        head = b"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf"
        slow = [await anyio.connect_tcp("127.0.0.1", web.port) for _ in range(30)]
        for number, stream in enumerate(slow):
            await stream.send((b"", b"POST /al", head)[number % 3] or b"G")
        assert (await web.ask("POST", "/alerts", payload(alert())))[0] == 200
        for stream in slow:
            answer = await drained(stream)
            assert b" 503 " in answer and b"did not arrive within 0.5 seconds" in answer
            await stream.aclose()
        async with await anyio.connect_tcp("127.0.0.1", web.port) as silent:
            assert await drained(silent) == b""


async def test_one_connection_carries_many_requests_also_sent_at_once(tmp_path: Path) -> None:
    async with open_receiver(tmp_path) as web:
        body = payload(alert())
        head = f"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        two = (head + "\r\n").encode() + body
        answer = await web.raw(two * 4 + (head + "connection: close\r\n\r\n").encode() + body)
        assert answer.count(b"HTTP/1.1 200") == 5
        assert len(await web.alerts()) == 5


async def test_a_peer_that_waits_to_be_asked_is_asked(tmp_path: Path) -> None:
    async with open_receiver(tmp_path) as web:
        body = payload(alert())
        head = f"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        async with await anyio.connect_tcp("127.0.0.1", web.port) as stream:
            await stream.send(f"{head}expect: 100-continue\r\n\r\n".encode())
            assert b"100" in await stream.receive()
            await stream.send(body)
            assert b"200" in await stream.receive()


async def test_more_connections_than_allowed_are_told_to_come_again(tmp_path: Path) -> None:
    async with open_receiver(tmp_path, connections=2) as web:
        held_open = [await anyio.connect_tcp("127.0.0.1", web.port) for _ in range(2)]
        for stream in held_open:
            await stream.send(b"GET")
        status, said = await web.ask("GET", "/healthz")
        assert status == 503 and "too many connections" in said["error"]
        for stream in held_open:
            await stream.aclose()
        with anyio.fail_after(120):
            while True:
                if (await web.ask("GET", "/healthz"))[0] == 200:
                    return


async def test_only_those_who_know_the_token_may_raise_alerts(tmp_path: Path) -> None:
    async with open_receiver(tmp_path, token=TOKEN) as web:
        post = partial(web.ask, "POST", "/alerts", payload(alert()))
        for wrong in ("", "Bearer", "Bearer x", f"Bearer {TOKEN}x", f"Token {TOKEN}", "Basic ???"):
            status, said = await post(authorization=wrong)
            assert status == 401 and "token" in said["error"], wrong
        assert (await web.ask("GET", "/metrics"))[0] == 401
        assert (await web.ask("GET", "/healthz"))[0] == 200
        assert await web.alerts() == []
        basic = "YW06czNjcmV0LW9mLXRoZS10ZXN0cw=="  # am:…
        assert (await post(authorization=f"Bearer {TOKEN}"))[0] == 200
        assert (await post(authorization=f"Basic {basic}"))[0] == 200


async def test_a_stranger_cannot_make_us_read_a_body(tmp_path: Path) -> None:
    async with open_receiver(tmp_path, token=TOKEN) as web:
        head = b"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: 16000000\r\n\r\n"
        assert b" 401 " in await web.raw(head)


async def test_a_web_page_cannot_raise_alerts_on_the_loopback_address(tmp_path: Path) -> None:
    async with open_receiver(tmp_path) as web:
        body = b'{"title": "from a page"}'
        got = await web.ask("POST", "/alerts/generic", body, origin="http://evil.example")
        assert got[0] == 403
        assert await web.alerts() == []


async def test_a_token_of_the_api_counts_with_its_right(tmp_path: Path) -> None:
    rights = {"sender": ("alert",), "reader": ("read", "chat")}

    async def token_rights(token: str) -> tuple[str, ...]:
        return rights.get(token, ())

    status = WatchStatus(token_rights=token_rights)
    async with open_receiver(tmp_path, token=TOKEN, watched=status) as web:
        for token, posted, read in (("sender", 200, 401), ("reader", 401, 200), ("x", 401, 401)):
            sent = await web.ask(
                "POST", "/alerts", payload(alert()), authorization=f"Bearer {token}"
            )
            assert sent[0] == posted, token
            shown = await web.ask("GET", "/metrics", authorization=f"Bearer {token}")
            assert shown[0] == read, token


async def test_a_token_is_needed_where_others_can_reach_us(tmp_path: Path) -> None:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        for listen in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
            with pytest.raises(SettingsError, match="HERMES_WEB_TOKEN"):
                await serve_alerts(Bus(journal), WebSettings(listen=listen))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(SettingsError, match=f"port {port}"):
                await serve_alerts(Bus(journal), WebSettings(port=port))
        with pytest.raises(SettingsError, match="port 99999"):
            await serve_alerts(Bus(journal), WebSettings(port=99999))


async def test_running_out_of_file_descriptors_is_no_end(tmp_path: Path) -> None:
    (port,) = free(1)
    process = Path(__file__).parent / "receiver_process.py"
    command = [sys.executable, str(process), str(tmp_path / "journal.db"), str(port), ""]
    few = ["bash", "-c", 'ulimit -n 40; exec "$@"', "few", *command]
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        web = ReceiverSetup(port, journal)
        with running(few, tmp_path / "log"):
            until(partial(answers, f"http://127.0.0.1:{port}/healthz"), tmp_path)
            crowd = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(100)]
            for stream in crowd:
                await stream.aclose()
            with anyio.fail_after(120):
                assert (await web.ask("POST", "/alerts", payload(alert())))[0] == 200
            assert len(await web.alerts()) == 1


async def test_metrics_tell_what_came_and_what_is_open(tmp_path: Path) -> None:
    watched = WatchStatus(open_incidents=lambda: {"P0": 1, "P2": 3})
    async with open_receiver(tmp_path, watched=watched, largest=5000) as web:
        await web.ask(
            "POST", "/alerts", payload(alert(), alert(status="resolved"), alert(labels=1))
        )
        await web.ask("POST", "/alerts", b"{}")
        await web.ask("POST", "/alerts", b"x" * 6000)
        await web.ask("GET", "/made/up")
        status, text = await web.ask("GET", "/metrics")
    assert status == 200
    lines = set(text.splitlines())
    assert {
        'hermes_alerts_received_total{source="alertmanager",status="firing"} 1',
        'hermes_alerts_received_total{source="alertmanager",status="resolved"} 1',
        'hermes_alerts_refused_total{reason="malformed"} 2',
        'hermes_http_requests_total{path="/alerts",code="413"} 1',
        'hermes_http_requests_total{path="other",code="404"} 1',
        'hermes_alert_write_seconds_bucket{le="+Inf"} 1',
        "hermes_alert_write_seconds_count 1",
        'hermes_incidents_open{severity="P2"} 3',
    } <= lines
    assert "made" not in text


async def test_a_watch_that_gives_no_sign_of_life_is_not_well(tmp_path: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(seconds=500)
    async with open_receiver(tmp_path, watched=WatchStatus(heartbeat=lambda: long_ago)) as web:
        status, said = await web.ask("GET", "/healthz")
        assert status == 503 and "no heartbeat for 50" in said["wrong"][0]
        assert (await web.ask("HEAD", "/healthz")) == (503, None)


async def test_an_answer_with_a_bug_does_not_end_the_watch(tmp_path: Path) -> None:
    def broken() -> dict[str, int]:
        raise KeyError("P0")

    async with open_receiver(tmp_path, watched=WatchStatus(open_incidents=broken)) as web:
        assert (await web.ask("GET", "/metrics"))[0] == 500
        assert (await web.ask("POST", "/alerts", payload(alert())))[0] == 200


async def test_ten_thousand_alerts_in_one_payload_are_taken(tmp_path: Path) -> None:
    body = payload(*(alert(fingerprint=f"{number:016x}") for number in range(10_000)))
    async with open_receiver(tmp_path) as web:
        assert (await web.ask("POST", "/alerts", body))[1]["accepted"] == 10_000
        assert len({each.fingerprint for each in await web.alerts()}) == 10_000
