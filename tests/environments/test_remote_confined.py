"""Commands on another machine and in a container, held to their verdict by the kernel there."""

import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
import real_docker
import real_ssh

from hermes.core.actions import ConfinementProfile
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess, ReportsRefusals, StartsProcesses
from hermes.environments.docker import open_docker
from hermes.environments.remote.confined import ConfiningRemoteEnvironment
from hermes.environments.remote.run import RemoteExitMessage
from hermes.environments.sandboxing import support
from hermes.environments.ssh import open_ssh

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


@pytest.fixture(params=["ssh", "docker"])
async def far(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ConfiningRemoteEnvironment]:
    if not real_docker.SYSTEM_PYTHON.exists():
        pytest.skip("the far side needs the Python of this system")
    if request.param == "ssh":
        opened = open_ssh(real_ssh.opening(tmp_path))
    else:
        image = real_docker.image_with_python()
        opened = open_docker(real_docker.opening(tmp_path, docker_image=image))
    async with opened as place:
        assert (await place.kernel_support()).reason == ""
        yield place


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[ConfiningRemoteEnvironment]:
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        assert (await place.kernel_support()).reason == ""
        yield place


async def run(
    place: ConfiningRemoteEnvironment, command: str, profile: ConfinementProfile | None = None
) -> tuple[int, str, list[str]]:
    async with place.confined(profile or ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=60)
        return result.exit_code, result.output, [str(each) for each in confined.collect()]


async def everything(process: BackgroundProcess) -> bytes:
    said = b""
    with anyio.fail_after(60):
        while piece := await process.output():
            said += piece
    return said


TRICKS = {
    "a redirection": "echo changed >| $KEPT",
    "a variable": 'X=$KEPT; echo changed >> "$X"',
    "an arithmetic subscript": "a='x[$(echo changed > $KEPT)]'; echo $((a))",
    "a removal": "rm -f $KEPT",
    "a rename over it": "echo changed > $TMPDIR/x; mv -f $TMPDIR/x $KEPT",
    "a symlink": "ln -s $KEPT $TMPDIR/l; echo changed > $TMPDIR/l",
    "a hard link": "ln $KEPT $TMPDIR/h; echo changed > $TMPDIR/h",
    "a mode": "chmod 777 $KEPT",
    "a time": "touch -d 2001-01-01 $KEPT",
    "python": 'python3 -c \'import os; open(os.environ["KEPT"], "w").write("changed")\'',
    "a detached child": "setsid sh -c 'echo changed > $KEPT'; sleep 0.3",
}


async def test_a_command_judged_read_only_changes_nothing_there(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("mkdir -p ~/kept; echo -n 'as it was' > ~/kept/file; export KEPT=~/kept/file")
    look = "stat -c '%a %Y %i %h %s' ~/kept/file; cat ~/kept/file; ls -A ~/kept"
    before = (await far.run(look)).output
    assert before.endswith("as it wasfile\n")
    for trick, command in TRICKS.items():
        _, output, blocked = await run(far, command)
        assert (await far.run(look)).output == before, (trick, output)
        assert any("/kept/file by " in each for each in blocked), (trick, output, blocked)


async def test_ordinary_reads_run_as_without_confinement(far: ConfiningRemoteEnvironment) -> None:
    for command in (
        "ps",
        "df / | wc -l",
        "find /etc -maxdepth 1 -name 'host*' | sort",
        "printf 'b\\na\\n' | sort | sed s/a/c/",
        "cat <(echo a) <(echo b)",
        "cat <<< text > /dev/null && echo fine",
        "id -u",
        "x=$(mktemp) && echo y > $x && cat $x",
    ):
        code, output, blocked = await run(far, command)
        assert (code, blocked) == (0, []), (command, output)
    free = await far.run("find /etc -maxdepth 1 -name 'host*' | sort; exit 3")
    held = await run(far, "find /etc -maxdepth 1 -name 'host*' | sort; exit 3")
    assert held == (3, free.output, [])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")
async def test_git_status_runs_and_leaves_its_index_alone(
    machine: ConfiningRemoteEnvironment,
) -> None:
    await machine.run("git init -q repo && cd repo && echo a > a && git add a")
    code, output, blocked = await run(machine, "git status --short; git diff --stat")
    assert (code, output, blocked) == (0, "A  a\n", [])
    code, output, _ = await run(
        machine,
        "git -c user.name=a -c user.email=b commit -qm one",
        ConfinementProfile(repository="records"),
    )
    assert (code, output) == (0, "")
    assert (await machine.run("git log --oneline | wc -l")).output == "1\n"


async def test_a_verdict_that_names_a_folder_reaches_that_folder_alone(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("mkdir -p ~/one ~/two; cd ~")
    home = far.folder
    profile = ConfinementProfile(writable=(f"{home}/one",))
    command = "echo a > one/x; mkdir one/y; echo b > two/x"
    _, _, blocked = await run(far, command, profile)
    assert blocked == [f"write to {home}/two/x by bash"]
    assert (await far.run("ls one two")).output == "one:\nx\ny\n\ntwo:\n"


async def test_a_path_that_leads_elsewhere_there_is_refused(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd ~; mkdir real; ln -s real link")
    with pytest.raises(ToolError, match="/real, which the verdict does not cover"):
        await run(far, "touch link/x", ConfinementProfile(writable=(f"{far.folder}/link",)))
    assert (await far.run("ls real")).output == ""


async def test_files_are_written_only_where_the_verdict_says(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd ~; mkdir -p fine")
    home = far.folder
    async with far.confined(ConfinementProfile(writable=(f"{home}/fine",))) as confined:
        await confined.write("fine/new", b"a")
        with pytest.raises(ToolError, match="outside"):
            await confined.write(f"{home}/other", b"b")
    assert await far.read("fine/new") == b"a"
    assert (await far.run("[[ -e other ]] || echo none")).output == "none\n"


SWAPS = """
import os, time
while not os.path.exists("stop"):
    os.rename("fine/inner", "fine/aside")
    os.symlink("../elsewhere", "fine/inner")
    time.sleep(0.03)
    os.unlink("fine/inner")
    os.rename("fine/aside", "fine/inner")
    time.sleep(0.03)
"""


async def test_a_folder_that_becomes_a_link_after_the_check_leads_no_write_elsewhere(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd $(mktemp -d); mkdir -p fine/inner elsewhere; echo -n kept > elsewhere/file")
    home, written = far.folder, 0
    await far.write("swaps.py", SWAPS.encode())
    process = await far.start("python3 swaps.py")
    async with far.confined(ConfinementProfile(writable=(f"{home}/fine",))) as confined:
        for _ in range(12):
            with suppress(ToolError):
                await confined.write("fine/inner/file", b"changed")
                written += 1
    await far.run("touch stop")
    await everything(process)
    assert await far.read("elsewhere/file") == b"kept"
    assert written


async def test_a_confined_write_keeps_the_mode_and_makes_folders(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd $(mktemp -d); mkdir fine; echo a > fine/file; chmod 640 fine/file")
    async with far.confined(ConfinementProfile(writable=(f"{far.folder}/fine",))) as confined:
        data = bytes(range(256)) * 1000
        await confined.write("fine/file", data)
        await confined.write("fine/one/two", b"")
        with pytest.raises(ToolError, match="a folder"):
            await confined.write("fine/one", b"")
    assert await far.read("fine/file") == data
    assert (await far.run("stat -c %a fine/file; ls -A fine fine/one")).output == (
        "640\nfine:\nfile\none\n\nfine/one:\ntwo\n"
    )


async def test_the_shell_goes_on_through_confined_and_free_commands(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd /tmp; free=1; greet() { echo hello $1; }")
    assert (await run(far, "greet $free; held=2; cd /etc"))[1] == "hello 1\n"
    assert far.folder == "/etc"
    assert (await run(far, "echo $held $PWD"))[1] == "2 /etc\n"
    assert (await far.run("greet $held; pwd")).output == "hello 2\n/etc\n"


async def test_a_confined_command_leaves_no_code_for_a_free_one(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("true")
    await run(far, "ls() { echo forged; }; PATH=/forged; alias cat='echo forged'; x=1")
    assert (await far.run("ls -d /etc; echo $x; [[ $PATH != /forged ]] && echo own")).output == (
        "/etc\n1\nown\n"
    )


async def test_no_verdict_reaches_the_state_of_the_session(far: ConfiningRemoteEnvironment) -> None:
    await far.run("x=kept")
    attack = (
        "for f in /tmp/.hermes-*/*; do echo 'echo forged' > $f; done; rm -rf /tmp/.hermes-*; "
        "touch /tmp/allowed"
    )
    _, _, blocked = await run(far, attack, ConfinementProfile(writable=("/tmp",)))
    assert any(".hermes-" in each for each in blocked)
    left = "echo $x; ls /tmp/allowed; rm /tmp/allowed"
    assert (await far.run(left)).output == "kept\n/tmp/allowed\n"
    assert (await run(far, "echo $x"))[1] == "kept\n"


async def test_a_background_process_is_held_too_and_reports_it(
    far: ConfiningRemoteEnvironment,
) -> None:
    await far.run("cd ~; mine=3")
    async with far.confined(ConfinementProfile()) as confined:
        assert isinstance(confined, StartsProcesses)
        process = await confined.start("echo begun $mine; echo x > new; cat; exit 4")
    await process.write(b"fed\n")
    with anyio.fail_after(60):
        said = b""
        while b"fed" not in said:
            said += await process.output()
    assert b"begun 3\n" in said
    await process.kill()
    await everything(process)
    async with far.confined(ConfinementProfile()) as confined:
        assert isinstance(confined, StartsProcesses)
        process = await confined.start("echo x > new; exit 4")
    await everything(process)
    assert await process.wait() == 4
    assert isinstance(process, ReportsRefusals)
    assert [str(each) for each in process.refused()] == [f"write to {far.folder}/new by bash"]
    assert (process.judged, process.refused()) == ("read-only", [])
    assert (await far.run("[[ -e new ]] || echo none")).output == "none\n"


async def test_a_terminal_works_under_confinement(far: ConfiningRemoteEnvironment) -> None:
    await far.run("cd ~")
    async with far.confined(ConfinementProfile()) as confined:
        assert isinstance(confined, StartsProcesses)
        process = await confined.start(
            "test -t 0 && test -t 1 && echo terminal; read x; echo got $x > /dev/tty; echo n > new",
            pty=True,
        )
    await process.write(b"words\n")
    said = await everything(process)
    assert b"terminal" in said and b"got words" in said
    assert (await far.run("[[ -e new ]] || echo none")).output == "none\n"


async def test_what_a_command_leaves_behind_stays_confined(far: ConfiningRemoteEnvironment) -> None:
    await far.run("cd ~")
    code, output, _ = await run(far, "(sleep 0.5; echo late > new) > /dev/null 2>&1 & echo begun")
    assert (code, output) == (0, "begun\n")
    await anyio.sleep(1.5)
    assert (await far.run("[[ -e new ]] || echo none")).output == "none\n"


async def test_a_command_that_runs_too_long_is_ended_with_all_it_started(
    far: ConfiningRemoteEnvironment,
) -> None:
    async with far.confined(ConfinementProfile()) as confined:
        result = await confined.run("sleep 77 & sleep 78", timeout=1)
    assert result.timed_out
    shown = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done 2>/dev/null"
    assert "sleep 7" not in (await far.run(f"{shown} | grep '^sleep'")).output


async def test_a_command_may_not_reach_the_network_or_signal_others(
    machine: ConfiningRemoteEnvironment,
) -> None:
    process = await machine.start("sleep 60")
    _, _, blocked = await run(machine, f"kill {process.pid}; exec 3<>/dev/tcp/127.0.0.1/22")
    assert any(each.startswith("signal to") for each in blocked)
    assert any("network" in each for each in blocked)
    assert (await machine.run(f"kill -0 {process.pid} && echo alive")).output == "alive\n"
    await process.kill()


async def test_a_killed_command_has_the_exit_code_that_a_shell_reports(
    far: ConfiningRemoteEnvironment,
) -> None:
    assert (await run(far, "kill -9 $$"))[0] == 137
    assert (await run(far, "kill -TERM $$"))[0] in (143, 15)


async def test_nothing_of_a_session_stays_there(tmp_path: Path) -> None:
    async with open_ssh(real_ssh.opening(tmp_path)) as place:
        await place.kernel_support()
        await run(place, "echo a > $TMPDIR/x")
        folder = place.session.shell.folder
    left = real_ssh.machine().inside("ls", "-A", "/tmp").stdout
    assert folder.rpartition("-")[2] not in left


async def test_a_machine_without_python_says_why_and_works_as_before(tmp_path: Path) -> None:
    async with open_docker(real_docker.opening(tmp_path)) as place:
        support = await place.kernel_support()
        assert "there is no python3" in support.reason
        await place.run("cd /tmp; x=1")
        assert (await place.run("echo $x $PWD")).output == "1 /tmp\n"


async def test_a_container_that_was_replaced_never_runs_a_command_unconfined(
    tmp_path: Path,
) -> None:
    image = real_docker.image_with_python()
    async with open_docker(real_docker.opening(tmp_path, docker_image=image)) as place:
        assert (await place.kernel_support()).reason == ""
        id = (await place.run("hostname")).output.strip()
        real_docker.daemon().docker("kill", id)
        with pytest.raises(EnvironmentFailed):
            await run(place, "touch /srv/one")
        with pytest.raises(EnvironmentFailed):
            await run(place, "touch /srv/one")
        assert (await run(place, "touch /srv/one"))[0] == 1
        assert (await place.run("ls /srv")).output == ""


async def test_a_machine_that_cannot_confine_runs_no_command_that_must_be(tmp_path: Path) -> None:
    async with open_docker(real_docker.opening(tmp_path)) as place:
        with pytest.raises(EnvironmentFailed, match="could not be confined"):
            await run(place, "touch /srv/one")
        async with place.confined(ConfinementProfile()) as confined:
            assert isinstance(confined, StartsProcesses)
            with pytest.raises(EnvironmentFailed, match="could not be confined"):
                await confined.start("touch /srv/one")
        assert (await place.run("ls /srv")).output == ""


def test_a_last_word_carries_odd_folders() -> None:
    assert RemoteExitMessage("0 - /a b/").folder == "/a b"
    assert RemoteExitMessage("0 - /a\\nb\\\\nc/").folder == "/a\nb\\nc"
    assert RemoteExitMessage("0 - //").folder == "/"
    assert (
        RemoteExitMessage("7").code,
        RemoteExitMessage("lost").code,
        RemoteExitMessage(None).code,
    ) == (7, None, None)
