"""A guard of the tiers `unit` and `corpus`: a test of them that starts a program fails.

Such a test depends on the load of the machine, but tests of these tiers are never repeated. Only
the interpreter sees every start: those of fixtures, of threads and of libraries too.
"""

import os
import platform
import sys
from collections.abc import Generator

import pytest

PROGRAM_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.system", "os.exec"})
FORK_EVENTS = frozenset({"os.fork", "os.forkpty"})
TIERS_WITHOUT_PROGRAMS = frozenset({"unit", "corpus"})


class ProgramStartLog:
    """The programs that were started while a test of these tiers ran. An audit hook stays for the
    life of its process, so there is one log."""

    def __init__(self) -> None:
        self.programs: list[str] = []
        self.open = False

    def record(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.open:
            return
        if event in PROGRAM_EVENTS:
            self.programs.append(_text(arguments[0]))
        elif event in FORK_EVENTS:
            self.programs.append("a copy of its own process")


def _text(program: object) -> str:
    return os.fsdecode(program) if isinstance(program, str | bytes | os.PathLike) else str(program)


platform.processor()  # starts `uname` once in a process, for whichever library asks first
LOG = ProgramStartLog()
sys.addaudithook(LOG.record)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _without_programs(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _without_programs(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _without_programs(item))


def _without_programs(item: pytest.Item) -> Generator[None, object, object]:
    LOG.programs.clear()
    LOG.open = not TIERS_WITHOUT_PROGRAMS.isdisjoint(mark.name for mark in item.iter_markers())
    try:
        result = yield
    finally:
        LOG.open = False
    if LOG.programs:
        names = ", ".join(dict.fromkeys(LOG.programs))
        pytest.fail(
            f"starts {names}: give the file or the test a tier in tests/tiers.py", pytrace=False
        )
    return result
