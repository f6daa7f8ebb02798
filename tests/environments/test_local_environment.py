"""This machine: what only it promises, and how it stands up to bad company."""

import os
import resource
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.environments.local import LocalEnvironment, open_local
from hermes.environments.open import EnvironmentOpening, select_variables
from hermes.environments.processes.process_tree import ProcessTree
from hermes.environments.settings import TerminalSettings

pytestmark = pytest.mark.anyio


def carrying(word: str) -> list[str]:
    """Every process on this machine with that word among its variables."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def names(folder: str | Path) -> list[str]:
    return [entry.name for entry in Path(folder).iterdir()]


def running(pid: object) -> bool:
    return Path(f"/proc/{pid}").exists()


def descriptors() -> int:
    return len(names("/proc/self/fd"))


async def test_commands_never_see_a_key(tmp_path: Path) -> None:
    ours = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": "sk-1",
        "GITHUB_TOKEN": "t",
        "AWS_PROFILE": "ops",
        "AWS_SECRET_ACCESS_KEY": "s",
        "OWN_KEY": "granted by name, and ours",
        "KUBECONFIG": "/k",
        "OTHER": "not granted",
    }
    granted = ("AWS_*", "KUBECONFIG", "GITHUB_TOKEN", "OWN_KEY")
    variables = select_variables(ours, granted, withheld={"OWN_KEY"})
    async with LocalEnvironment(tmp_path, variables) as place:
        told = (await place.run("env; cat /proc/self/environ | tr '\\0' '\\n'")).output
    assert "AWS_PROFILE=ops" in told
    assert "KUBECONFIG=/k" in told
    assert "GITHUB_TOKEN=t" in told
    assert "TERM=dumb" in told
    for hidden in ("sk-1", "AWS_SECRET", "OWN_KEY", "OTHER"):
        assert hidden not in told


def test_the_password_of_a_database_client_is_passed_from_our_file_where_it_is_granted() -> None:
    ours, kept = {"REDISCLI_AUTH": "p", "OWN_KEY": "k"}, {"REDISCLI_AUTH", "OWN_KEY"}
    assert "REDISCLI_AUTH" not in select_variables(ours, withheld=kept)
    assert "REDISCLI_AUTH" not in select_variables(ours, ("REDIS*",), withheld=kept)
    passed = select_variables(ours, ("REDISCLI_AUTH", "OWN_KEY"), withheld=kept)
    assert passed["REDISCLI_AUTH"] == "p"
    assert "OWN_KEY" not in passed


async def test_a_machine_without_bash_is_a_place_that_failed(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="install it"):
        async with LocalEnvironment(tmp_path, {"PATH": str(tmp_path)}):
            pass


async def test_a_missing_first_folder_is_a_place_that_failed(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="make it first"):
        async with LocalEnvironment(tmp_path / "missing", {"PATH": os.environ["PATH"]}):
            pass


async def test_it_runs_nothing_before_it_is_open_or_after(tmp_path: Path) -> None:
    place = LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]})
    with pytest.raises(EnvironmentFailed):
        await place.run("true")
    async with place:
        await place.run("true")
    with pytest.raises(EnvironmentFailed):
        await place.run("true")


async def test_a_process_without_descriptors_is_a_place_that_failed(here: LocalEnvironment) -> None:
    """Whoever runs commands, such as the watch, knows what to do then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors(), hard))
    try:
        with pytest.raises(EnvironmentFailed, match="cannot run a command"):
            await here.run("true")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await here.run("echo again")).output == "again\n"


async def test_the_operator_limits_how_long_a_command_may_ask_for(tmp_path: Path) -> None:
    settings = TerminalSettings(max_timeout=0.2)
    variables = {"PATH": os.environ["PATH"]}
    async with LocalEnvironment(tmp_path, variables, settings=settings) as place:
        with anyio.fail_after(120):
            assert (await place.run("sleep 600", timeout=600)).timed_out


async def test_200_mb_of_output_cost_no_memory(here: LocalEnvironment) -> None:
    await here.run("true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with anyio.fail_after(60):
        result = await here.run("head -c 200M /dev/zero", timeout=60)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert result.dropped_bytes > 199 * 1024 * 1024
    assert (after - before) / 1024 < 20


async def test_a_child_that_floods_after_its_command_does_not_keep_us_busy(
    here: LocalEnvironment,
) -> None:
    await here.run("yes & echo $! > pid")
    pid = (await here.run("cat pid")).output.strip()
    before = os.times()
    await anyio.sleep(0.5)
    after = os.times()
    assert running(pid)
    await here.run(f"kill {pid}")
    assert (after.user + after.system) - (before.user + before.system) < 0.25


async def test_a_full_pipe_does_not_stop_a_command_that_is_ending(here: LocalEnvironment) -> None:
    with anyio.fail_after(120):
        result = await here.run(
            "trap 'printf %s {1..150000}; echo yyyy; exit 5' TERM; sleep 600 & wait", timeout=0.3
        )
    assert result.timed_out
    assert "yyyy" in result.output


async def test_cycles_leave_nothing_behind(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"], "CYCLE": secrets.token_hex(8)}
    processes = tmp_path / "processes"
    async with LocalEnvironment(tmp_path, variables, processes=processes) as place:
        await place.run("true")
        before = descriptors()
        for cycle in range(50):
            process = await place.start("sleep 60 & sleep 60", pty=cycle % 5 == 0)
            await process.kill()
            while await process.output():
                pass
            with anyio.move_on_after(0.001):
                await place.run("sleep 60")
        assert descriptors() <= before
        assert names(processes) == []
    assert carrying(variables["CYCLE"]) == []


async def test_without_a_folder_to_be_found_in_processes_end_with_us(tmp_path: Path) -> None:
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}) as place:
        process = await place.start("sleep 60")
        assert process.pid is not None
        assert running(process.pid)
    assert not running(process.pid)


async def test_with_one_they_outlive_us(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"]}
    async with LocalEnvironment(tmp_path, variables, processes=tmp_path / "p") as place:
        process = await place.start("echo words; sleep 60")
        assert await process.output() == b"words\n"
    async with LocalEnvironment(tmp_path, variables, processes=tmp_path / "p") as place:
        again = await place.find(process.handle)
        assert again is not None
        assert await again.output() == b"words\n"
        await again.kill()
        assert b"words" not in await again.output()
        assert await again.output() == b""
    assert names(tmp_path / "p") == []
    await process.wait()


async def test_one_that_ended_while_nobody_looked_tells_how(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"]}
    async with LocalEnvironment(tmp_path, variables, processes=tmp_path / "p") as place:
        process = await place.start("until [ -e go ]; do sleep 0.01; done; echo bye; exit 9")
    (tmp_path / "go").touch()
    assert await process.wait() == 9
    async with LocalEnvironment(tmp_path, variables, processes=tmp_path / "p") as place:
        again = await place.find(process.handle)
        assert again is not None
        assert await again.output() == b"bye\n"
        assert await again.wait() == 9
        assert await again.output() == b""
        assert await again.wait() == 9
    assert names(tmp_path / "p") == []


async def test_a_number_that_was_used_again_is_not_taken_for_ours(here: LocalEnvironment) -> None:
    process = await here.start("sleep 60")
    mark, _, born = process.handle.split(":")
    stranger = await here.find(f"{mark}:{os.getpid()}:{born}")
    assert stranger is not None
    assert await stranger.wait() is None  # somebody else has that number: ours is gone
    await process.kill()


async def test_a_loud_process_keeps_its_log_short(here: LocalEnvironment, tmp_path: Path) -> None:
    process = await here.start("head -c 60M /dev/zero | tr '\\0' z; echo end; sleep 60")
    told = b""
    with anyio.fail_after(60):
        while not told.endswith(b"end\n"):
            told = (told + await process.output())[-100:]
    (log,) = (tmp_path / "processes").glob("*.log")
    assert log.stat().st_blocks * 512 < 4 * 1024 * 1024
    await process.kill()


async def test_input_that_nobody_takes_is_told(here: LocalEnvironment) -> None:
    process = await here.start("exec 0<&-; echo closed; sleep 60")
    assert await process.output() == b"closed\n"
    # The sleep that bash starts gets /dev/null or nothing: nobody holds the pipe.
    with pytest.raises(ToolError):
        await process.write(b"hello\n")
    await process.kill()


async def test_a_command_ends_without_looking_for_a_program_of_ours(
    here: LocalEnvironment,
) -> None:
    handler = "command_not_found_handle() { echo missing: $1; }"
    assert (await here.run(handler)).output == ""
    assert (await here.run("no-such-program; (exit 3)")).output == "missing: no-such-program\n"


async def test_the_state_of_the_shell_lies_in_no_file(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    mark, start = secrets.token_hex(8), tmp_path / "start"
    start.touch()
    await here.run(f"kept={mark}")
    # Only what changed since: /tmp may hold gigabytes of other programs.
    changed = f"-newer {start} -type f -size -1024k"
    found = await here.run(
        f"find /tmp /dev/shm -name 'pytest-of-*' -prune -o {changed} "
        "-exec grep -sl $kept {} + 2>/dev/null"
    )
    assert found.output == ""
    assert (await here.run("echo $kept")).output == f"{mark}\n"


async def test_what_a_killed_session_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    temporary = Path(tempfile.gettempdir())
    nobody = 2**22 + 1  # more than any process number
    old, young = (temporary / f"hermes-shell-{nobody}-{word}" for word in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(exist_ok=True)
    os.utime(old, (0, 0))
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}):
        assert young.name in (kept := names(temporary))
        assert old.name not in kept
    young.rmdir()


FULL_DISK = """
import os, sys, anyio
from pathlib import Path
from hermes.core.errors import ToolError
from hermes.environments.local import LocalEnvironment
async def main():
    folder = Path(sys.argv[1])
    async with LocalEnvironment(folder, {"PATH": os.environ["PATH"]}) as place:
        await place.write("kept", b"old")
        try:
            await place.write("kept", b"x" * 1_000_000)
        except ToolError as error:
            print(error)
        print(await place.read("kept"), os.listdir(folder))
anyio.run(main)
"""


def test_a_full_disk_is_told_and_leaves_the_old_text(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=64k none "$1" && exec "{sys.executable}" -c "$2" "$1"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no disk can be mounted here to be filled")
    assert done.returncode == 0, done.stderr
    assert "disk full" in done.stdout
    assert "b'old' ['kept']" in done.stdout


WAIT_FOR_ANOTHER = """
import os, select, sys
poll = select.poll()
poll.register(os.pidfd_open(int(sys.argv[1])))
open(sys.argv[2] + "/waits", "w").close()
poll.poll()
open(sys.argv[2] + "/went-on", "w").close()
"""


@pytest.mark.parametrize("end", [ProcessTree.end, ProcessTree.kill])
async def test_a_program_does_not_go_on_when_the_one_it_waits_for_is_ended(
    tmp_path: Path, end: Callable[[ProcessTree], Awaitable[None]]
) -> None:
    script = 'for i in {1..99}; do sleep 60 & [ $i != 1 ] || first=$!; done; "$@" $first . & wait'
    for _ in range(5):
        (tmp_path / "waits").unlink(missing_ok=True)
        shell = subprocess.Popen(  # noqa: ASYNC220
            ["bash", "-c", script, "bash", sys.executable, "-c", WAIT_FOR_ANOTHER],
            start_new_session=True,
            cwd=tmp_path,
        )
        while not (tmp_path / "waits").exists():  # noqa: ASYNC110 - another process creates it
            await anyio.sleep(0.005)
        await end(ProcessTree("no-mark", shell.pid))
        shell.wait()
    assert not (tmp_path / "went-on").exists()


def opening(home: Path, beside: LocalEnvironment | None = None) -> EnvironmentOpening:
    return EnvironmentOpening(
        settings=TerminalSettings(),
        directory=home,
        home=home,
        variables={"PATH": os.environ["PATH"]},
        beside=beside,
    )


async def test_sessions_of_one_home_share_a_fork_server_that_outlives_them(tmp_path: Path) -> None:
    async with open_local(opening(tmp_path)) as first:
        async with open_local(opening(tmp_path, first)) as second:
            support = await second.kernel_support()
            assert second.server is first.server
            helper = first.server._server
        assert first.server._server is helper, "the end of a session ends it for no other"
        assert await first.kernel_support() == support
    assert first.server._server is None


async def test_a_session_that_hides_other_files_has_a_fork_server_of_its_own(
    tmp_path: Path,
) -> None:
    first = open_local(opening(tmp_path / "one"))
    assert open_local(opening(tmp_path / "two", first)).server is not first.server
