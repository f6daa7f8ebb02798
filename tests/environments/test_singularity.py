"""Apptainer and Singularity: how instances are started, left and lost. Nothing real could be had:
the program is a stand-in that is strict about its arguments and runs commands on this machine.

The contract suite runs on the same stand-in, as `singularity-stand-in`.
"""

import os
import subprocess
import time
from pathlib import Path

import anyio
import pytest
from stand_ins.places import calls, install, opening, singularity, want

from hermes.core.errors import EnvironmentFailed
from hermes.core.plugins import load_plugin
from hermes.core.protocols import StartsProcesses
from hermes.environments.remote.process_scripts import BUSY_SCRIPT, KEEP_ALIVE_SCRIPT
from hermes.environments.singularity import open_singularity, why_not

pytestmark = pytest.mark.anyio


def started(folder: Path) -> list[str]:
    """The words of the one start that was asked for, without its help."""
    found = [each["argv"] for each in calls(folder) if each["argv"][:2] == ["instance", "start"]]
    (words,) = [words[2:] for words in found if words[2:] != ["--help"]]
    return words


async def test_an_instance_has_walls_and_limits(tmp_path: Path) -> None:
    async with singularity(tmp_path, memory_mb=512, cpus=99.0, processes=64) as place:
        assert place.isolated
        assert place.target == "docker://debian:stable-slim"
        assert isinstance(place, StartsProcesses)
    *words, image, name = started(tmp_path)
    assert words == [
        *("--containall", "--no-home", "--writable-tmpfs", "--cleanenv", "--no-privs"),
        *("--memory", "512M", "--cpus", str(os.cpu_count()), "--pids-limit", "64"),
    ]
    assert image == "docker://debian:stable-slim"
    assert name.startswith("hermes-")
    assert calls(tmp_path)[-1]["argv"] == ["instance", "stop", "--timeout", "2", name]
    assert not (tmp_path / "stand-in" / "containers" / name).exists()


async def test_without_network_it_gets_none(tmp_path: Path) -> None:
    async with singularity(tmp_path, docker_network=False):
        pass
    words = started(tmp_path)
    assert words[words.index("--net") :][:3] == ["--net", "--network", "none"]


async def test_an_old_program_is_not_asked_for_what_it_does_not_know(tmp_path: Path) -> None:
    place = singularity(tmp_path)
    want(tmp_path, "old")
    async with place:
        assert (await place.run("echo here")).output == "here\n"
    assert "--memory" not in started(tmp_path)
    assert "--containall" in started(tmp_path)


async def test_limits_that_cannot_be_had_are_a_place_that_failed(tmp_path: Path) -> None:
    place = singularity(tmp_path)
    want(tmp_path, "no-cgroups")
    with pytest.raises(EnvironmentFailed, match=r"terminal\.memory_mb.*to 0"):
        async with place:
            pass
    async with singularity(tmp_path, memory_mb=0, cpus=0.0, processes=0) as without:
        assert (await without.run("echo here")).output == "here\n"


async def test_an_image_that_is_not_there_is_told(tmp_path: Path) -> None:
    place = singularity(tmp_path, singularity_image="docker://no/such")
    want(tmp_path, "no-image")
    with pytest.raises(EnvironmentFailed, match="docker://no/such"):
        async with place:
            pass


async def test_an_image_without_bash_is_told(tmp_path: Path) -> None:
    place = singularity(tmp_path)
    want(tmp_path, "no-bash")
    with pytest.raises(EnvironmentFailed, match='"bash": executable file not found'):
        async with place:
            pass
    assert list((tmp_path / "stand-in" / "containers").iterdir()) == []


async def test_neither_the_program_nor_commands_see_a_key(tmp_path: Path) -> None:
    async with singularity(tmp_path, pass_variables=("PASSED",)) as place:
        told = (await place.run("env")).output
    assert "PASSED=on" in told
    assert "sk-1" not in told
    for call in calls(tmp_path):
        assert not [name for name in call["variables"] if "KEY" in name or "TOKEN" in name]
        if call["argv"][0] == "exec":
            assert call["argv"][1] == "--cleanenv"


async def test_an_instance_that_ends_under_us_is_told_and_replaced(tmp_path: Path) -> None:
    async with singularity(tmp_path) as place:
        await place.run("x=1")
        (container,) = (tmp_path / "stand-in" / "containers").iterdir()
        with pytest.raises(EnvironmentFailed, match="ended under us"):
            await place.run(f"rm -rf {container}; kill -9 $PPID $$")
        assert (await place.run("echo ${x-none}")).output.endswith("none\n")


async def test_a_command_that_kills_its_shell_is_not_the_place_failing(tmp_path: Path) -> None:
    async with singularity(tmp_path) as place:
        assert (await place.run("echo last; kill -9 $$")).exit_code == 137
        assert (await place.run("echo on")).output == "on\n"


async def test_a_process_outlives_us_and_is_found_again(tmp_path: Path) -> None:
    async with singularity(tmp_path) as place:
        process = await place.start("echo up; read -r x; exit 5")
        assert await process.output() == b"up\n"
    async with singularity(tmp_path) as place:
        again = await place.find(process.handle)
        assert again is not None
        await again.write(b"\n")
        while await again.output():
            pass
        assert await again.wait() == 5


async def test_an_old_instance_in_which_nobody_is_is_swept_up(tmp_path: Path) -> None:
    folder = tmp_path / "stand-in" / "containers"
    old, fresh = folder / "hermes-1000-a", folder / f"hermes-{int(time.time())}-b"
    used, others = folder / "hermes-1000-c", folder / "of-somebody"
    for container in (old, fresh, used, others):
        (container / "work").mkdir(parents=True)
    place = singularity(tmp_path)
    want(tmp_path, "nobody", "hermes-1000-a")
    # Seen in all the others, as they share our /proc; it ends with its input.
    argv = ["bash", "-c", "read -r x", "hermes-process"]
    async with await anyio.open_process(argv) as somebody:
        async with place:
            assert not old.exists()
        somebody.terminate()
    assert fresh.exists()
    assert used.exists()
    assert others.exists()


def test_a_place_keeps_up_while_somebody_is_in_it_and_no_longer() -> None:
    """In a process namespace of its own, which is what a real container has."""
    apart = ["unshare", "-rpf", "--mount-proc", "--kill-child", "bash", "-c"]
    if subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no process namespace can be made here")
    both = """
      bash -c "$BUSY" || echo nobody is there
      bash -c 'read -r x' hermes-line < <(exec sleep 60) & line=$!
      until bash -c "$BUSY"; do sleep 0.01; done
      bash -c "$KEEP" keep 0.02 & keep=$!
      sleep 0.3; kill -0 $keep && echo it keeps up
      kill $line; wait $keep && echo it ends
    """
    done = subprocess.run(
        [*apart, both],
        env={"PATH": os.environ["PATH"], "BUSY": BUSY_SCRIPT, "KEEP": KEEP_ALIVE_SCRIPT},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "nobody is there\nit keeps up\nit ends\n"


async def test_without_the_program_it_is_said_what_to_install(tmp_path: Path) -> None:
    nothing = opening(tmp_path)
    with_nothing = nothing.__class__(
        nothing.settings, tmp_path, tmp_path, {"PATH": str(tmp_path)}, nothing.secrets
    )
    with pytest.raises(EnvironmentFailed, match="install"):
        open_singularity(with_nothing)
    assert "install" in (await why_not(with_nothing) or "")


async def test_singularity_does_when_there_is_no_apptainer(tmp_path: Path) -> None:
    install(tmp_path, "singularity", "stand_in_apptainer")
    only = opening(tmp_path)
    only.variables["PATH"] = str(tmp_path / "bin")
    assert await why_not(only) is None
    assert load_plugin("environments", "singularity") is open_singularity
