"""A throwaway account that needs a password for sudo, and commands run in its name.

Run as a program it is that account: it opens a place on this machine, runs what its input says, and
tells what came of it, one JSON object a line.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from hermes.core.protocols import BackgroundProcess
from hermes.environments.local import LocalEnvironment
from hermes.environments.sudo import open_password_agent

RIGHT = "Tr0ub4dor & 3 'quoted' \\ $HOME"
USER, NUMBER = "sudoer", 7711
RULES = f"root ALL=(ALL:ALL) ALL\n{USER} ALL=(ALL:ALL) ALL\nDefaults timestamp_timeout=0\n"
_APART = r"""
for file in passwd shadow group sudoers; do mount --bind "$1/$file" "/etc/$file"; done
mount -t tmpfs none /home
install -d -o "$2" /home/"$2"
exec "${@:3}"
"""
"""In a mount namespace of its own: nothing of this machine is changed."""


def make_account(folder: Path) -> None:
    """Files of /etc with an account that needs a password for sudo."""
    lines = {
        "passwd": f"{USER}:x:{NUMBER}:{NUMBER}::/home/{USER}:/bin/bash\n",
        "shadow": f"{USER}:{hashed(RIGHT)}:20000::::::\n",
        "group": f"{USER}:x:{NUMBER}:\n",
    }
    for name, line in lines.items():
        (folder / name).write_text((Path("/etc") / name).read_text() + line)
    (folder / "shadow").chmod(0o640)
    (folder / "sudoers").write_text(RULES)
    (folder / "sudoers").chmod(0o440)


def hashed(password: str) -> str:
    words = ["openssl", "passwd", "-6", "-stdin"]
    done = subprocess.run(words, input=password, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run_as(password: str, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """What came of each step, `run` or `start`, in the name of that account; at last what it left
    behind."""
    with tempfile.TemporaryDirectory(prefix="hermes-sudo-test-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        make_account(folder)
        home = folder / "home"
        home.mkdir()
        os.chown(home, NUMBER, NUMBER)
        apart = ["unshare", "--mount", "bash", "-ec", _APART, "apart", made, USER]
        done = subprocess.run(
            [*apart, sys.executable, __file__, str(home)],
            input=json.dumps({"password": password, "steps": steps}),
            env={"PATH": os.environ["PATH"], "HOME": f"/home/{USER}", "LANG": "C.UTF-8"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def main(home: Path) -> None:
    """The interpreter may lie where only root can read: what is needed is loaded by now."""
    os.setgroups([])
    os.setgid(NUMBER)
    os.setuid(NUMBER)
    told, before = json.loads(sys.stdin.read()), session_folders()
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")}
    session_folder = open_password_agent(told["password"], owner=os.getpid())
    place = LocalEnvironment(home, variables, processes=home / "processes", sudo=session_folder)
    async with place:
        for step in told["steps"]:
            if "run" in step:
                result = await place.run(step["run"], timeout=120)
                tell(code=result.exit_code, output=result.output)
            else:
                process = await place.start(step["start"], pty=step.get("pty", False))
                output = await read_all(process)
                tell(code=await process.wait(), output=output)
    tell(left=sorted(session_folders() - before))


def session_folders() -> set[str]:
    found = Path(tempfile.gettempdir()).glob(".hermes-sudo-*")
    return {file.name for file in found if file.stat().st_uid == os.getuid()}


async def read_all(process: BackgroundProcess) -> str:
    pieces = []
    with anyio.fail_after(120):
        while piece := await process.output():
            pieces.append(piece)
    return b"".join(pieces).decode(errors="replace")


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
