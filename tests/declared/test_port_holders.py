"""Who holds the port of a service that does not run is found, and no copy has that process."""

import os
import socket

import anyio
import pytest

from hermes.declared.experiments.port_holders import find_port_holders, ports_of_addresses

pytestmark = pytest.mark.anyio


async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
    done = await anyio.run_process(["sh", "-c", script], input=stdin, check=False)
    return done.returncode, done.stdout


def test_the_ports_of_addresses_are_read() -> None:
    addresses = ("127.0.0.1:8000", "http://127.0.0.1:8001/health", "[::1]:8002", "8003", "nginx")
    assert ports_of_addresses(addresses) == [8000, 8001, 8002, 8003]


async def test_the_process_that_listens_is_named_and_a_free_port_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other:
        other.bind(("127.0.0.1", 0))  # bound, and nobody listens
        ports = [server.getsockname()[1], other.getsockname()[1]]
        (found,) = await find_port_holders(run, ports)
    assert found.startswith(f"port {ports[0]} is held by pid {os.getpid()} (")
