"""A real container: its isolation, and what becomes of us when it, or its daemon, goes away."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
import real_docker
from real_docker import Daemon

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.events import Event
from hermes.core.protocols import BackgroundProcess, Environment
from hermes.environments.docker import CONTAINER_CAPABILITIES, DockerContainer, open_docker, why_not
from hermes.environments.open import EnvironmentOpening, open_environment
from hermes.environments.process_registry import ProcessRegistry
from hermes.environments.remote.client import ClientProgram
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[RemoteEnvironment]:
    given = real_docker.opening(tmp_path, memory_mb=64, processes=40)
    async with open_docker(given) as environment:
        yield environment


async def container(place: Environment) -> str:
    return (await place.run("hostname")).output.strip()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while True:
            if condition():
                return
            await anyio.sleep(0.05)


async def everything(process: BackgroundProcess) -> bytes:
    told = b""
    with anyio.fail_after(120):
        while piece := await process.output():
            told += piece
    return told


async def test_a_container_is_hardened(box: RemoteEnvironment) -> None:
    assert box.isolated
    id = await container(box)
    shown = (
        "{{.HostConfig.CapDrop}} {{.HostConfig.CapAdd}} {{.HostConfig.SecurityOpt}} "
        "{{.HostConfig.PidsLimit}} {{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} "
        '{{.HostConfig.AutoRemove}} {{.HostConfig.Init}} {{index .Config.Labels "hermes"}}'
    )
    told = real_docker.daemon().docker("inspect", "--format", shown, id).stdout.decode()
    cpus = f"{min(2, os.cpu_count() or 1)}000000000"
    memory = f"{64 * 1024 * 1024}"
    capabilities = " ".join(CONTAINER_CAPABILITIES)
    words = f"[ALL] [{capabilities}] [no-new-privileges] 40 {memory} {cpus} true true 1\n"
    assert told.replace("CAP_", "") == words
    status = (await box.run("grep -E 'CapEff|NoNewPrivs' /proc/self/status")).output.split()
    assert status == ["CapEff:", "00000000000000fb", "NoNewPrivs:", "1"]


async def test_root_inside_can_look_after_files_and_processes_of_others(
    box: RemoteEnvironment,
) -> None:
    await box.write("/etc/passwd", b"root:x:0:0::/root:/bin/bash\nweb:x:33:33::/:/bin/bash\n")
    told = await box.run(
        "echo x > f; chown web f; chmod 600 f; cat f; stat -c %U f; su web -c id\n"
        "su web -c 'sleep 60' & sleep 0.2; killall sleep; wait $!; echo $?; mknod n c 1 3"
    )
    assert told.output.splitlines()[:3] == ["x", "web", "uid=33(web) gid=33 groups=33"]
    assert "Operation not permitted" in told.output
    result = await box.run("su web -c 'echo begun; sleep 60'", timeout=1)
    assert result.timed_out
    assert (await box.run("pidof sleep")).exit_code == 1


async def test_the_first_folder_the_mounts_and_the_variables_are_as_told(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/file").write_text("from outside")
    given = real_docker.opening(
        tmp_path,
        cwd="/made/for/it",
        docker_volumes=(f"{tmp_path}/shared:/data:ro",),
        docker_network=False,
        pass_variables=("REGION", "A*"),
    )
    variables = {**given.variables, "REGION": "north", "OTHER": "no"}
    given = EnvironmentOpening(given.settings, given.directory, given.home, variables)
    async with open_environment(given) as place:
        told = (await place.run("pwd; cat /data/file; echo; env")).output
        assert told.startswith("/made/for/it\nfrom outside\n")
        assert "REGION=north" in told
        assert "OTHER" not in told
        assert f"HOME={tmp_path}" not in told
        assert (await place.run("echo x > /data/file")).exit_code != 0
        assert (await place.run("ls /sys/class/net")).output == "lo\n"
        assert await place.read("/data/file") == b"from outside"


async def test_a_folder_that_is_not_absolute_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="absolute"):
        open_docker(real_docker.opening(tmp_path, cwd="work"))


@pytest.mark.parametrize(
    ("image", "words"),
    [(real_docker.WITHOUT_BASH, "has no bash"), ("hermes-test:missing", "no image hermes-test")],
)
async def test_an_image_that_will_not_do_is_named(tmp_path: Path, image: str, words: str) -> None:
    with pytest.raises(EnvironmentFailed, match=words) as failure:
        async with open_docker(real_docker.opening(tmp_path, docker_image=image)):
            pass
    assert image in str(failure.value)
    assert real_docker.daemon().containers(f"ancestor={image}") == []


async def test_no_exit_code_of_a_command_is_taken_for_docker_s_own(box: RemoteEnvironment) -> None:
    for code in (1, 125, 126, 127, 137, 255):
        assert (await box.run(f"exit {code}")).exit_code == code
    assert (await box.run("kill -KILL $$")).exit_code == 137
    assert (await box.run("kill -KILL $PPID; sleep 60")).exit_code == 137
    assert (await box.run("echo still here")).output == "still here\n"


async def test_a_command_that_takes_all_memory_fails_alone(box: RemoteEnvironment) -> None:
    result = await box.run("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}", timeout=120)
    assert result.exit_code != 0
    assert (await box.run("echo still here")).output == "still here\n"


async def test_a_timeout_leaves_no_process_even_when_no_more_can_be_started(
    box: RemoteEnvironment,
) -> None:
    await box.run("true")
    bomb = "f() { sleep 50 & f & sleep 50; }; f; f; while :; do f 2>/dev/null; done"
    with anyio.fail_after(120):
        result = await box.run(bomb, timeout=1)
        assert result.timed_out
        assert (await box.run("pidof sleep")).exit_code == 1


def host_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


async def test_it_runs_inside_and_never_on_the_host(box: RemoteEnvironment) -> None:
    ours = host_namespace()
    assert (await box.run("readlink /proc/self/ns/pid")).output.strip() != ours
    process = await box.start("readlink /proc/self/ns/pid; exec sleep 61.5")
    told = (await process.output()).decode().strip()
    assert told.startswith("pid:")
    assert told != ours
    await process.kill()
    await everything(process)
    assert (await box.run("pidof sleep; ls -A /tmp | grep -c process")).output == "0\n"


async def test_a_loud_process_is_heard_out_where_no_hole_can_be_punched(
    box: RemoteEnvironment,
) -> None:
    loud = "head -c 30000000 /dev/zero | tr '\\0' x; read y; echo end"
    process = await box.start(loud)
    size = 0
    with anyio.fail_after(120):
        while size < 30_000_000:
            size += len(await process.output())
        # Not before its log has been emptied:
        await box.run("while [ -s /tmp/.hermes-process-*/log ]; do sleep 0.02; done")
        await process.write(b"\n")
    assert size == 30_000_000
    assert await everything(process) == b"end\n"


async def test_what_nobody_listens_to_any_more_is_ended(box: RemoteEnvironment) -> None:
    await box.run("head -c 300000000 /dev/zero > /srv/big")
    with anyio.move_on_after(0.3) as clock:
        await box.read("/srv/big")
    assert clock.cancelled_caught
    assert (await box.run("pidof cat")).exit_code == 1
    process = await box.start("echo ready; sleep 60")
    assert await process.output() == b"ready\n"
    with anyio.move_on_after(0.3) as clock:
        await process.write(b"x" * 1_000_000)  # more than a pipe takes
    assert clock.cancelled_caught
    assert (await box.run("pidof cat")).exit_code == 1


async def test_a_container_killed_under_a_command_is_the_place_s_failure(
    box: RemoteEnvironment,
) -> None:
    await box.run("x=1; echo kept > /srv/file")
    before = await container(box)

    async def kill() -> None:
        await until(lambda: b"sleep" in daemon.docker("top", before).stdout)
        daemon.docker("kill", before)

    daemon = real_docker.daemon()
    async with anyio.create_task_group() as group:
        group.start_soon(kill)
        with pytest.raises(EnvironmentFailed, match="ended under us"):
            await box.run("sleep 60")
    result = await box.run("echo ${x-none}; cat /srv/file")  # a new one, with nothing in it
    assert result.output.startswith("none\n")
    assert await container(box) != before


async def test_a_container_that_goes_while_nobody_looks_is_told_once(
    box: RemoteEnvironment,
) -> None:
    before = await container(box)
    real_docker.daemon().docker("rm", "--force", before)
    with pytest.raises(EnvironmentFailed, match=f"container {before} ended"):
        await box.run("true")
    assert (await box.run("echo new")).output == "new\n"
    with pytest.raises(EnvironmentFailed):
        real_docker.daemon().docker("rm", "--force", await container(box))
        await box.read("/etc/passwd")


async def test_a_daemon_that_stops_is_the_place_s_failure_and_says_how_to_start_it(
    tmp_path: Path,
) -> None:
    real_docker.daemon()  # or skip
    daemon = Daemon()
    try:
        given = real_docker.opening(tmp_path, docker_host=daemon.address)
        async with open_docker(given) as place:
            assert (await place.run("echo here")).output == "here\n"
            daemon.stop()
            with pytest.raises(
                EnvironmentFailed, match=r"does not answer; start it \(`sudo systemctl"
            ):
                await place.run("true")
            assert "does not answer" in str(await why_not(given))
            daemon.start()
            with pytest.raises(EnvironmentFailed, match="ended under us"):
                await place.run("true")
            assert (await place.run("echo again")).output == "again\n"
    finally:
        daemon.remove()


SHORT_LINGER_S = 3.0
"""Long enough for the first command on a busy machine."""
LIFE = """
import os, signal, sys
import anyio
sys.path.insert(0, sys.argv[1])
import test_docker

async def main():
    async with test_docker.short_lived(sys.argv[2], sys.argv[3]) as place:
        print((await place.run("hostname")).output.strip())
        if sys.argv[4] == "process":
            process = await place.start("echo first; read x; echo got $x; exit 5")
            print(process.handle)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def short_lived(address: str, docker: str) -> RemoteEnvironment:
    settings = TerminalSettings(docker_host=address, docker_image=real_docker.WITH_BASH)
    client = ClientProgram(docker, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    made = DockerContainer(client, settings, linger=SHORT_LINGER_S)
    return RemoteEnvironment("docker", "x", made, settings=settings, isolated=True)


def live_and_crash(what: str) -> list[str]:
    daemon = real_docker.daemon()
    program = subprocess.check_output(["which", "docker"], text=True).strip()
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", LIFE, here, daemon.address, program, what],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.splitlines()


async def test_our_crash_leaves_no_container(tmp_path: Path) -> None:
    (id,) = live_and_crash("nothing")
    await until(lambda: real_docker.daemon().containers(f"id={id}") == [])


async def test_a_process_outlives_our_crash_and_its_container_outlives_it_not(
    tmp_path: Path,
) -> None:
    id, handle = live_and_crash("process")
    await anyio.sleep(
        1.5 * SHORT_LINGER_S
    )  # longer than the container waits for somebody to come back
    async with open_docker(real_docker.opening(tmp_path)) as place:
        assert await container(place) != id
        process = await place.find(handle)
        assert process is not None
        assert await process.output() == b"first\n"
        await process.write(b"word\n")
        assert await everything(process) == b"got word\n"
        assert await process.wait() == 5
        assert await place.find(handle) is None
        assert await place.find(handle.replace(id, "0" * 12)) is None
    await until(lambda: real_docker.daemon().containers(f"id={id}") == [])


async def test_leaving_spares_a_container_with_a_process_and_removes_any_other(
    tmp_path: Path,
) -> None:
    async with open_docker(real_docker.opening(tmp_path)) as place:
        empty = await container(place)
    assert real_docker.daemon().containers(f"id={empty}") == []
    async with open_docker(real_docker.opening(tmp_path)) as place:
        id = await container(place)
        process = await place.start("echo words; sleep 60")
    assert len(real_docker.daemon().containers(f"id={id}")) == 1
    async with open_docker(real_docker.opening(tmp_path)) as place:
        again = await place.find(process.handle)
        assert again is not None
        assert await again.output() == b"words\n"
        await again.kill()
        assert await everything(again) == b"Terminated\n"  # says the shell around `sleep`
        assert await again.wait() == 143
    real_docker.daemon().docker("rm", "--force", id)


async def test_the_registry_finds_a_process_again_in_the_container_of_before(
    tmp_path: Path,
) -> None:
    told: list[Event] = []

    async def publish(*events: Event) -> list[int]:
        told.extend(events)
        return []

    given = real_docker.opening(tmp_path)
    async with open_docker(given) as place, ProcessRegistry(tmp_path, publish) as registry:
        view = await registry.start(place, "echo one; read x; echo two; exit 8", run="r")
    async with open_docker(given) as place, ProcessRegistry(tmp_path, publish) as registry:
        (again,) = await registry.recover(place)
        assert (again.id, again.status) == (view.id, "running")
        await registry.write(again.id, b"\n")
        ended = await registry.wait(again.id, timeout=120)
        assert (ended.status, ended.exit_code) == ("exited", 8)
        assert (await registry.log(again.id)).startswith("one\ntwo\n")


async def test_one_that_was_made_and_never_started_is_swept_away(tmp_path: Path) -> None:
    daemon = real_docker.daemon()
    host = os.uname().nodename
    made = [
        daemon.docker(
            *("create", "--label", "hermes=1", "--label", f"hermes.owner={owner}"),
            *(real_docker.WITH_BASH, "true"),
        ).stdout.decode().strip()
        for owner in (f"{host}/999999999/dead", "elsewhere/1/not-ours-to-judge")
    ]  # fmt: skip
    async with open_docker(real_docker.opening(tmp_path)):
        assert daemon.containers("status=created") == [made[1]]
    daemon.docker("rm", made[1])


async def test_the_doctor_is_told_what_is_missing(tmp_path: Path) -> None:
    given = real_docker.opening(tmp_path)
    assert await why_not(given) is None
    nothing = EnvironmentOpening(
        given.settings, given.directory, given.home, {"PATH": str(tmp_path)}
    )
    assert "install one" in str(await why_not(nothing))
    assert "install" in str(await why_not(real_docker.opening(tmp_path, docker_program="no-such")))
    elsewhere = real_docker.opening(tmp_path, docker_host=f"unix://{tmp_path}/none")
    assert "start it" in str(await why_not(elsewhere))
