"""Lines, with a bash of this machine at their far end: what holds for every client program."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import EnvironmentFailed
from hermes.core.protocols import ConfinesCommands
from hermes.environments.remote.channels import ChannelBroken, open_channel
from hermes.environments.remote.client import NEW_NAMES
from hermes.environments.remote.confined import ConfiningRemoteEnvironment
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.remote.scripts import WAIT_FOR_PROGRAM_ARGV, build_program, quote_word
from hermes.environments.settings import TerminalSettings
from hermes.plumbing.renamed import report_renamed

BASH = str(shutil.which("bash"))
VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/"}


class Here:
    """A client program that reaches no further than this machine, and breaks when told to."""

    variables = VARIABLES
    place = "here"

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self.prefix = list(prefix)
        self.reached = 0

    async def connect(self) -> None:
        self.reached += 1

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        return [*self.prefix, BASH, *argv[1:]]

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        return EnvironmentFailed(f"gone: {complaint}") if begun else None

    def reopen(self, place: str) -> None:
        return None

    async def close(self, *, spare: bool) -> None:
        return None


class EarlierHere:
    """The same with the method names of an earlier version."""

    variables = VARIABLES

    def __init__(self, place: str = "here") -> None:
        self.place = place
        self._here = Here()
        self.words, self.close = self._here.words, self._here.close
        self.reach, self.broken = self._here.connect, self._here.find_failure

    def elsewhere(self, place: str) -> "EarlierHere":
        return EarlierHere(place)


def remote(client: Here | EarlierHere) -> RemoteEnvironment:
    settings = TerminalSettings()
    return RemoteEnvironment("here", "h", client, settings=settings, isolated=False, start="/tmp")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while True:
            if condition():
                return
            await anyio.sleep(0.005)


@pytest.fixture
async def place() -> AsyncIterator[RemoteEnvironment]:
    async with remote(Here()) as environment:
        yield environment


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_arrives_as_it_is(text: str) -> None:
    word = quote_word(text)
    assert word.isascii()
    for locale in ("C", "C.UTF-8"):
        told = subprocess.run(
            [BASH, "-c", f"printf %s {word}"],
            capture_output=True,
            env={**VARIABLES, "LC_ALL": locale},
            check=True,
        )
        assert told.stdout == text.encode()


@pytest.mark.anyio
async def test_a_mark_that_arrives_in_pieces_is_still_found() -> None:
    line = open_channel([BASH, *WAIT_FOR_PROGRAM_ARGV[1:]], VARIABLES)
    await line.ready()
    halves = "".join(f"printf '{piece}'; sleep 0.02; " for piece in ("a\\0", "\\0hermes:", "b\\0"))
    slow = "".join(f"printf '%s' '{letter}'; sleep 0.005; " for letter in line.nonce)
    await line.send(f"{halves} printf 'end'; printf '\\0hermes:'; {slow} printf ':7\\nlate'")
    told = b""
    while piece := await line.read_output():
        told += piece
    assert told == b"a\0\0hermes:b\0end"
    assert line.last_word == "7"
    line.close()


@pytest.mark.anyio
async def test_noise_before_the_far_end_is_heard_is_left_out() -> None:
    login = "echo Welcome; printf '\\0hermes:'; exec \"$@\""
    line = open_channel([BASH, "-c", login, "x", BASH, *WAIT_FOR_PROGRAM_ARGV[1:]], VARIABLES)
    await line.ready()
    await line.send(build_program("echo quiet", line.nonce))
    assert await line.read_output() == b"quiet\n"
    assert await line.read_output() == b""
    assert line.last_word == "0"
    line.close()


@pytest.mark.anyio
async def test_a_line_that_breaks_says_how_and_what_was_complained() -> None:
    line = open_channel([BASH, "-c", "echo no such host >&2; exit 255"], VARIABLES)
    with pytest.raises(ChannelBroken) as caught:
        await line.ready()
    assert (caught.value.code, caught.value.complaint) == (255, "no such host")


@pytest.mark.anyio
async def test_a_place_that_gives_no_shell_is_tried_twice_and_named() -> None:
    client = Here([BASH, "-c", "echo bash: not found >&2; exit 127"])
    with pytest.raises(EnvironmentFailed, match="here, which must have bash: bash: not found"):
        async with remote(client):
            pass
    assert client.reached == 2


@pytest.mark.anyio
async def test_a_client_with_the_method_names_of_an_earlier_version_works_and_reports_the_new_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report_renamed.cache_clear()
    async with remote(EarlierHere("there")) as there, remote(EarlierHere()) as here:
        started = await there.start("sleep 60")
        assert await here.find(started.handle) is not None
        await started.kill()
    said = {record.getMessage() for record in caplog.records}
    for old, new in NEW_NAMES.items():
        assert f"EarlierHere.{old} is now {new}; the old name will be removed" in said


@pytest.mark.anyio
async def test_a_client_that_breaks_under_a_command_is_never_tried_again(
    place: RemoteEnvironment, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    with pytest.raises(EnvironmentFailed, match="gone"):
        await place.run(f"echo x >> {count}; kill -KILL $PPID")
    assert count.read_text() == "x\n"


@pytest.mark.anyio
async def test_a_write_that_arrives_by_half_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    relay = [BASH, "-c", 'cat | "$@"', "relay"]  # the far end lives on when the client is killed
    async with remote(Here(relay)) as place, anyio.create_task_group() as group:
        group.start_soon(place.write, str(file), b"x" * 300_000_000)
        await until(lambda: any(each.stat().st_size > 9 for each in tmp_path.glob(".hermes-*")))
        group.cancel_scope.cancel()
    await until(lambda: list(tmp_path.iterdir()) == [file])
    assert file.read_text() == "old"


@pytest.mark.anyio
async def test_an_environment_says_itself_whether_it_confines_commands(
    place: RemoteEnvironment,
) -> None:
    assert not isinstance(place, ConfinesCommands)
    assert issubclass(ConfiningRemoteEnvironment, ConfinesCommands)


@pytest.mark.anyio
async def test_what_follows_a_lost_state_folder_is_a_new_state(place: RemoteEnvironment) -> None:
    folder = (await place.run("x=1; echo $__hermes_folder")).output.strip()
    shutil.rmtree(folder)
    assert (await place.run("echo ${x-none}; x=2")).output == "none\n"
    assert (await place.run("echo $x")).output == "2\n"


@pytest.mark.anyio
async def test_it_runs_nothing_before_it_is_open_or_after() -> None:
    place = remote(Here())
    with pytest.raises(EnvironmentFailed):
        await place.run("true")
    async with place:
        await place.run("true")
    with pytest.raises(EnvironmentFailed):
        await place.run("true")
