"""The sandbox's own promises, beyond the contract that all environments keep."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.environments.confinement.limits import FILE_TIME_MARGIN_NS, find_descendants
from hermes.environments.open import EnvironmentOpening, open_environment
from hermes.environments.sandbox import SandboxEnvironment, why_not
from hermes.environments.sandboxing import sandbox_resources, support
from hermes.environments.sandboxing.cgroups import SandboxCgroup
from hermes.environments.sandboxing.launcher_client import launcher_argv
from hermes.environments.sandboxing.sandbox_resources import SandboxOptions
from hermes.environments.settings import TerminalSettings

pytestmark = pytest.mark.anyio

VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="is about root")


def start_python(source: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", source])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def box(work: Path) -> AsyncIterator[SandboxEnvironment]:
    async with SandboxEnvironment(work, VARIABLES) as environment:
        yield environment


async def said(place: SandboxEnvironment, command: str) -> str:
    result = await place.run(command)
    assert result.exit_code == 0, result
    return result.output.strip()


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while not true():  # noqa: ASYNC110 - nobody tells us when a process has gone
            await anyio.sleep(0.01)


def gone(pids: Iterable[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def owner(path: Path) -> int:
    return path.stat().st_uid


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("hermes-sandbox-*"))


async def test_it_is_isolated_and_says_where_it_works(box: SandboxEnvironment, work: Path) -> None:
    assert (box.name, box.isolated, box.target) == ("sandbox", True, str(work))


async def test_it_opens_by_name_with_the_folder_of_the_person(work: Path) -> None:
    settings = TerminalSettings(backend="sandbox")
    place = open_environment(
        EnvironmentOpening(settings=settings, directory=work, home=work.parent, variables=VARIABLES)
    )
    assert isinstance(place, SandboxEnvironment)
    async with place:
        assert await said(place, "pwd") == str(work)


async def test_without_a_folder_it_makes_one_and_takes_it_away_again() -> None:
    settings = TerminalSettings(backend="sandbox", cwd="")
    nowhere = Path("/nonexistent")
    async with open_environment(
        EnvironmentOpening(settings=settings, directory=nowhere, home=nowhere, variables=VARIABLES)
    ) as place:
        result = await place.run("touch made; pwd")
        folder = Path(result.output.strip())
        assert (folder / "made").exists()
    assert not folder.parent.exists()


async def test_what_is_made_in_the_folder_belongs_to_its_owner(
    box: SandboxEnvironment, work: Path
) -> None:
    await said(box, "mkdir -p deep/er; echo words > deep/er/file; chmod 750 deep")
    made = work / "deep/er/file"
    assert made.read_text() == "words\n"
    assert owner(made) == owner(work / "deep") == owner(work)
    assert (work / "deep").stat().st_mode & 0o777 == 0o750


@as_root
async def test_root_becomes_a_user_that_exists_nowhere_else(
    box: SandboxEnvironment, work: Path
) -> None:
    uid = int(await said(box, "id -u"))
    assert uid > 100_000
    assert await said(box, "id -un; id -G; stat -c %U .") == f"sandbox\n{uid}\nsandbox"
    async with SandboxEnvironment(work, VARIABLES) as another:
        assert int(await said(another, "id -u")) != uid


@as_root
async def test_a_folder_of_somebody_else_stays_theirs(work: Path) -> None:
    os.chown(work, 4321, 4321)
    work.parent.chmod(0o711)
    async with SandboxEnvironment(work, VARIABLES) as place:
        await said(place, "touch made")
    assert owner(work / "made") == 4321


@as_root
async def test_where_owners_cannot_be_translated_root_stays_without_any_power(work: Path) -> None:
    secret = work.parent / "secret"
    secret.write_text("x")
    os.chown(secret, 4321, 4321)
    secret.chmod(0o600)
    settings = TerminalSettings(readable=(str(secret),))
    async with SandboxEnvironment(
        work, VARIABLES, settings=settings, isolation=("landlock",)
    ) as place:
        assert await said(place, "id -u") == "0"
        assert (await place.run(f"cat {secret}")).exit_code != 0


@as_root
def test_root_whose_processes_cannot_be_counted_is_refused() -> None:
    wish = SandboxOptions(scratch="/nonexistent", writable=("/somewhere",))
    reason = sandbox_resources._find_unbounded(wish, "landlock", -1, SandboxCgroup())
    assert "no cgroup" in reason
    assert (
        sandbox_resources._find_unbounded(wish, "landlock", -1, SandboxCgroup(processes=True)) == ""
    )


@pytest.mark.parametrize("isolation", ["namespaces", "bubblewrap", "landlock"])
async def test_each_kind_of_isolation_runs_commands_and_keeps_files(
    isolation: str, work: Path
) -> None:
    if sandbox_resources.find_missing_support(isolation):
        pytest.skip(sandbox_resources.find_missing_support(isolation))
    async with SandboxEnvironment(work, VARIABLES, isolation=(isolation,)) as place:
        assert await said(place, "x=1; echo hello > f; cat f < <(true)") == "hello"
        await place.write("g", b"\0\xff")
        assert await place.read("g") == (work / "g").read_bytes() == b"\0\xff"
        process = await place.start("tty; echo $x", pty=True)
        assert b"/dev/pts/" in await process.output()
        assert (await place.run("sleep 60 & sleep 60", timeout=0.1)).timed_out
        with pytest.raises(ToolError, match="cannot read"):
            await place.read("/etc/shadow")


@pytest.mark.parametrize("folder", ["~", "~/..", "/", "/etc", "/tmp", "/usr"])
async def test_the_home_and_the_system_are_not_given_away(folder: str) -> None:
    with pytest.raises(EnvironmentFailed, match="cannot be given"):
        async with SandboxEnvironment(Path(folder), VARIABLES):
            pass


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="make it first"):
        async with SandboxEnvironment(tmp_path / "nowhere", VARIABLES):
            pass


async def test_further_folders_can_be_granted(work: Path) -> None:
    extra, seen = work.parent / "extra", work.parent / "seen"
    extra.mkdir()
    seen.mkdir()
    (seen / "file").write_text("words")
    settings = TerminalSettings(writable=(str(extra),), readable=(str(seen),))
    async with SandboxEnvironment(work, VARIABLES, settings=settings) as place:
        assert await said(place, f"cat {seen}/file; touch {extra}/made") == "words"
        assert (await place.run(f"touch {seen}/made")).exit_code != 0
    assert (extra / "made").exists()
    assert not (seen / "made").exists()


@pytest.mark.parametrize("network", [True, False])
async def test_the_network_is_there_only_when_granted(work: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = TerminalSettings(network=network)
        async with SandboxEnvironment(work, VARIABLES, settings=settings) as place:
            result = await place.run(f"exec 9<>/dev/tcp/127.0.0.1/{port}")
            names = await place.run("test -r /etc/resolv.conf")
    assert (result.exit_code == 0) == (names.exit_code == 0) == network


SERVE = """
import select, socket, sys, threading
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(0)
clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
clients[0].connect(sys.argv[1])
waiting = threading.Thread(target=clients[1].connect, args=sys.argv[1:])
waiting.start()  # the queue is full: it waits for the first to be accepted
select.select([], [], [], 0.05)
links = [server.accept()[0] for _ in clients]
waiting.join()
for client in clients:
    client.send(b"hello")
print(*{link.recv(5).decode() for link in links})
"""


@pytest.mark.parametrize("isolation", ["namespaces", "bubblewrap"])
async def test_programs_inside_reach_each_other_by_sockets_of_their_own(
    work: Path, isolation: str
) -> None:
    if sandbox_resources.find_missing_support(isolation):
        pytest.skip(sandbox_resources.find_missing_support(isolation))
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    async with SandboxEnvironment(work, VARIABLES, isolation=(isolation,)) as place:
        await place.write("serve.py", SERVE.encode())
        for name in ("/tmp/own", "$HOME/own"):
            assert await said(place, f"{python} serve.py {name}") == "hello"
        refused = await place.run(f"{python} serve.py {work}/own")
        assert "Permission denied" in refused.output


FILLING = {
    "many files": "for i in {1..60}; do head -c 1M /dev/zero > f$i; sleep 0.03; done; echo done",
    "a hidden folder": "mkdir h; exec 9> h/f; chmod 000 h; "
    "for i in {1..60}; do head -c 1M /dev/zero >&9; sleep 0.03; done; echo done",
    "files without a name": "for i in {1..60}; do exec {fd}> f; rm f; "
    "head -c 1M /dev/zero >&$fd; sleep 0.03; done; echo done",
    "reserved room": "for i in {1..60}; do fallocate -l 1M f$i; sleep 0.03; done; echo done",
    "a process left behind": "(setsid bash -c 'for i in {1..60}; do head -c 1M /dev/zero > f$i; "
    "sleep 0.03; done; touch done' >/dev/null 2>&1 &); sleep 20; echo done",
    "its home": "for i in {1..60}; do head -c 1M /dev/zero > ~/f$i; sleep 0.03; done; echo done",
}


@pytest.mark.parametrize("way", FILLING)
async def test_what_is_written_is_bounded_in_total(work: Path, way: str) -> None:
    settings = TerminalSettings(total_mb=16)
    async with SandboxEnvironment(work, VARIABLES, settings=settings) as place:
        result = await place.run(FILLING[way])
    assert result.exit_code == 137
    assert "done" not in result.output.splitlines()
    assert "terminal.total_mb" in result.output
    assert not (work / "done").exists()


@pytest.mark.parametrize("isolation", ["namespaces", "bubblewrap", "landlock"])
async def test_in_a_full_sandbox_files_can_be_removed_and_not_written(
    work: Path, isolation: str
) -> None:
    if sandbox_resources.find_missing_support(isolation):
        pytest.skip(sandbox_resources.find_missing_support(isolation))
    settings = TerminalSettings(total_mb=16)
    async with SandboxEnvironment(
        work, VARIABLES, settings=settings, isolation=(isolation,)
    ) as place:
        await said(place, "x=kept; head -c 1M /dev/zero > f")
        await place.run(FILLING["many files"])
        refused = await place.run("echo x > more; mkdir d; echo y >> f; echo $x")
        assert refused.output.count("Permission denied") == 3
        assert "kept" in refused.output
        assert "terminal.total_mb" in refused.output
        with pytest.raises(ToolError, match=r"terminal\.total_mb"):
            await place.write("more", b"x")
        process = await place.start("echo from here; echo x > more")
        told = b""
        while piece := await process.output():
            told += piece
        assert b"from here" in told
        assert b"Permission denied" in told
        await place.run("rm f*")
        assert await said(place, "echo x > more; cat more") == "x"
        await place.write("other", b"x")


async def test_what_others_write_to_the_same_disk_does_not_count(work: Path) -> None:
    (work / "theirs").write_bytes(bytes(24 << 20))
    await anyio.sleep(2 * FILE_TIME_MARGIN_NS / 1e9)  # what is newer may be the sandbox's own
    async with SandboxEnvironment(work, VARIABLES, settings=TerminalSettings(total_mb=16)) as place:
        (work.parent / "also-theirs").write_bytes(bytes(24 << 20))
        assert await said(place, "sleep 0.3; echo x > mine; cat mine") == "x"


async def test_space_that_others_free_meanwhile_does_not_hide_what_is_written(work: Path) -> None:
    theirs = work.parent / "theirs"
    theirs.write_bytes(bytes(128 << 20))
    async with SandboxEnvironment(work, VARIABLES, settings=TerminalSettings(total_mb=16)) as place:
        theirs.unlink()
        result = await place.run(FILLING["many files"].replace("sleep 0.03", "sleep 0.05"))
    assert result.exit_code == 137
    assert "terminal.total_mb" in result.output


@pytest.mark.parametrize("freed", [False, True])
async def test_a_short_command_that_writes_too_much_is_told_and_the_next_may_remove(
    work: Path, freed: bool
) -> None:
    theirs = work.parent / "theirs"
    theirs.write_bytes(bytes(128 << 20))
    async with SandboxEnvironment(work, VARIABLES, settings=TerminalSettings(total_mb=16)) as place:
        await said(place, "x=kept")
        if freed:
            theirs.unlink()
        result = await place.run("head -c 24M /dev/zero > f")
        assert "terminal.total_mb" in result.output
        assert (await said(place, "rm f; echo $x")).startswith("kept")
        assert await said(place, "echo y > more; cat more") == "y"


async def test_what_others_write_does_not_end_commands_in_a_full_sandbox(work: Path) -> None:
    async with SandboxEnvironment(work, VARIABLES, settings=TerminalSettings(total_mb=16)) as place:
        await place.run(FILLING["many files"])
        process = await place.start("read -r line; echo $line")
        (work.parent / "also-theirs").write_bytes(bytes(24 << 20))
        with pytest.raises(TimeoutError), anyio.fail_after(0.5):  # several checks of the files
            await process.wait()
        await process.write(b"still here\n")
        output = b""
        while piece := await process.output():
            output += piece
        assert b"still here" in output


async def test_a_new_launcher_remembers_what_was_written(work: Path) -> None:
    settings = TerminalSettings(total_mb=16)
    async with SandboxEnvironment(work, VARIABLES, settings=settings) as place:
        await said(place, "head -c 12M /dev/zero > f; sleep 1")
        with pytest.raises(EnvironmentFailed):
            await place.run("kill -9 -1; sleep 5")
        result = await place.run(FILLING["many files"].replace("60", "12"))
        assert "terminal.total_mb" in result.output


async def test_a_sandbox_ended_from_inside_is_told_and_replaced(box: SandboxEnvironment) -> None:
    await said(box, "cd /tmp; kept=words")
    with pytest.raises(EnvironmentFailed, match="ended under the command"):
        await box.run("kill -9 -1; sleep 5")
    assert await said(box, "echo $kept; pwd") == "words\n/tmp"


async def test_commands_cannot_end_the_launcher_itself(box: SandboxEnvironment) -> None:
    process = await box.start("sleep 60")
    await box.run("for s in KILL TERM STOP INT HUP; do kill -$s 1; done")
    assert await box.find(process.handle) is not None
    await process.kill()


async def test_all_that_ran_inside_ends_with_it(work: Path) -> None:
    before = set(find_descendants(os.getpid()))
    async with SandboxEnvironment(work, VARIABLES) as place:
        await said(place, "(setsid sleep 600 >/dev/null 2>&1 &)")
        await place.start("trap '' TERM; sleep 600")
        inside = set(find_descendants(os.getpid())) - before
        assert len(inside) >= 3
    await until(lambda: gone(inside))


async def test_all_that_ran_inside_ends_when_we_are_killed(work: Path) -> None:
    source = f"""
import anyio, pathlib
from hermes.environments.sandbox import SandboxEnvironment
async def main():
    async with SandboxEnvironment(pathlib.Path({str(work)!r}), {VARIABLES!r}) as place:
        await place.run("(setsid sleep 600 >/dev/null 2>&1 &)")
        await place.start("sleep 600")
        await place.run("touch ready; sleep 600")
anyio.run(main)
"""
    with start_python(source) as us:
        await until((work / "ready").exists)
        inside = find_descendants(us.pid)
        us.send_signal(signal.SIGKILL)
    assert len(inside) >= 5
    await until(lambda: gone(inside))


async def test_starting_and_killing_leaves_nothing_behind(work: Path) -> None:
    async with SandboxEnvironment(work, VARIABLES) as place:
        await place.run("true")
        files, processes = open_files(), len(find_descendants(os.getpid()))
        for number in range(30):
            process = await place.start("sleep 60 & sleep 60", pty=number % 3 == 0)
            await process.kill()
        await place.run("true")
        assert open_files() == files
        await until(lambda: len(find_descendants(os.getpid())) <= processes)


async def test_no_folder_and_no_cgroup_is_left(work: Path) -> None:
    async with SandboxEnvironment(work, VARIABLES) as place:
        home = Path(await said(place, "echo $HOME"))
        groups = place._resources._cgroup.folders
        assert all(map(os.path.exists, groups))
    assert not home.parent.exists()
    assert not any(map(os.path.exists, groups))


def test_a_folder_left_by_one_that_was_killed_is_swept_away() -> None:
    held = sandbox_resources.ScratchFolder()
    used = Path(held.path)
    left = Path(tempfile.mkdtemp(prefix="hermes-sandbox-"))
    foreign = Path(tempfile.mkdtemp(prefix="hermes-sandbox-"))
    (left / "file").touch()
    foreign.chmod(0o755)
    for folder in (used, left, foreign):
        os.utime(folder, (0, 0))
    sandbox_resources.remove_stale_scratch()
    assert used.exists()
    assert foreign.exists()
    assert not left.exists()
    foreign.rmdir()
    held.remove()
    assert not used.exists()


async def test_paths_bent_by_the_command_do_not_lead_us_astray(
    box: SandboxEnvironment, work: Path
) -> None:
    outside = work.parent / "outside"
    outside.write_text("untouched")
    await said(box, f"ln -s {outside} link; mkfifo pipe; mkdir sub; ln -s {work.parent} up")
    for path in ("link", "up/outside", f"{work}/../outside"):
        with pytest.raises(ToolError):
            await box.read(path)
    with pytest.raises(ToolError, match="plain file"):
        await box.read("pipe")
    for path in ("link", "up/new", f"{work}/../new"):
        with suppress(ToolError):  # in a /tmp of its own there may be a folder of that name
            await box.write(path, b"changed")
    assert outside.read_text() == "untouched"
    assert not (work.parent / "new").exists()


async def test_a_state_that_the_command_replaced_harms_only_itself(
    box: SandboxEnvironment, work: Path
) -> None:
    """We must neither wait for a pipe nor follow a link that lies where the state should be."""
    await said(box, "touch here")
    await box.run("rm -f ~/../state/state; mkfifo ~/../state/state; trap - EXIT; exec true")
    await box.write("here", b"words")
    assert (work / "here").read_bytes() == b"words"


async def test_a_very_long_command_cannot_write_through_a_link(box: SandboxEnvironment) -> None:
    assert await said(box, "echo hello #" + "x" * 200_000) == "hello"


def test_the_launcher_loads_little_and_carries_nothing() -> None:
    argv = launcher_argv()
    code = argv[4].replace("main()", "print(*sys.modules)")
    loaded = subprocess.run([*argv[:4], code, *argv[5:]], env={}, capture_output=True, text=True)
    modules = set(loaded.stdout.split())
    assert "hermes.environments.confinement.launcher" in modules
    assert not modules & {"typing", "enum", "re", "socket", "signal", "pathlib", "msgspec"}


OPENING = EnvironmentOpening(TerminalSettings(), Path(), Path(), VARIABLES)


async def test_a_machine_that_can_is_told_so() -> None:
    here = support.probe_sandbox_support()
    assert here.linux
    assert here.seccomp
    assert await why_not(OPENING) is None


async def test_a_machine_that_cannot_is_refused_with_the_reason(work: Path) -> None:
    """Inside a sandbox no other can be made: what the kernel refuses there is what it would
    refuse on a hardened machine."""
    package = Path(__file__).parents[2] / "src"
    settings = TerminalSettings(readable=(str(package), sys.prefix))
    question = (
        f"import sys; sys.path[:] = {[str(package), *sys.path]!r}\n"
        "import anyio\nfrom pathlib import Path\n"
        "from hermes.environments.open import EnvironmentOpening\n"
        "from hermes.environments.sandbox import why_not\n"
        "from hermes.environments.settings import TerminalSettings\n"
        "variables = {'PATH': '/usr/bin:/bin'}\n"
        "given = EnvironmentOpening(TerminalSettings(), Path(), Path(), variables)\n"
        "print(anyio.run(lambda: why_not(given, isolation=('namespaces', 'bubblewrap'))))"
    )
    async with SandboxEnvironment(work, VARIABLES, settings=settings) as place:
        await place.write("ask.py", question.encode())
        answer = await said(place, f"{sys.executable} ask.py")
    assert "with namespaces: [Errno 1] unshare: Operation not permitted" in answer
    assert "terminal.backend" in answer


async def test_two_sandboxes_know_nothing_of_each_other(work: Path) -> None:
    async with (
        SandboxEnvironment(work, VARIABLES) as one,
        SandboxEnvironment(None, VARIABLES) as other,
    ):
        await said(one, "echo secret > /tmp/mine; echo secret > ~/mine")
        home = await said(one, "echo ~")
        assert (await other.run(f"cat /tmp/mine {home}/mine")).exit_code != 0


async def test_commands_run_side_by_side(box: SandboxEnvironment) -> None:
    meet = "touch /tmp/meets-{0}; until test $(ls /tmp/meets-* | wc -l) = 4; do sleep 0.05; done"
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(said, box, meet.format(number))


async def test_an_error_in_the_body_comes_out_as_itself(work: Path) -> None:
    with pytest.raises(KeyError):
        async with SandboxEnvironment(work, VARIABLES):
            raise KeyError("mine")


async def test_nothing_is_left_in_the_temporary_folder_when_it_is_refused() -> None:
    before = folders()
    with pytest.raises(EnvironmentFailed, match="no sandbox can be made here"):
        async with SandboxEnvironment(None, VARIABLES, isolation=("nothing",)):
            pass
    assert folders() <= before
