"""Background processes by name: told of, limited, and found again after a crash."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.events import Event
from hermes.core.events.tools import ProcessEnded, ProcessMatched, ProcessReported, ProcessStarted
from hermes.core.protocols import BackgroundProcesses, Environment
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry
from hermes.environments.processes.process_tree import process_birth
from hermes.environments.settings import TerminalSettings

pytestmark = pytest.mark.anyio


class Told:
    """What was published."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def publish(self, *events: Event) -> Sequence[int]:
        await anyio.lowlevel.checkpoint()
        self.events += events
        return range(len(events))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type, count: int = 1) -> list[Any]:
        with anyio.fail_after(120):
            while True:
                if len(found := self.of(kind)) >= count:
                    return found
                await anyio.sleep(0.01)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def registry(tmp_path: Path, told: Told) -> AsyncIterator[ProcessRegistry]:
    async with ProcessRegistry(tmp_path, told.publish) as registry:
        yield registry


async def printed(processes: BackgroundProcesses, id: str, what: str) -> str:
    text = ""
    with anyio.fail_after(120):
        while what not in text:
            text += (await processes.poll(id))[1]
            await anyio.sleep(0.005)
    return text


async def test_from_start_to_end(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    view = await registry.start(here, "echo hello; read -r x; echo got $x; exit 3", run="r1")
    assert view.id.startswith("proc_")
    assert (view.status, view.environment, view.run) == ("running", "local", "r1")
    assert await printed(registry, view.id, "hello\n") == "hello\n"
    assert (await registry.poll(view.id))[1] == ""
    await registry.write(view.id, b"word\n")
    done = await registry.wait(view.id, timeout=120)
    assert (done.status, done.exit_code, done.output_bytes) == ("exited", 3, 15)
    assert (await registry.poll(view.id))[1] == "got word\n"
    (ended,) = await told.until(ProcessEnded)
    assert (ended.process, ended.exit_code, ended.reason) == (view.id, 3, "exited")
    assert ended.tail == "hello\ngot word\n"
    assert [event.kind for event in told.events] == ["process.started", "process.ended"]


async def test_runs_are_listed_apart(registry: ProcessRegistry, here: LocalEnvironment) -> None:
    one = await registry.start(here, "sleep 60", run="a")
    two = await registry.start(here, "sleep 60", run="b")
    assert [view.id for view in registry.list()] == [one.id, two.id]
    assert [view.id for view in registry.list("b")] == [two.id]
    await registry.end("a")
    assert [view.status for view in registry.list()] == ["killed", "running"]
    await registry.end("b")


async def test_a_kill_ends_the_tree_and_is_told(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    view = await registry.start(here, "(setsid sleep 60 & echo $!); sleep 60", run="r")
    pid = (await printed(registry, view.id, "\n")).strip()
    killed = await registry.kill(view.id)
    assert killed.status == "killed"
    assert process_birth(int(pid)) == ""
    (ended,) = await told.until(ProcessEnded)
    assert ended.reason == "killed"
    assert (await registry.kill(view.id)).status == "killed"
    with pytest.raises(ToolError, match="has ended"):
        await registry.write(view.id, b"x")


async def test_a_log_is_read_in_pages(registry: ProcessRegistry, here: LocalEnvironment) -> None:
    view = await registry.start(here, "seq 1 1000", run="r")
    await registry.wait(view.id, timeout=120)
    first = await registry.log(view.id, limit=3)
    assert first == "1\n2\n3\n[lines 0–3 of 1000]"
    assert (await registry.log(view.id, offset=500, limit=1)).startswith("501\n")
    assert (await registry.log(view.id, offset=-2)).startswith("999\n1000\n")
    assert (await registry.log(view.id, offset=5000)) == "[lines 1000–1000 of 1000]"


async def test_the_buffer_rolls(tmp_path: Path, here: LocalEnvironment, told: Told) -> None:
    settings = TerminalSettings(process_buffer_kb=4)
    async with ProcessRegistry(tmp_path, told.publish, settings=settings) as registry:
        view = await registry.start(here, "seq 1 100000; echo end", run="r")
        done = await registry.wait(view.id, timeout=120)
        assert done.output_bytes == 588_899
        _, text = await registry.poll(view.id)
        assert text.startswith("[… 584,803 bytes left out …]\n")
        assert text.endswith("100000\nend\n")
        assert "bytes before them are gone" in await registry.log(view.id)


async def test_a_wait_is_clamped_and_can_be_interrupted(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    settings = TerminalSettings(max_wait=0.2)
    async with ProcessRegistry(tmp_path, told.publish, settings=settings) as registry:
        view = await registry.start(here, "sleep 60", run="r")
        with anyio.fail_after(120):
            assert (await registry.wait(view.id, timeout=600)).status == "running"
        with anyio.move_on_after(0.05) as interrupted:
            await registry.wait(view.id, timeout=600)
        assert interrupted.cancelled_caught
        assert (await registry.kill(view.id)).status == "killed"


async def test_there_is_a_limit_to_their_number(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    settings = TerminalSettings(max_processes=2)
    async with ProcessRegistry(tmp_path, told.publish, settings=settings) as registry:
        for _ in range(2):
            await registry.start(here, "sleep 60", run="r")
        with pytest.raises(ToolError, match="kill one"):
            await registry.start(here, "sleep 60", run="r")
        await registry.kill(registry.list()[0].id)
        await registry.start(here, "sleep 60", run="r")
        await registry.end("r")


async def test_one_that_is_too_old_is_ended(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    settings = TerminalSettings(max_process_age=0.2)
    async with ProcessRegistry(tmp_path, told.publish, settings=settings) as registry:
        view = await registry.start(here, "echo hi; sleep 60", run="r")
        done = await registry.wait(view.id, timeout=120)
        assert done.status == "expired"
    (ended,) = told.of(ProcessEnded)
    assert ended.reason == "expired"
    assert ended.tail.startswith("hi\n")


async def test_watched_words_are_told_and_a_chatty_one_does_not_flood(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    view = await registry.start(
        here,
        "for i in $(seq 2000); do echo \"ERROR number $i\"; done; printf 'no end: ready on 80'",
        run="r",
        watch=["ERROR", "ready*80", "never"],
    )
    await registry.wait(view.id, timeout=120)
    await told.until(ProcessEnded)
    assert [(match.pattern, match.line) for match in told.of(ProcessMatched)] == [
        ("ERROR", "ERROR number 1"),
        ("ready*80", "no end: ready on 80"),
    ]


async def test_a_running_process_is_reported_in_intervals(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    settings = TerminalSettings(min_check_interval=0.05)
    async with ProcessRegistry(tmp_path, told.publish, settings=settings) as registry:
        view = await registry.start(here, "echo begun; read -r x", run="r", check_interval=0.01)
        await printed(registry, view.id, "begun")
        reported = await told.until(ProcessReported, 3)
        await registry.kill(view.id)
        await told.until(ProcessEnded)
    assert "".join(each.output for each in reported) == "begun\n", "each line once"
    assert {each.process for each in reported} == {view.id}
    assert isinstance(told.events[-1], ProcessEnded), "nothing is reported after its end"


async def test_nothing_is_reported_while_its_end_is_still_being_published(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    async def publish(*events: Event) -> Sequence[int]:
        numbers = await told.publish(*events)
        if any(isinstance(each, ProcessEnded) for each in events):
            await anyio.sleep(0.2)  # the journal has it, and the bus has not returned yet
        return numbers

    settings = TerminalSettings(min_check_interval=0.05)
    async with ProcessRegistry(tmp_path, publish, settings=settings) as registry:
        view = await registry.start(here, "read -r x", run="r", check_interval=0.01)
        await told.until(ProcessReported)
        await registry.kill(view.id)
        await registry.wait(view.id, timeout=120)
    assert isinstance(told.events[-1], ProcessEnded)


async def test_without_an_interval_nothing_is_reported(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    view = await registry.start(here, "echo begun", run="r")
    await registry.wait(view.id, timeout=120)
    await told.until(ProcessEnded)
    assert told.of(ProcessReported) == []


async def test_bad_patterns_start_nothing(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    for bad in (["*"], [""], ["x"] * 17):
        with pytest.raises(ToolError):
            await registry.start(here, "sleep 60", run="r", watch=bad)
    assert registry.list() == []
    assert told.events == []


async def test_what_it_does_not_know_is_said(registry: ProcessRegistry) -> None:
    with pytest.raises(ToolError, match="no process 'proc_000000'"):
        await registry.poll("proc_000000")


async def test_an_environment_that_starts_none_is_never_replaced_by_this_machine(
    registry: ProcessRegistry,
) -> None:
    class Remote:
        name, target, isolated = "remote", "far", True

    remote: Environment = Remote()  # type: ignore[assignment]
    with pytest.raises(ToolError, match="remote cannot keep a process"):
        await registry.start(remote, "touch here", run="r")


async def test_many_at_once_are_all_heard(
    registry: ProcessRegistry, here: LocalEnvironment, told: Told
) -> None:
    views = [
        await registry.start(here, f"seq 1 20000; echo done {number}", run="r")
        for number in range(16)
    ]
    for number, view in enumerate(views):
        done = await registry.wait(view.id, timeout=60)
        assert done.output_bytes == 108_894 + len(f"done {number}\n")
    assert {event.process for event in await told.until(ProcessEnded, 16)} == {
        view.id for view in views
    }


async def test_the_checkpoint_is_private_and_shared_by_owners(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    async with (
        ProcessRegistry(tmp_path, told.publish) as one,
        ProcessRegistry(tmp_path, told.publish) as two,
    ):
        await one.start(here, "sleep 60", run="one")
        await two.start(here, "sleep 60", run="two")
        path = tmp_path / "processes.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().count('"handle"') == 2
        assert await two.recover(here) == []  # the first one's owner lives
        await one.end("one")
        await two.end("two")
        assert path.read_text().count('"handle"') == 0


async def test_after_an_orderly_end_the_next_life_goes_on(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    async with ProcessRegistry(tmp_path, told.publish) as first:
        view = await first.start(here, "echo words; sleep 60", run="r", watch=["late"])
        await printed(first, view.id, "words")
    async with ProcessRegistry(tmp_path, told.publish) as second:
        (found,) = await second.recover(here)
        assert found.id == view.id
        assert await printed(second, view.id, "words") == "words\n"
        await second.kill(view.id)


async def test_a_place_that_cannot_be_reached_now_is_tried_again_later(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    class Unreachable(LocalEnvironment):
        async def find(self, handle: str) -> None:
            raise EnvironmentFailed("the line is down")

    async with ProcessRegistry(tmp_path, told.publish) as first:
        view = await first.start(here, "sleep 60", run="r")
    async with ProcessRegistry(tmp_path, told.publish) as second:
        assert await second.recover(Unreachable(tmp_path, {})) == []
        other = await second.start(here, "sleep 60", run="r")
        assert [found.id for found in await second.recover(here)] == [view.id]
        await second.kill(view.id)
        await second.kill(other.id)


async def test_an_error_beside_it_stays_the_error_it_was(tmp_path: Path, told: Told) -> None:
    with pytest.raises(ToolError):
        async with ProcessRegistry(tmp_path, told.publish):
            raise ToolError("from the block")


async def test_a_damaged_checkpoint_is_put_aside(
    tmp_path: Path, here: LocalEnvironment, told: Told
) -> None:
    (tmp_path / "processes.json").write_text('[{"id": ')
    async with ProcessRegistry(tmp_path, told.publish) as registry:
        assert await registry.recover(here) == []
        await registry.start(here, "true", run="r")
        await told.until(ProcessEnded)
    assert (tmp_path / "processes.damaged").read_text() == '[{"id": '


LIFE = """
import os, sys, anyio
from pathlib import Path
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry
home = Path(sys.argv[1])
async def publish(*events): return range(len(events))
async def main():
    place = LocalEnvironment(home, {"PATH": os.environ["PATH"]}, processes=home / "processes")
    async with place, ProcessRegistry(home, publish) as registry:
        going = "echo before; read -r x; echo got $x; exit 5"
        for command in (going, "until [ -e go ]; do sleep 0.01; done; echo bye; exit 6"):
            view = await registry.start(place, command, run="r")
            print(view.id, flush=True)
        pty = await registry.start(place, "sleep 60", run="r", pty=True)
        print(pty.id, flush=True)
        while "before" not in await registry.log(registry.list()[0].id):
            await anyio.sleep(0.01)
        print("ready", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def live_and_crash(home: Path) -> list[str]:
    life = subprocess.Popen(
        [sys.executable, "-c", LIFE, str(home)], stdout=subprocess.PIPE, text=True
    )
    assert life.stdout is not None
    told = [life.stdout.readline().strip() for _ in range(4)]
    life.send_signal(signal.SIGKILL)
    life.wait()
    life.stdout.close()
    assert told.pop() == "ready"
    return told


async def test_after_a_crash_running_ones_are_found_and_dead_ones_reported(
    tmp_path: Path, told: Told
) -> None:
    going, gone, pty = live_and_crash(tmp_path)
    (tmp_path / "go").touch()
    with anyio.fail_after(120):
        while True:
            if list((tmp_path / "processes").glob("*.exit")):
                break
            await anyio.sleep(0.01)

    variables = {"PATH": os.environ["PATH"]}
    place = LocalEnvironment(tmp_path, variables, processes=tmp_path / "processes")
    async with place, ProcessRegistry(tmp_path, told.publish) as registry:
        views = {view.id: view for view in await registry.recover(place)}
        assert set(views) == {going, gone}
        assert views[going].status == "running"
        assert await printed(registry, going, "before") == "before\n"
        await registry.write(going, b"word\n")
        done = await registry.wait(going, timeout=120)
        assert (done.status, done.exit_code) == ("exited", 5)
        assert (await registry.poll(going))[1] == "got word\n"
        ended = {event.process: event for event in await told.until(ProcessEnded, 3)}
    assert (ended[pty].reason, ended[pty].exit_code) == ("lost", None)
    assert (ended[gone].reason, ended[gone].exit_code) == ("exited", 6)
    assert ended[gone].tail == "bye\n"
    assert told.of(ProcessStarted) == []
    assert list((tmp_path / "processes").iterdir()) == []
    assert (tmp_path / "processes.json").read_text() == "[]"
