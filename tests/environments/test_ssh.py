"""A real sshd: keys that change, connections that break, and what goes on without us."""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
import real_ssh
from real_ssh import LOCKED, ODD, USER

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.protocols import BackgroundProcess
from hermes.environments.open import EnvironmentOpening, open_environment
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.ssh import open_ssh, why_not

pytestmark = pytest.mark.anyio


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[RemoteEnvironment]:
    async with open_ssh(real_ssh.opening(tmp_path)) as environment:
        yield environment


@pytest.fixture
def own_host_key() -> AsyncIterator[None]:
    """Whatever a test does to the host key is undone."""
    machine = real_ssh.machine()
    kept = (machine.folder / "host").read_bytes()
    yield
    (machine.folder / "host").write_bytes(kept)
    machine.stop()
    machine.start()


async def everything(process: BackgroundProcess) -> bytes:
    told = b""
    with anyio.fail_after(120):
        while piece := await process.output():
            told += piece
    return told


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while True:
            if condition():
                return
            await anyio.sleep(0.05)


def runs(word: str) -> bool:
    return any(word in line for line in real_ssh.machine().processes())


async def failure(home: Path, **changes: object) -> str:
    with pytest.raises(EnvironmentFailed) as caught:
        async with open_ssh(real_ssh.opening(home, **changes)):
            pass
    return str(caught.value)


async def test_it_is_the_other_machine_and_not_isolated(far: RemoteEnvironment) -> None:
    assert (far.name, far.target, far.isolated) == ("ssh", f"{USER}@127.0.0.1", False)
    told = await far.run("id -un; pwd; umask")
    assert told.output == f"{USER}\n/home/{USER}\n0022\n"


async def test_the_machine_survives_a_new_account_on_the_host(far: RemoteEnvironment) -> None:
    """`useradd` replaces the file; here its replacement has the same content."""
    shutil.copy2("/etc/passwd", "/etc/passwd.replaced")
    shutil.move("/etc/passwd.replaced", "/etc/passwd")
    assert (await far.run("id -un; grep -c '^hermes:' /etc/passwd")).output.split() == [USER, "1"]


async def test_nothing_of_our_variables_is_sent(tmp_path: Path) -> None:
    given = real_ssh.opening(tmp_path, pass_variables=("REGION",))
    ours = {**given.variables, "REGION": "north", "LANG": "de_DE.UTF-8", "LC_TIME": "de"}
    given = EnvironmentOpening(given.settings, given.directory, given.home, ours)
    async with open_environment(given) as place:  # the server would accept every one
        told = (await place.run("env")).output
    for word in ("REGION", "de_DE", "LC_TIME", str(tmp_path)):
        assert word not in told


async def test_the_first_folder_is_the_one_named(tmp_path: Path) -> None:
    async with open_ssh(real_ssh.opening(tmp_path, cwd="/usr/share")) as place:
        assert (await place.run("pwd")).output == "/usr/share\n"
    assert "make it first" in await failure(tmp_path, cwd="~/missing")


async def test_no_exit_code_of_a_command_is_taken_for_ssh_s_own(far: RemoteEnvironment) -> None:
    for code in (1, 137, 254, 255):
        assert (await far.run(f"exit {code}")).exit_code == code
    assert (await far.run("kill -KILL $$")).exit_code == 137
    assert (await far.run("kill -KILL $PPID")).exit_code == 255
    assert (await far.run("echo still here")).output == "still here\n"


async def test_a_new_host_key_is_kept_and_a_changed_one_refused(
    tmp_path: Path, own_host_key: None
) -> None:
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        await place.run("true")
    known = tmp_path / "known_hosts"
    machine = real_ssh.machine()
    assert known.read_text().startswith(f"[127.0.0.1]:{machine.port} ssh-ed25519 ")
    known.write_text("# a remark\n" + known.read_text())
    machine.make_key("host")
    machine.stop()
    machine.start()
    told = await failure(tmp_path)
    assert "has CHANGED" in told
    assert f"{known}, line 2" in told
    assert f"ssh-keygen -R '[127.0.0.1]:{machine.port}' -f '{known}'" in told
    assert "CHANGED" in str(await why_not(real_ssh.opening(tmp_path)))


async def test_who_is_not_let_in_is_told_what_to_look_at(tmp_path: Path) -> None:
    machine = real_ssh.machine()
    stranger = str(machine.folder / "stranger")
    for told in (
        await failure(tmp_path, ssh_key=stranger),
        await failure(tmp_path, ssh_user=LOCKED),
        await failure(tmp_path, ssh_user="nobody-of-this-name"),
    ):
        assert "refused to let us in" in told
        assert "authorized_keys" in told
        assert "locked" in told


async def test_a_machine_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    assert "cannot be reached" in await failure(tmp_path, ssh_port=1)
    assert "cannot be reached" in await failure(tmp_path, ssh_host="no-such-host.invalid")


async def test_settings_that_cannot_work_are_refused_at_once(tmp_path: Path) -> None:
    for changes in ({"ssh_host": ""}, {"ssh_host": "-oProxyCommand=x"}, {"ssh_key": "/no/key"}):
        with pytest.raises(SettingsError, match="ssh_"):
            open_ssh(real_ssh.opening(tmp_path, **changes))


async def test_the_doctor_is_told_what_is_missing(tmp_path: Path) -> None:
    given = real_ssh.opening(tmp_path)
    assert await why_not(given) is None
    assert "no machine is named" in str(await why_not(real_ssh.opening(tmp_path, ssh_host="")))
    assert "cannot be reached" in str(await why_not(real_ssh.opening(tmp_path, ssh_port=1)))
    nothing = EnvironmentOpening(
        given.settings, given.directory, given.home, {"PATH": str(tmp_path)}
    )
    assert "install it" in str(await why_not(nothing))


async def test_a_connection_lost_under_a_command_is_the_place_s_failure_and_mended(
    far: RemoteEnvironment,
) -> None:
    machine = real_ssh.machine()
    await far.run("x=kept; cd /usr")

    async def cut() -> None:
        await until(lambda: runs("sleep 47"))
        machine.stop()

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
        with pytest.raises(EnvironmentFailed, match="was lost while the command ran"):
            await far.run("sleep 47")
    with pytest.raises(EnvironmentFailed, match="cannot be reached"):
        await far.run("true")
    machine.start()
    assert (await far.run("echo $x; pwd; pkill -u $USER -x sleep")).output == "kept\n/usr\n"


async def test_a_connection_lost_while_nobody_looks_is_mended_in_silence(
    far: RemoteEnvironment,
) -> None:
    await far.run("x=kept")
    real_ssh.machine().stop()
    real_ssh.machine().start()
    assert (await far.run("echo $x")).output == "kept\n"
    assert b"root:" in await far.read("/etc/passwd")


async def test_a_process_goes_on_without_a_connection_and_is_heard_again(
    far: RemoteEnvironment,
) -> None:
    machine = real_ssh.machine()
    process = await far.start("echo one; read x; echo $x; read x; echo $x; exit 3")
    assert await process.output() == b"one\n"
    await process.write(b"two\n")
    assert await process.output() == b"two\n"
    machine.stop()
    machine.start()
    await process.write(b"three\n")
    assert await everything(process) == b"three\n"
    assert await process.wait() == 3


async def test_a_process_is_found_by_a_later_life_of_ours(tmp_path: Path) -> None:
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        process = await place.start("echo before; read x; echo got $x; exit 4")
        assert await process.output() == b"before\n"
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        again = await place.find(process.handle)
        assert again is not None
        await again.write(b"word\n")
        assert await everything(again) == b"before\ngot word\n"
        assert await again.wait() == 4
        assert await place.find(process.handle) is None
        other = process.handle.replace("127.0.0.1", "other")
        assert await place.find(other) is None
        folder = json.loads(process.handle)["folder"]
        assert (await place.run(f"[ -e {folder} ]")).exit_code == 1


async def test_one_with_a_terminal_tells_how_it_ended_though_nobody_listens(
    far: RemoteEnvironment,
) -> None:
    process = await far.start("tty; stty size; exit 6", pty=True)
    with anyio.fail_after(120):
        assert await process.wait() == 6
    assert (await everything(process)).endswith(b"\r\n40 120\r\n")
    assert await process.wait() == 6


async def test_one_that_ended_while_nobody_looked_tells_how(tmp_path: Path) -> None:
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        process = await place.start("echo bye; exit 9")
    await until(lambda: not runs("hermes-process"))
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        again = await place.find(process.handle)
        assert again is not None
        assert await again.wait() == 9
        assert await everything(again) == b"bye\n"


async def test_more_commands_than_channels_run_side_by_side(far: RemoteEnvironment) -> None:
    told: list[str] = []

    async def one(number: int) -> None:
        told.append((await far.run(f"sleep 1; echo {number}")).output)

    async with anyio.create_task_group() as group:
        for number in range(14):  # the server allows ten on one connection
            group.start_soon(one, number)
    assert sorted(map(int, told)) == list(range(14))


async def test_a_loud_process_loses_nothing_and_keeps_its_log_short(
    far: RemoteEnvironment,
) -> None:
    process = await far.start("for i in {1..30}; do head -c 1M /dev/zero; done; echo end; sleep 60")
    size = 0
    with anyio.fail_after(60):
        while True:
            piece = await process.output()
            size += len(piece)
            if piece.endswith(b"end\n"):
                break
    assert size == 30 * 1024 * 1024 + 4
    used = "du -skc /tmp/.hermes-process-* | tail -n 1 | cut -f1"
    with anyio.fail_after(120):
        while True:  # it is shortened after it was read
            if int((await far.run(used)).output) < 20_000:
                break
            await anyio.sleep(0.05)
    await process.kill()


async def test_an_odd_shell_and_a_loud_login_do_no_harm(tmp_path: Path) -> None:
    machine = real_ssh.machine()
    machine.inside("sh", "-c", f"echo 'echo loud; echo LOUD >&2' > /home/{USER}/.bashrc")
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        assert (await place.run("echo quiet")).output == "quiet\n"
    machine.inside("rm", f"/home/{USER}/.bashrc")
    async with open_ssh(real_ssh.opening(tmp_path, ssh_user=ODD)) as place:
        assert (await place.run("echo $BASH_VERSION '$x' \"!!\"")).output.endswith(" $x !!\n")


def kept_here() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("hermes-ssh-*"))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_cycles_leave_nothing_here_or_there(tmp_path: Path) -> None:
    machine = real_ssh.machine()
    machine.inside("sh", "-c", "rm -rf /tmp/.hermes-*")
    there = machine.inside("sh", "-c", "ls -A /tmp").stdout  # what other tests left
    before, open_files = kept_here(), descriptors()
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        (folder,) = kept_here() - before
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(os.fsencode(folder / "c")) + 17 <= 104
        for cycle in range(10):
            process = await place.start("sleep 60 & sleep 60", pty=cycle % 5 == 0)
            await process.kill()
            while await process.output():
                pass
            with anyio.move_on_after(0.02):
                await place.run("sleep 60")
        assert not runs("sleep 60")
    assert machine.inside("sh", "-c", "ls -A /tmp").stdout == there
    await until(lambda: machine.processes() == [])
    assert kept_here() == before
    assert descriptors() <= open_files
