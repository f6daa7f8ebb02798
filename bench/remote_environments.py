"""What a command costs in a container and over ssh, beside the client program used by hand.

usage: python bench/remote_environments.py [--times N]
Needs root and Linux: a docker daemon and an sshd of our own are started for it, as for the tests.
Both sides are asked in turn, so that a busy machine is busy for both; the figure is the median.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/environments"))

import real_docker
import real_ssh

from hermes.environments.docker import open_docker
from hermes.environments.processes.run import run_to_end
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.ssh import open_ssh

LIMIT = 1.2
THINKING = 0.3
"""Seconds between two commands of an agent: less than any model takes."""


async def by_hand(argv: Sequence[str], variables: dict[str, str]) -> None:
    result = await run_to_end(argv, variables, tree="none", timeout=30)
    assert result.exit_code == 0, result


async def timed(act: Callable[[], Awaitable[object]], pause: float) -> float:
    await anyio.sleep(pause)
    started = time.perf_counter()
    await act()
    return (time.perf_counter() - started) * 1e3


async def compare(
    name: str, place: RemoteEnvironment, argv: Sequence[str], variables: dict[str, str], times: int
) -> bool:
    async def ours() -> None:
        assert (await place.run("true")).exit_code == 0

    async def theirs() -> None:
        await by_hand(argv, variables)

    met = True
    for pace, pause in (("one after the other", 0.0), ("with a thought between", THINKING)):
        pairs = []
        for block in range(times // 5 + 1):
            first = [await timed(theirs, pause) for _ in range(5)]
            second = [await timed(ours, pause) for _ in range(5)]
            if block:  # the first warms up
                pairs += list(zip(first, second, strict=True))
        floor, mine = (statistics.median(side) for side in zip(*pairs, strict=True))
        met = met and mine <= LIMIT * floor
        print(
            f"| {name}, {pace} | {mine:.1f} ms | {floor:.1f} ms | {mine / floor:.2f} | ≤ {LIMIT} |"
        )
    return met


async def docker(home: Path, times: int) -> bool:
    given = real_docker.opening(home)
    async with open_docker(given) as place:
        id = (await place.run("hostname")).output.strip()
        program = str(shutil.which("docker"))
        argv = [program, "--host", given.settings.docker_host, "exec", id, "true"]
        return await compare("docker exec", place, argv, dict(given.variables), times)


async def ssh(home: Path, times: int) -> bool:
    given = real_ssh.opening(home)
    settings = given.settings
    async with open_ssh(given) as place:
        options = {
            "ControlPath": f"{home}/by-hand",
            "ControlPersist": "60",
            "ControlMaster": "auto",
            "UserKnownHostsFile": f"{home}/known_hosts",
        }
        argv = [str(shutil.which("ssh")), "-T", "-i", settings.ssh_key, "-l", settings.ssh_user]
        argv += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        argv += ["-p", str(settings.ssh_port), settings.ssh_host]
        await by_hand([*argv, "true"], dict(given.variables))
        try:
            return await compare(
                "multiplexed ssh", place, [*argv, "true"], dict(given.variables), times
            )
        finally:
            await by_hand([*argv[:1], "-O", "exit", *argv[1:]], dict(given.variables))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=40)
    times = parser.parse_args().times
    print("| a command | ours | by hand | ours ÷ by hand | target |\n|---|---|---|---|---|")
    try:
        with tempfile.TemporaryDirectory() as home:
            met = [anyio.run(kind, Path(home), times) for kind in (docker, ssh)]
    finally:
        real_docker.stop()
        real_ssh.stop()
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
