"""Requests that users made are repeated on a copy: some faults do not show without them."""

from hermes.app.copies.copied_checks import MAX_REQUESTS, users_requests

LOG = """\
2026-11-18 06:05:24 INFO  listening on 127.0.0.1:3346
2026-11-18 06:05:24 INFO  GET /items?page=2 200
10.0.0.1 - - "HEAD /health HTTP/1.1" 200
10.0.0.1 - - "POST /orders HTTP/1.1" 201
"""


def test_only_requests_that_read_are_repeated() -> None:
    script = users_requests({3346: LOG})
    asked = [line.split()[-2] for line in script.splitlines() if line.startswith("curl")]
    assert asked == ["'http://127.0.0.1:3346/items?page=2'", "http://127.0.0.1:3346/health"]
    assert script.endswith("wait")


def test_the_last_ones_a_few_at_a_time() -> None:
    script = users_requests({80: "".join(f"GET /{n} 200\n" for n in range(100))})
    assert script.count("curl") == MAX_REQUESTS
    assert "/99 " in script
    assert "/59 " not in script
    assert script.count("wait") == 5


def test_without_requests_there_is_no_script() -> None:
    assert not users_requests({80: "started\n"})
