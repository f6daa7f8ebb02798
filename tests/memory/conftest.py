"""One PostgreSQL server for the whole session, started by the first test that wants it; the same
for the interpreter that processes of tests are forked from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_postgres import Installation, Server, installed, running

from warm_interpreter import WarmInterpreter, warm_interpreter


@pytest.fixture(scope="session")
def store_processes() -> Iterator[WarmInterpreter]:
    with warm_interpreter(Path(__file__).with_name("store_process.py")) as python:
        yield python


@pytest.fixture(scope="session")
def postgres_programs() -> Iterator[Installation]:
    with installed() as installation:
        yield installation


@pytest.fixture(scope="session")
def postgres(postgres_programs: Installation) -> Iterator[Server]:
    with running(postgres_programs) as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of an empty database."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def own_server(postgres_programs: Installation) -> Iterator[Server]:
    """A server that a test may kill, freeze or break."""
    with running(postgres_programs) as server:
        yield server
