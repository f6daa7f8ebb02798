"""Built-in kinds of probes keep the contract that plug-ins are tested with."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.sre.probes.probe import Probe, shell_command_of
from hermes.testing import ProbeKindContract

MadeProbe = Callable[[], tuple[Probe, str]]


def made(probe: Probe) -> MadeProbe:
    return lambda: (probe, shell_command_of(probe))


class TestPort(ProbeKindContract):
    @pytest.fixture
    def server(self) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield server

    @pytest.fixture
    def make_probe(self, server: socket.socket) -> MadeProbe:
        return made(Probe(name="it", kind="port", what=str(server.getsockname()[1])))

    @pytest.fixture
    def break_it(self, server: socket.socket) -> Callable[[], object]:
        return server.close


class TestCommand(ProbeKindContract):
    @pytest.fixture
    def make_probe(self, tmp_path: Path) -> MadeProbe:
        (tmp_path / "there").touch()
        return made(Probe(name="it", kind="command", what=f"test -e {tmp_path}/there"))

    @pytest.fixture
    def break_it(self, tmp_path: Path) -> Callable[[], object]:
        return (tmp_path / "there").unlink
