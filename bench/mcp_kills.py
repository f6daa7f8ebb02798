"""Kills Hermes with five MCP servers open, many times, and counts what is left.

usage: python bench/mcp_kills.py [--kills 100] [--servers 5]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STAND_IN = Path(__file__).parents[1] / "tests" / "standins" / "mcp_server.py"
TOOL = {"name": "show", "description": "Shows it.", "inputSchema": {"type": "object"}}
OWNER = """
import sys, anyio
from pathlib import Path
from hermes.app.mcp.servers import open_servers
from hermes.integrations.mcp.pins import ServerAddress, ServerPin
from hermes.settings.load import load

async def main(home, count):
    async with open_servers(load(home=home), home, None) as servers:
        async def open_one(number):
            command = (sys.executable, "-I", sys.argv[3], str(home / "script.json"))
            pin = ServerPin(name=f"s{number}", address=ServerAddress(command=command))
            await servers.server(pin).listing()
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(open_one, number)
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
"""
BEHAVIOURS = ([], ["ignores signals"], ["leaves children"], ["ignores signals", "leaves children"])
WAIT_S = 20.0


def processes_of(home: Path, seconds: str) -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if not ended and (str(home / "script.json") in words or seconds in words):
            found.add(int(folder.name))
    return found


def kill_once(home: Path, number: int, servers: int) -> tuple[int, float]:
    """How many processes are left of one killed owner, and how long the last one lived."""
    seconds = f"3{number:03}.{os.getpid()}"
    bad = BEHAVIOURS[number % len(BEHAVIOURS)]
    plan = {"tools": [TOOL], "bad": bad, "sleep": seconds}
    (home / "script.json").write_text(json.dumps(plan))
    words = [sys.executable, "-c", OWNER, str(home), str(servers), str(STAND_IN)]
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    running = len(processes_of(home, seconds))
    assert running >= servers, f"only {running} processes"
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    killed = time.monotonic()
    while (left := processes_of(home, seconds)) and time.monotonic() < killed + WAIT_S:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left), time.monotonic() - killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--servers", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        results = [kill_once(home, number, given.servers) for number in range(given.kills)]
        records = list((home / "processes" / "piped").glob("*"))
    orphans, slowest = sum(left for left, _ in results), max(after for _, after in results)
    print(f"{given.kills} kills with {given.servers} servers: {orphans} processes left,")
    print(f"the last ended {slowest:.2f} s after the kill; {len(records)} records left")


if __name__ == "__main__":
    main()
