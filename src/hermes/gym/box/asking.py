"""Questions over a host's network, put as a client would put them, with sockets alone."""

import socket
import sys
import time

LONGEST = 1 << 20


def ask(request: dict[str, object]) -> dict[str, object]:
    """`bytes` are sent to `address`:`port`; what comes back until the end, or `until`, or time."""
    started = time.monotonic()
    timeout = float(str(request.get("timeout", 2.0)))
    address = (str(request.get("address", "127.0.0.1")), int(str(request["port"])))
    try:
        # A number, not a name: looking one up would load modules that lie out of reach by now.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as line:
            line.settimeout(timeout)
            line.connect(address)
            peer: dict[str, object] = {}
            if request.get("tls"):
                line, peer = _behind_tls(line, request)
            payload = request.get("send", b"")
            if isinstance(payload, bytes) and payload:
                line.sendall(payload)
            heard = _hear(line, request.get("until"), started + timeout) if payload else b""
            return {"heard": heard, "seconds": time.monotonic() - started, **peer}
    except TimeoutError:
        return {"error": "timed out", "seconds": time.monotonic() - started}
    except OSError as error:
        return {"error": str(error), "seconds": time.monotonic() - started}


def _hear(line: socket.socket, until: object, deadline: float) -> bytes:
    heard = b""
    while len(heard) < LONGEST:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        piece = line.recv(65536)
        heard += piece
        if not piece or (isinstance(until, bytes) and until in heard) or _complete(heard):
            break
    return heard


def _complete(heard: bytes) -> bool:
    """An HTTP answer that says how long it is need not be waited for any longer."""
    head, gap, body = heard.partition(b"\r\n\r\n")
    if not gap or not head.startswith(b"HTTP/"):
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return False


def _behind_tls(
    line: socket.socket, request: dict[str, object]
) -> tuple[socket.socket, dict[str, object]]:
    ssl = sys.modules["ssl"]  # the warden loaded it before it went where it cannot be found
    context = ssl.create_default_context()
    authority = request.get("authority")
    if isinstance(authority, str) and authority:
        context.load_verify_locations(cadata=authority)
    wrapped = context.wrap_socket(line, server_hostname=str(request.get("name", "localhost")))
    return wrapped, {"certificate": str(wrapped.getpeercert())}
