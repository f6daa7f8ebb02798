"""Probes services of this host without a shell: ports, web pages, redis, PostgreSQL, units."""

import functools
import os
import re
import ssl
import struct
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from urllib.parse import SplitResult, urlsplit

import anyio
from anyio.abc import ByteStream

from hermes.sre.probes.answer_facts import AnswerFacts, describe_answer
from hermes.sre.probes.kinds import services
from hermes.sre.probes.probe import UNKNOWN_EXIT_CODE, Probe

NativeAnswer = tuple[int, str, float | None, str]
"""Exit code, text, value, and what the next run needs, as of a probe in a shell."""
MAX_BODY_BYTES = 262_144
READ_CHUNK_BYTES = 65_536
PROC_NET = Path("/proc/net")
LISTEN_STATE = "0A"
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
MIN_LOOP_RESTARTS = 4
RESTART_WINDOW_S = 60.0
RESTART_QUIET_S = 10.0
"""Seconds without a restart after which the loop is over."""
RESTART_RECHECK_S = 0.7
"""Seconds between the checks after a restart, to detect a loop at once."""
MAX_SOCKETS_AGE_S = 0.1
"""For how long probes share one reading of the listening sockets: each takes milliseconds."""
_STARTUP_VERSION = 196_608
_CANNOT_CONNECT_NOW, _TOO_MANY_CONNECTIONS = "57P03", "53300"
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,NRestarts,MainPID"
MIN_UNIT_AGE_S = 5.0
"""Seconds after a restart before a unit counts as running."""
_CLOCK_TICKS = 100


def error_text(error: Exception) -> str:
    """The innermost cause, with the message of the operating system."""
    cause = error.__cause__
    if isinstance(cause, OSError | ExceptionGroup):
        first = cause.exceptions[0] if isinstance(cause, ExceptionGroup) else cause
        return error_text(first)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


async def probe_port(probe: Probe, before: str) -> NativeAnswer:
    """`before` contains the listeners and when they changed: a service that restarts in a loop
    accepts connections most of the time."""
    host, number, _ = services.parse_address(probe)
    history = ListenerHistory.read(before)
    try:
        async with _connect(host, number):
            pass
    except OSError:
        return 1, f"nothing answers at {host}:{number}", None, before
    if host in LOOPBACK_HOSTS:
        history = history.with_sockets(listener_inodes(number), time.time())
        if history.is_recent(time.time()) and len(history.changes) < MIN_LOOP_RESTARTS:
            for _ in range(MIN_LOOP_RESTARTS):
                await anyio.sleep(RESTART_RECHECK_S)
                history = history.with_sockets(listener_inodes(number), time.time())
    if history.is_loop(time.time()):
        words = f"the listener at {host}:{number} was replaced {len(history.changes)} times"
        return 1, f"{words} within {RESTART_WINDOW_S:g} s", None, history.text()
    return 0, f"{host}:{number} takes connections", None, history.text()


@dataclass(frozen=True)
class ListenerHistory:
    """The listening sockets of a port at the last run, and when they changed."""

    sockets: str = ""
    changes: tuple[float, ...] = ()

    @classmethod
    def read(cls, text: str) -> "ListenerHistory":
        sockets, _, times = text.partition(";")
        try:
            return cls(sockets, tuple(float(each) for each in times.split(",") if each))
        except ValueError:  # written by an earlier version
            return cls()

    def text(self) -> str:
        return f"{self.sockets};{','.join(f'{each:.1f}' for each in self.changes)}"

    def with_sockets(self, sockets: str, now: float) -> "ListenerHistory":
        recent = tuple(each for each in self.changes if now - each < RESTART_WINDOW_S)
        changed = bool(sockets and self.sockets and sockets != self.sockets)
        return ListenerHistory(sockets or self.sockets, (*recent, now) if changed else recent)

    def is_recent(self, now: float) -> bool:
        return bool(self.changes) and now - self.changes[-1] < RESTART_RECHECK_S

    def is_loop(self, now: float) -> bool:
        still = bool(self.changes) and now - self.changes[-1] < RESTART_QUIET_S
        return still and len(self.changes) >= MIN_LOOP_RESTARTS


def listener_inodes(port: int) -> str:
    period = int(time.monotonic() / MAX_SOCKETS_AGE_S)
    return "+".join(sorted(_sockets_in_period(period).get(port, ())))


@functools.lru_cache(maxsize=1)
def _sockets_in_period(period: int) -> dict[int, set[str]]:
    return listening_sockets()


def listening_sockets() -> dict[int, set[str]]:
    """The TCP ports of this host that accept connections, with the inodes of their sockets."""
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = (PROC_NET / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTEN_STATE:
                port = int(fields[1].rpartition(":")[2], 16)
                found.setdefault(port, set()).add(fields[9])
    return found


async def probe_http(probe: Probe) -> tuple[NativeAnswer, AnswerFacts | None]:
    """The result, and what the answer looked like; the body itself is not kept."""
    url, began = probe.what, time.monotonic()
    try:
        status, content_type, body = await _http_get(urlsplit(url))
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, ValueError) as error:
        return (1, f"no answer from {url}: {error_text(error)}", None, ""), None
    took = round(time.monotonic() - began, 6)
    complete = len(body) < MAX_BODY_BYTES
    facts = describe_answer(status, content_type, body, took, complete=complete)
    words = [f"{took:.6f} seconds for status {status} from {url}"]
    if not services.status_matches(probe, status):
        words.append(f"the status is {status}")
    elif probe.contains and probe.contains.encode() not in body:
        words.append(f"the body lacks: {probe.contains}")
    elif probe.limit is not None and took > probe.limit:
        words.append(f"it took longer than {probe.limit:g} s")
    return (int(len(words) > 1), "; ".join(words), took, ""), facts


async def _http_get(at: SplitResult) -> tuple[int, str, bytes]:
    """Status, content type and body. Raises `ValueError` when the answer is not HTTP."""
    tls = at.scheme == "https"
    path = f"{at.path or '/'}{'?' if at.query else ''}{at.query}"
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {at.netloc}\r\nUser-Agent: hermes-probe\r\n"
        "Accept: */*\r\nConnection: close\r\n\r\n"
    )
    async with _connect(at.hostname or "", at.port or (443 if tls else 80), tls=tls) as stream:
        await stream.send(request.encode())
        data = b""
        while b"\r\n\r\n" not in data and len(data) < MAX_BODY_BYTES:
            data += await stream.receive(READ_CHUNK_BYTES)
        head, _, body = data.partition(b"\r\n\r\n")
        protocol, _, rest = head.decode("latin-1").partition(" ")
        if not protocol.startswith("HTTP/") or not rest[:3].isdigit():
            raise ValueError("it does not speak HTTP")
        content_type = re.search(r"(?im)^content-type:[ \t]*([^\r\n]*)", rest)
        body = await _read_body(stream, head.lower(), body)
        return int(rest[:3]), content_type[1] if content_type else "", body


async def _read_body(stream: ByteStream, head: bytes, body: bytes) -> bytes:
    """Read until the end, the stated length, or the maximum."""
    length = MAX_BODY_BYTES
    for line in head.split(b"\r\n"):
        if line.startswith(b"content-length:") and line[15:].strip().isdigit():
            length = min(length, int(line[15:]))
    chunked = b"transfer-encoding: chunked" in head
    while len(body) < length and not (chunked and body.endswith(b"\r\n0\r\n\r\n")):
        try:
            body += await stream.receive(READ_CHUNK_BYTES)
        except anyio.EndOfStream:
            break
    return _join_chunks(body) if chunked else body


def _join_chunks(body: bytes) -> bytes:
    """Join the chunks; an incomplete one ends the body."""
    found = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        try:
            length = int(size.partition(b";")[0], 16)
        except ValueError:
            break
        found += rest[:length]
        body = rest[length + 2 :] if length else b""
    return found


@asynccontextmanager
async def _connect(host: str, port: int, *, tls: bool = False) -> AsyncGenerator[ByteStream, None]:
    """Certificates are not verified here: the kind `tls` does."""
    if tls:
        stream: ByteStream = await anyio.connect_tcp(
            host, port, ssl_context=_unverified_tls_context(), tls_standard_compatible=False
        )
    elif host.startswith("/"):
        stream = await anyio.connect_unix(host)
    else:
        stream = await anyio.connect_tcp(host, port)
    async with stream:
        yield stream


@functools.cache
def _unverified_tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def probe_redis(probe: Probe) -> NativeAnswer:
    socket = probe.what.startswith("/")
    host, port = (
        (probe.what, "0") if socket else services.server_address(probe, "127.0.0.1", "6379")
    )
    try:
        text = await _query_redis(host, int(port))
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        return 1, f"no PONG: {error_text(error)}", None, ""
    first, _, rest = text.partition("\r\n")
    if "NOAUTH" in first:
        return 0, "it answers and asks for a password", None, ""
    if first != "+PONG":
        return 1, f"no PONG: {first.lstrip('-')[:200]}", None, ""
    found = dict(line.partition(":")[::2] for line in rest.split("\r\n"))
    if found.get("master_link_status") == "down":
        return 1, "it is a replica and its master does not answer", None, ""
    max_memory, policy = int(found.get("maxmemory") or 0), found.get("maxmemory_policy", "")
    if max_memory == 0:
        return 0, "PONG", None, ""
    used = 100 * int(found.get("used_memory") or 0) // max_memory
    limit = 95 if probe.limit is None else int(probe.limit)
    words = f"{used} percent of the allowed memory are used ({policy})"
    return int(policy == "noeviction" and used >= limit), words, float(used), ""


async def _query_redis(host: str, port: int) -> str:
    async with _connect(host, port) as stream:
        await stream.send(b"PING\r\nINFO memory\r\nINFO replication\r\nQUIT\r\n")
        data = b""
        while len(data) < MAX_BODY_BYTES:
            try:
                data += await stream.receive(READ_CHUNK_BYTES)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                break
        if not data:
            raise anyio.EndOfStream
        return data.decode(errors="replace")


async def probe_postgres(probe: Probe) -> NativeAnswer:
    """Start a connection and do not finish it, as `pg_isready` does."""
    host, port = services.server_address(probe, "127.0.0.1", "5432")
    at = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else host
    name = f"{host}:{port}"
    try:
        answer = await _query_postgres(at, int(port))
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream):
        return 2, f"{name} - no response", None, ""
    if not answer.startswith((b"R", b"E")):
        return 1, f"{name} does not speak the protocol of PostgreSQL", None, ""
    fields = {each[:1]: each[1:].decode(errors="replace") for each in answer[5:].split(b"\0")}
    code, message = fields.get(b"C", ""), fields.get(b"M", "")
    if answer.startswith(b"E") and code == _CANNOT_CONNECT_NOW:
        return 1, f"{name} - rejecting connections: {message}", None, ""
    if answer.startswith(b"E") and code == _TOO_MANY_CONNECTIONS:
        return 1, f"no connection is left: {message}", None, ""
    return 0, f"{name} - accepting connections", None, ""


async def _query_postgres(host: str, port: int) -> bytes:
    about = b"user\0postgres\0database\0postgres\0application_name\0hermes-probe\0\0"
    async with _connect(host, port) as stream:
        await stream.send(struct.pack("!ii", len(about) + 8, _STARTUP_VERSION) + about)
        return await stream.receive(READ_CHUNK_BYTES)


def units_command(probes: Sequence[Probe]) -> str:
    names = " ".join(quote(probe.what) for probe in probes)
    return f"systemctl show -p {UNIT_PROPERTIES} -- {names} 2>/dev/null"


def judge_units(probes: Sequence[Probe], output: str) -> dict[str, NativeAnswer]:
    """The results by name; empty when the output is incomplete."""
    blocks = [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in output.strip().split("\n\n")
    ]
    if len(blocks) != len(probes) or not all("ActiveState" in each for each in blocks):
        return {}
    return {
        probe.name: _judge_unit(probe, each) for probe, each in zip(probes, blocks, strict=True)
    }


def _judge_unit(probe: Probe, unit: Mapping[str, str]) -> NativeAnswer:
    name, active, result = probe.what, unit["ActiveState"], unit.get("Result", "")
    restarts = unit.get("NRestarts", "")
    count = int(restarts) if restarts.isdigit() else 0
    state = f"{count} restarts; {name} is {active} ({unit.get('SubState', '')})"
    if not unit.get("LoadState"):
        return UNKNOWN_EXIT_CODE, f"no supervisor answers about {name}", None, ""
    if unit["LoadState"] == "not-found":
        return 1, f"{state}; there is no unit {name}", float(count), ""
    if probe.status == "ended-well":
        well = active != "failed" and result == "success"
    else:
        well = active in ("active", "reloading")
    if not well:
        return 1, f"{state}; {name} is {active}, its result is {result}", float(count), ""
    age = (
        _process_age_s(unit.get("MainPID", "0"))
        if count and probe.status != "ended-well"
        else MIN_UNIT_AGE_S
    )
    if age < MIN_UNIT_AGE_S:
        words = f"{state}; {name} was restarted {count} times, the last time {age:.0f} s ago"
        return 1, words, float(count), ""
    return 0, state, float(count), ""


def _process_age_s(pid: str) -> float:
    """0 for a process that has just ended."""
    if not pid.isdigit() or pid == "0":
        return MIN_UNIT_AGE_S
    try:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return uptime - int(fields[19]) / _CLOCK_TICKS
